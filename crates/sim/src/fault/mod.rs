//! An object store in memory that fails as real ones do, by seed or by script.
//!
//! Owns: the objects, the number and record of every request, which fault each request meets, power cuts,
//! gates, and the observers that look at the objects after each change. Does not own: what the objects mean
//! (`history` and `audit` judge them).
//!
//! * [`FaultStore`] is the service; [`FaultStore::client`] is one process's view of it, an
//!   [`object_store::ObjectStore`]. A dead process's requests never end; a paused one's wait.
//! * [`FaultKind`] lists the faults, [`FaultPlan`] how often each is drawn, [`Script`] what happens to the
//!   k-th request, [`Gate`] holds requests back until released.
//!
//! Put-if-absent is decided at the moment a request is applied, however late that is.

mod client;
mod draw;
mod gate;
mod kind;
mod objects;
mod request;
mod service;

#[cfg(test)]
mod tests;

pub use draw::{FaultPlan, Script};
pub use gate::Gate;
pub use kind::{FaultCounts, FaultKind};
pub use objects::{Object, Objects};
pub use request::{ObjectKind, Op, Request};
pub use service::{Change, FaultStore, Observer};
