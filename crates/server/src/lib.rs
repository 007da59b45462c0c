//! The LanceDB remote protocol over Headwater.
//!
//! - [`config`]: what a server can be told, by file, environment and flags. [`logs`]: what it logs. [`tls`].
//! - [`app`]: the one seam between what listens and what answers.
//! - [`serve`]: listening, connections, the way down. [`stack`]: what every request goes through before its
//!   route: [`observe`], [`auth`], [`limits`]. [`refusal`]: what is answered when it gets no further.
//!   [`class`]: whether a request reads or writes.
//! - [`metrics`]: what is counted, and the page that says so.

pub mod app;
pub mod auth;
pub mod class;
pub mod config;
mod held;
pub mod limits;
mod linger;
pub mod logs;
pub mod metrics;
pub mod observe;
pub mod refusal;
pub mod serve;
pub mod stack;
pub mod tls;
