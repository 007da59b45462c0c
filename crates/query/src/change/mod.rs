//! Updates and deletes by condition: which rows, and what becomes of them.
//!
//! Owns: [`Change`], and the keys of the rows it is about ([`ReadSnapshot::matching_keys`]). Does not own:
//! writing the rows (`headwater`), conditions (`filter`). Both read what a read of the same snapshot reads
//! (P13).
//!
//! [`ReadSnapshot::matching_keys`]: crate::ReadSnapshot::matching_keys

mod assignment;
mod key_hash;
mod matching;
mod plan;

pub use plan::{Change, Statement};
