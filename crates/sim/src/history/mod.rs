//! What clients were told, and whether it was true.
//!
//! Owns: the record of every write and read of a run ([`History`]) and its check against the WAL as it lies
//! on storage ([`check`]). With one writer a shard has one order, that of the WAL, so a read is right iff it
//! equals the fold of some prefix of the WAL that is long enough for what was acknowledged before, and never
//! shorter than what the same session saw before (P1, P2, P3, P4, P6). Writes: acknowledged ones are in the
//! WAL at the position and in the order they were told, once, whole (P1, P3, P7, P12); refused ones are
//! nowhere (P2). A conditional write follows what it was decided on (P3), a repeated one is where the first
//! is (P12).
//!
//! Pure: values in, violations out. Does not own: how a run comes about (`scenario`), storage (`audit`).

mod check;
mod fold;
mod promises;
mod record;

#[cfg(test)]
mod tests;

pub use check::{Rules, check};
pub use fold::Fold;
pub use record::{
    History, Level, OpKind, OpRecord, Outcome, ReadRecord, RetryRecord, SessionId, SessionRecord, Told,
};
