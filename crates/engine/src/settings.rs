//! Settings of a shard: plain data, unknown fields refused.
//!
//! Owns: [`ShardSettings`], its defaults and checks. Does not own: components (stores, tables, budgets),
//! which are handed over as `ShardParts`. The freeze defaults are what the reference implementation can
//! replay at *its* own defaults; raise them when takeover by it does not matter.

use std::time::Duration;

use headwater_store::RetryPolicy;
use serde::{Deserialize, Serialize};

/// The smallest `wal.max_entry_bytes`: below it ordinary single rows would be refused.
pub const MIN_ENTRY_BYTES: u64 = 1024;
/// The largest `wal.max_entry_bytes`: text offsets of one batch are 32 bits.
pub const MAX_ENTRY_BYTES: u64 = 1 << 30;
/// The largest `wal.linger_ms`: a minute-long put is a mistake.
pub const MAX_LINGER_MS: u64 = 10_000;
/// The largest `wal.company_percent`.
pub const MAX_COMPANY_PERCENT: u64 = 100;

/// The largest `tokens.window_ms`, a day: each open reads the WAL entries of that time again.
pub const MAX_TOKEN_WINDOW_MS: u64 = 86_400_000;

/// Everything that can be set for a shard. Every field has a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShardSettings {
    /// When the active memtable is frozen.
    pub freeze: FreezeSettings,
    /// How rows reach the WAL.
    pub wal: WalSettings,
    /// How frozen memtables become SSTables.
    pub flush: FlushSettings,
    /// When writers wait, and how long.
    pub backpressure: BackpressureSettings,
    /// How storage requests are retried.
    pub retry: RetryPolicy,
    /// How long reads are served.
    pub reads: ReadSettings,
    /// How client tokens are remembered.
    pub tokens: TokenSettings,
}

/// When the active memtable is frozen: at whichever limit is reached first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FreezeSettings {
    /// Rows, replaced ones included. Also the most rows one put may have.
    pub max_rows: u32,
    /// Resident bytes.
    pub max_bytes: u64,
    /// WAL entries.
    pub max_entries: u64,
    /// Bytes of WAL entries.
    pub max_wal_bytes: u64,
    /// Milliseconds since its first row; none = age alone freezes nothing.
    pub max_age_ms: Option<u64>,
}

impl Default for FreezeSettings {
    fn default() -> Self {
        Self {
            max_rows: 100_000,
            max_bytes: 256 << 20,
            max_entries: 8_000,
            max_wal_bytes: 512 << 20,
            max_age_ms: None,
        }
    }
}

/// How rows reach the WAL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WalSettings {
    /// Payload bytes of one entry, and of one put: a larger put is refused.
    pub max_entry_bytes: u64,
    /// Milliseconds to wait for company before an entry is written while no PUT is in flight. 0 = none; about
    /// 5 for cloud stores trades latency for fewer PUTs.
    pub linger_ms: u64,
    /// Percent of the time a PUT took that the next one waits, 5 ms at most, for the clients just answered to
    /// come back; it goes out as soon as all are there. Where that is less than a millisecond, it waits until
    /// tasks that are ready have run. 0 = never.
    pub company_percent: u32,
    /// Compression of the bodies.
    pub compression: WalCompression,
    /// How many entries are fetched at once on recovery, at most; fewer when they are large.
    pub replay_parallelism: usize,
}

impl Default for WalSettings {
    fn default() -> Self {
        Self {
            max_entry_bytes: 16 << 20,
            linger_ms: 0,
            company_percent: 10,
            compression: WalCompression::default(),
            replay_parallelism: 128,
        }
    }
}

/// Compression of WAL entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalCompression {
    /// None on local disk, where compressing costs more time than the bytes; zstd elsewhere, where every byte
    /// travels twice. `docs/performance.md` has the figures.
    #[default]
    Auto,
    /// As it is.
    None,
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

impl WalCompression {
    /// What it comes to for a table on local disk, or elsewhere.
    #[must_use]
    pub fn resolved(self, on_local_disk: bool) -> Self {
        match self {
            Self::Auto if on_local_disk => Self::None,
            Self::Auto => Self::Zstd,
            chosen => chosen,
        }
    }
}

impl From<WalCompression> for headwater_format::wal_entry::Compression {
    fn from(compression: WalCompression) -> Self {
        match compression {
            WalCompression::None => Self::None,
            WalCompression::Lz4 => Self::Lz4,
            // Whoever knows that the table is on local disk has resolved it.
            WalCompression::Zstd | WalCompression::Auto => Self::Zstd,
        }
    }
}

/// How frozen memtables become SSTables. A failed flush is tried again for ever; it blocks those behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlushSettings {
    /// Milliseconds before the first retry of a failed flush; doubled each time.
    pub retry_base_ms: u64,
    /// The longest wait between two attempts, in milliseconds.
    pub retry_cap_ms: u64,
    /// Failed attempts after which `close` gives up and reports the error. The rows stay in the WAL.
    pub close_attempts: u32,
}

impl Default for FlushSettings {
    fn default() -> Self {
        Self { retry_base_ms: 100, retry_cap_ms: 10_000, close_attempts: 5 }
    }
}

/// When writers wait, and how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackpressureSettings {
    /// Milliseconds a put waits for memory before it fails retryably.
    pub timeout_ms: u64,
    /// Frozen memtables of one shard that may wait for their flush; past it, puts wait.
    pub max_frozen: usize,
}

impl Default for BackpressureSettings {
    fn default() -> Self {
        Self { timeout_ms: 30_000, max_frozen: 8 }
    }
}

/// How long reads are served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadSettings {
    /// A writer serves reads only while its epoch was confirmed on storage within this many milliseconds, so
    /// that a fenced one notices (P7).
    pub epoch_confirm_ms: u64,
    /// Milliseconds after which a snapshot expires; it keeps memtables in memory (P6).
    pub snapshot_max_age_ms: u64,
    /// Milliseconds for which a read takes for true what the process knows of the base and of which shards
    /// there are: what others commit to the base, and shards others make, are seen as much later at most. 0:
    /// each read asks storage.
    pub base_refresh_ms: u64,
    /// Snapshots that may be pinned at a time, on each open table.
    pub max_pinned_snapshots: usize,
}

impl Default for ReadSettings {
    fn default() -> Self {
        Self {
            epoch_confirm_ms: 5_000,
            snapshot_max_age_ms: 600_000,
            base_refresh_ms: 1_000,
            max_pinned_snapshots: 64,
        }
    }
}

/// How client tokens are remembered: every write that comes with one costs memory for as long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenSettings {
    /// Milliseconds in which a write with the token of an earlier one is taken for the same write. For as
    /// long, WAL entries are kept from collection, and read when the shard is opened.
    pub window_ms: u64,
    /// Tokens a shard remembers, a few hundred bytes each; past it, writes with a new one are refused
    /// retryably.
    pub max: usize,
}

impl Default for TokenSettings {
    fn default() -> Self {
        Self { window_ms: 600_000, max: 100_000 }
    }
}

/// A setting has a value it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {setting}: {reason}")]
pub struct InvalidSetting {
    /// Its path, e.g. `freeze.max_rows`.
    pub setting: &'static str,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl ShardSettings {
    /// Checks every value and the relations between them.
    ///
    /// # Errors
    /// [`InvalidSetting`] names the first setting at fault.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        self.validate_freeze()?;
        self.validate_wal()?;
        at_least("flush.retry_base_ms", self.flush.retry_base_ms, 1)?;
        at_least("flush.retry_cap_ms", self.flush.retry_cap_ms, self.flush.retry_base_ms)?;
        at_least("flush.close_attempts", u64::from(self.flush.close_attempts), 1)?;
        at_least("backpressure.max_frozen", self.backpressure.max_frozen as u64, 1)?;
        at_least("retry.max_attempts", u64::from(self.retry.max_attempts), 1)?;
        let base_ms = millis(self.retry.base);
        at_least("retry.base_ms", base_ms, 1)?;
        at_least("retry.cap_ms", millis(self.retry.cap), base_ms)?;
        at_least("retry.budget_ms", millis(self.retry.budget), 1)?;
        at_least("reads.epoch_confirm_ms", self.reads.epoch_confirm_ms, 1)?;
        at_least("reads.snapshot_max_age_ms", self.reads.snapshot_max_age_ms, 1)?;
        at_least("reads.max_pinned_snapshots", self.reads.max_pinned_snapshots as u64, 1)?;
        at_least("tokens.window_ms", self.tokens.window_ms, 1)?;
        at_most("tokens.window_ms", self.tokens.window_ms, MAX_TOKEN_WINDOW_MS)?;
        at_least("tokens.max", self.tokens.max as u64, 1)
    }

    fn validate_freeze(&self) -> Result<(), InvalidSetting> {
        at_least("freeze.max_rows", u64::from(self.freeze.max_rows), 1)?;
        // One offset is kept free, it stands for "no row".
        at_most("freeze.max_rows", u64::from(self.freeze.max_rows), u64::from(u32::MAX - 1))?;
        at_least("freeze.max_entries", self.freeze.max_entries, 1)?;
        at_least("freeze.max_wal_bytes", self.freeze.max_wal_bytes, 1)?;
        at_least("freeze.max_age_ms", self.freeze.max_age_ms.unwrap_or(1), 1)?;
        // A put is limited by the entry limit, so a smaller memtable could never take the largest put.
        at_least("freeze.max_bytes", self.freeze.max_bytes, self.wal.max_entry_bytes)
    }

    fn validate_wal(&self) -> Result<(), InvalidSetting> {
        at_least("wal.max_entry_bytes", self.wal.max_entry_bytes, MIN_ENTRY_BYTES)?;
        at_most("wal.max_entry_bytes", self.wal.max_entry_bytes, MAX_ENTRY_BYTES)?;
        at_most("wal.linger_ms", self.wal.linger_ms, MAX_LINGER_MS)?;
        at_most("wal.company_percent", u64::from(self.wal.company_percent), MAX_COMPANY_PERCENT)?;
        at_least("wal.replay_parallelism", self.wal.replay_parallelism as u64, 1)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn at_least(setting: &'static str, value: u64, least: u64) -> Result<(), InvalidSetting> {
    if value >= least {
        return Ok(());
    }
    Err(InvalidSetting { setting, reason: format!("{value} is too small, it must be at least {least}") })
}

fn at_most(setting: &'static str, value: u64, most: u64) -> Result<(), InvalidSetting> {
    if value <= most {
        return Ok(());
    }
    Err(InvalidSetting { setting, reason: format!("{value} is too large, it must be at most {most}") })
}
