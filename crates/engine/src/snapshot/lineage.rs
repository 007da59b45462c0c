//! Whose `Seq`s a snapshot counts in.
//!
//! Owns: [`Lineage`]. `Seq`s are not stored: whoever reads the WAL gives them out anew, so they can be
//! compared only with those of the same reading. What is kept by `Seq` from one snapshot to the next (the
//! shadows of a read cache) is kept by lineage.

use headwater_format::coord::Epoch;
use uuid::Uuid;

/// One unbroken reading of a shard's WAL. Within a shard no two readings share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lineage {
    /// The writer of this epoch.
    Writer(Epoch),
    /// A follower, since it last had to start from the shard manifest.
    Follower {
        /// Drawn when the follower was made.
        reader: Uuid,
        /// How often it has started, this time included.
        start: u64,
    },
}

impl Lineage {
    /// Whether it took the place of `other`, so that no newer snapshot will be of `other`.
    pub fn succeeds(self, other: Self) -> bool {
        match (self, other) {
            (Self::Writer(ours), Self::Writer(theirs)) => ours > theirs,
            (Self::Follower { reader, start }, Self::Follower { reader: other, start: earlier }) => {
                reader == other && start > earlier
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_format::coord::Epoch;
    use uuid::Uuid;

    use super::Lineage;

    #[test]
    fn a_lineage_succeeds_earlier_ones_of_the_same_reader_only() {
        let writer = |epoch| Lineage::Writer(Epoch::new(epoch));
        let follower = |reader, start| Lineage::Follower { reader: Uuid::from_u128(reader), start };
        assert!(writer(2).succeeds(writer(1)) && !writer(1).succeeds(writer(1)));
        assert!(follower(7, 2).succeeds(follower(7, 1)) && !follower(7, 1).succeeds(follower(7, 2)));
        assert!(!follower(7, 2).succeeds(follower(8, 1)));
        assert!(!follower(7, 2).succeeds(writer(1)) && !writer(2).succeeds(follower(7, 1)));
    }
}
