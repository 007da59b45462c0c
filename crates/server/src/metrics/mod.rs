//! What is counted, and how it is told.
//!
//! - [`declared`]: the one table of all metrics: name, kind, unit, help, labels. Registration and the page
//!   `docs/metrics.md` both come from it.
//! - [`http`]: what is counted here, as requests come. [`tables`]: what tables tell when they are asked.
//! - [`Metrics`] (`registry`): all of it, as Prometheus reads it. [`page`]: as people do.

pub mod declared;
pub mod http;
pub mod page;
mod registry;
pub mod tables;

pub use declared::{Declared, Kind};
pub use registry::{CONTENT_TYPE, Metrics};
