//! Coordinates: one newtype per kind of number, so that an epoch is never mistaken for a position.
//!
//! Owns: [`Epoch`], [`WalPosition`], [`Generation`], [`Seq`], [`ManifestVersion`], [`RowOffset`],
//! [`ShardId`]. All but [`RowOffset`] are counted from 1 on storage; 0 means "nothing yet" (P8).

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! coordinate {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name($int);

        impl $name {
            /// The coordinate before the first one.
            pub const ZERO: Self = Self(0);
            /// The largest coordinate; never reached.
            pub const MAX: Self = Self(<$int>::MAX);

            /// Wraps a plain number.
            pub const fn new(value: $int) -> Self {
                Self(value)
            }

            /// The plain number.
            pub const fn get(self) -> $int {
                self.0
            }

            /// The coordinate after this one. Saturates at `MAX`, which no shard reaches.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }

            /// The coordinate `n` further on. Saturates.
            #[must_use]
            pub const fn plus(self, n: $int) -> Self {
                Self(self.0.saturating_add(n))
            }

            /// The coordinate before this one; `ZERO` stays `ZERO`.
            #[must_use]
            pub const fn previous(self) -> Self {
                Self(self.0.saturating_sub(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

coordinate!(
    /// Ownership token of a shard's writer; a larger one fences every smaller one (P7).
    Epoch, u64);
coordinate!(
    /// Position of an entry in a shard's WAL: 1, 2, 3, … without holes (P8). 0 = nothing covered.
    WalPosition, u64);
coordinate!(
    /// Number of a memtable and of the SSTable it becomes: 1, 2, 3, … in publish order (P11). 0 = the base.
    Generation, u64);
coordinate!(
    /// Place of a row in the order its shard accepted rows. Lives in memory only; a snapshot is a number `S`
    /// and a row is live at `S` iff `seq < S <= superseded_by` and it is no tombstone (P4, P6).
    Seq, u64);
coordinate!(
    /// Version of a shard manifest: 1, 2, 3, … without gaps.
    ManifestVersion, u64);
coordinate!(
    /// Index of a row in its memtable or SSTable, from 0.
    RowOffset, u32);

/// Identity of a shard: the name of its directory under `_mem_wal/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShardId(Uuid);

impl ShardId {
    /// Wraps a UUID.
    pub const fn new(id: Uuid) -> Self {
        Self(id)
    }

    /// The UUID.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.hyphenated(), f)
    }
}

impl std::str::FromStr for ShardId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}
