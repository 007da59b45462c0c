//! The LanceDB remote protocol over Headwater: what an unmodified LanceDB client can use as its server.
//!
//! Owns: databases and their tables over HTTP ([`router`], [`Service`]). Tables without a write tier are
//! plain Lance tables; with one, rows go through the WAL and reads see all tiers. Does not own: tables
//! themselves (`headwater`, Lance), or sockets and processes.
//!
//! [`names`] says what there may be, [`service`] keeps what is open, [`tables`] does the work, [`routes`]
//! speak HTTP, [`bodies`] and [`ipc`] are what goes over the wire.

pub mod access;
pub mod bodies;
pub mod error;
pub mod ipc;
mod json;
mod linger;
pub mod names;
pub mod router;
pub mod routes;
pub mod service;
pub mod storage;
pub mod tables;

pub use access::Grant;
pub use error::ApiError;
pub use router::router;
pub use service::Service;
