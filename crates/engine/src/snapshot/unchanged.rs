//! The condition of a conditional write: that no key of it was written since a snapshot.
//!
//! Owns: [`Unchanged`]. Does not own: the decision, which the conductor takes when it orders the write.

use headwater_format::coord::{Epoch, Seq};

/// "No key of this write has a row that [the snapshot](super::ShardSnapshot::unchanged) does not see."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unchanged {
    /// The snapshot's cut: rows from this `Seq` on are newer.
    pub since: Seq,
    /// The writer whose order the `Seq` belongs to.
    pub epoch: Epoch,
}
