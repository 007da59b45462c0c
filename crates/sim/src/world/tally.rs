//! Sums over a run: what happened in the engine, by kind.

use std::collections::BTreeMap;

use headwater_engine::{ShardError, ShardStats};
use serde::Serialize;

use crate::fault::FaultCounts;

/// Sums over one or many runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Actions of scenarios.
    pub actions: u64,
    /// Store requests.
    pub requests: u64,
    /// Requests that repeated an earlier conditional write of the same process.
    pub retries: u64,
    /// Writes sent.
    pub writes: u64,
    /// Writes acknowledged.
    pub acked: u64,
    /// Reads of all live rows.
    pub reads: u64,
    /// Reads of them by processes that do not write.
    pub follows: u64,
    /// Snapshots read again later.
    pub rereads: u64,
    /// Successful opens.
    pub opens: u64,
    /// Sum of the counters of all writers, by name; freezes as `freeze: {reason}`.
    pub engine: BTreeMap<String, u64>,
    /// Errors callers saw, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Faults that took effect.
    pub faults: FaultCounts,
}

impl Tally {
    /// Adds the sums of another run.
    pub fn merge(&mut self, other: &Self) {
        self.actions += other.actions;
        self.requests += other.requests;
        self.retries += other.retries;
        self.writes += other.writes;
        self.acked += other.acked;
        self.reads += other.reads;
        self.follows += other.follows;
        self.rereads += other.rereads;
        self.opens += other.opens;
        for (name, count) in &other.engine {
            *self.engine.entry(name.clone()).or_default() += count;
        }
        for (name, count) in &other.errors {
            *self.errors.entry(name.clone()).or_default() += count;
        }
        self.faults.merge(&other.faults);
    }

    /// Adds what a writer counted in its life.
    pub fn writer_ended(&mut self, stats: &ShardStats) {
        let counters = &stats.counters;
        let sums = [
            ("flushes", counters.flushes),
            ("flush failures", counters.flush_failures),
            ("look failures", counters.look_failures),
            ("replayed entries", counters.replayed_entries),
            ("replayed rows", counters.replayed_rows),
            ("replay rotations", counters.replay_rotations),
            ("backpressure waits", counters.backpressure_waits),
            ("wal entries", counters.wal_entries),
            ("failed conditions", counters.failed_conditions),
            ("repeated tokens", counters.repeated_tokens),
        ];
        for (name, count) in sums {
            *self.engine.entry(name.to_owned()).or_default() += count;
        }
        for (reason, count) in &counters.freezes {
            *self.engine.entry(format!("freeze: {reason}")).or_default() += count;
            *self.engine.entry("rotations".to_owned()).or_default() += count;
        }
    }

    /// Counts an error by its kind.
    pub fn error(&mut self, error: &ShardError) {
        *self.errors.entry(kind(error).to_owned()).or_default() += 1;
    }

    /// How often the engine did `name`.
    pub fn engine(&self, name: &str) -> u64 {
        self.engine.get(name).copied().unwrap_or_default()
    }

    /// How often callers saw an error of `kind`.
    pub fn errors(&self, kind: &str) -> u64 {
        self.errors.get(kind).copied().unwrap_or_default()
    }
}

/// The kind of an error, as its variant is called.
pub(crate) fn kind(error: &ShardError) -> &'static str {
    match error {
        ShardError::Invalid { .. } => "invalid",
        ShardError::Fenced { .. } => "fenced",
        ShardError::Poisoned { .. } => "poisoned",
        ShardError::Backpressure { .. } => "backpressure",
        ShardError::Unavailable { .. } => "unavailable",
        ShardError::UnknownOutcome { .. } => "unknown outcome",
        ShardError::Corrupt { .. } => "corrupt",
        ShardError::Conflict { .. } => "conflict",
        ShardError::ConditionFailed { .. } => "condition failed",
        ShardError::Sealed { .. } => "sealed",
        ShardError::Closed { .. } => "closed",
        ShardError::SnapshotExpired { .. } => "snapshot expired",
        ShardError::SchemaChanged { .. } => "schema changed",
        ShardError::Internal { .. } => "internal",
        _ => "other",
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{:>9} actions, {} store requests, {} of them retries",
            self.actions, self.requests, self.retries
        )?;
        writeln!(f, "{:>9} writes, {} acknowledged", self.writes, self.acked)?;
        writeln!(
            f,
            "{:>9} reads, {} of followers, {} of old snapshots again; {} opens",
            self.reads, self.follows, self.rereads, self.opens
        )?;
        let lines = |f: &mut std::fmt::Formatter<'_>, title: &str, sums: &BTreeMap<String, u64>| {
            writeln!(f, "{title}:")?;
            sums.iter().try_for_each(|(name, count)| writeln!(f, "{count:>9} {name}"))
        };
        lines(f, "engine", &self.engine)?;
        lines(f, "errors seen", &self.errors)?;
        writeln!(f, "faults that took effect:")?;
        self.faults.iter().try_for_each(|(kind, count)| writeln!(f, "{count:>9} {kind}"))
    }
}
