//! Get: the live rows of some keys, without planning.
//!
//! Owns: [`GetRequest`] and the order in which sources are asked: memtables from the active one back,
//! SSTables newest first, then the base through its key index. What is in memory is found without a wait. A
//! key that was found is not looked for any further (P4), so no masks are needed; a tombstone is found, and
//! gives no row.

mod asked;
mod found;
mod point_read;
mod request;
mod sources;

pub use request::GetRequest;
