//! Known faults of systems of this kind, switched on by tests that must catch them (reliability lane 14).
//!
//! The enum always exists so that no signature changes; it is honoured only with the cargo feature `plants`,
//! which releases never enable.

/// A fault to plant in one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Plants {
    /// The engine as it is.
    #[default]
    None,
    /// lance#8293: the error of a failed flush is dropped, the generation forgotten, and the next one
    /// published.
    FlushErrorDropped,
    /// lance#7760: durability is compared with positions that start again at every rotation, so the first put
    /// after a rotation is acknowledged before its own WAL entry exists.
    DurabilityPerGeneration,
    /// lance#7110: a claim bumps the epoch but puts no sentinel at the tip of the WAL.
    ClaimWithoutSentinel,
    /// lance#9035: a flush does not wait until every index has applied every row.
    FlushBeforeIndexed,
    /// A conditional write is written whatever its condition says: lost updates.
    ConditionIgnored,
    /// A flush covers entries and does not record that they carry client tokens: the next writer has
    /// forgotten them.
    TokenForgotten,
    /// A reader elsewhere steps over the entry that begins a generation (P8 of its reading).
    FollowerSkipsEntry,
    /// lance#6814 in a reader elsewhere: a frozen memtable leaves its read set before its SSTable is named.
    FollowerForgetsFrozen,
}

impl Plants {
    /// Whether `fault` is planted here.
    pub fn has(self, fault: Self) -> bool {
        cfg!(feature = "plants") && self == fault && fault != Self::None
    }
}
