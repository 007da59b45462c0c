//! Tables with a write tier, through the `headwater` library.
//!
//! [`write`] puts rows into the WAL, [`read`] reads all tiers, [`change`] updates and deletes by predicate,
//! [`tier`] is about the tier itself.

pub mod change;
pub mod read;
pub mod tier;
pub mod write;
