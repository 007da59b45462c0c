//! The write-ahead log of one shard: what makes a row durable.
//!
//! Owns: grouping puts into entries ([`queue`]), writing an entry at the tip ([`append`]), and finding the
//! tip, fencing it and reading the entries back ([`recover`]). Does not own: the bytes of an entry
//! (`headwater-format`), what a lost answer means (`headwater-store`). Keeps P1 (an acknowledged row is in an
//! entry that every successor replays), P7, P8.

pub mod append;
pub mod queue;
pub mod recover;
