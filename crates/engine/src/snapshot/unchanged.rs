//! The condition of a conditional write: that no key of it was written since a snapshot.
//!
//! Owns: [`Unchanged`]. Does not own: the decision, which the conductor takes when it orders the write.

use headwater_format::coord::{Epoch, Seq};

/// "No key of this write has a row that [the snapshot](super::ShardSnapshot::unchanged) does not see."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// The snapshot is one of the shard's writer.
    Since {
        /// The snapshot's cut: rows from this `Seq` on are newer.
        seq: Seq,
        /// The writer whose order the `Seq` belongs to.
        epoch: Epoch,
    },
    /// The snapshot knows nothing of the order the shard is written in, so it vouches for nothing: this
    /// condition never holds.
    Unknown,
}
