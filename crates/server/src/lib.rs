//! The LanceDB remote protocol over Headwater: what an unmodified LanceDB client can use as its server.
//!
//! Databases and their tables over HTTP. Tables without a write tier are plain Lance tables; with one, rows
//! go through the WAL and reads see all tiers. What answers:
//!
//! - [`names`] says what there may be, [`service`] keeps what is open, [`tables`] does the work, [`routes`]
//!   speak HTTP ([`router`]), [`bodies`] and [`ipc`] are what goes over the wire.
//!
//! And what is around it:
//!
//! - [`config`]: what a server can be told, by file, environment and flags. [`logs`]: what it logs. [`tls`].
//! - [`app`]: the one seam between what listens and what answers. [`idle`]: which tables stay open.
//! - [`serve`]: listening, connections, the way down. [`stack`]: what every request goes through before its
//!   route: [`observe`], [`auth`], [`limits`]. [`class`]: whether a request reads or writes. [`ready`]:
//!   whether it can do its work now.
//! - [`metrics`]: what is counted, and the page that says so.

pub mod app;
pub mod auth;
pub mod bodies;
pub mod class;
pub mod config;
pub mod error;
mod held;
pub mod idle;
pub mod ipc;
mod json;
pub mod limits;
mod linger;
pub mod logs;
pub mod metrics;
pub mod names;
pub mod observe;
pub mod ready;
pub mod router;
pub mod routes;
pub mod serve;
pub mod service;
pub mod stack;
mod stall;
pub mod storage;
pub mod tables;
pub mod tls;

pub use error::ApiError;
pub use router::router;
pub use service::Service;
