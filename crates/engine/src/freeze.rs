//! When to freeze the active memtable: a pure decision over values.
//!
//! Owns: [`choose_freeze`]. Does not own: the freezing (the conductor) or the counting (memtable and WAL).
//! Rows count physically, so one key overwritten for ever rotates too, and so does a memtable of tiny
//! entries.

use std::fmt;
use std::time::Duration;

use crate::settings::FreezeSettings;

/// What the active memtable has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemtableStats {
    /// Rows, replaced ones included.
    pub rows: u64,
    /// Resident bytes.
    pub bytes: u64,
    /// WAL entries its rows went into.
    pub entries: u64,
    /// Bytes of these entries.
    pub wal_bytes: u64,
    /// Time since its first row.
    pub age: Duration,
}

/// What is about to be put into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incoming {
    /// Rows.
    pub rows: u64,
    /// Resident bytes.
    pub bytes: u64,
}

/// Which limit says that the memtable is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FreezeReason {
    /// `freeze.max_rows`.
    Rows,
    /// `freeze.max_bytes`.
    Bytes,
    /// `freeze.max_entries`.
    Entries,
    /// `freeze.max_wal_bytes`.
    WalBytes,
    /// `freeze.max_age_ms`.
    Age,
    /// Somebody asked for it (`seal`, `close`); never chosen here.
    Asked,
    /// The process's memory budget is used up; never chosen here.
    Memory,
}

impl fmt::Display for FreezeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rows => "rows",
            Self::Bytes => "bytes",
            Self::Entries => "entries",
            Self::WalBytes => "wal bytes",
            Self::Age => "age",
            Self::Asked => "asked",
            Self::Memory => "memory",
        })
    }
}

/// Whether the memtable is to be frozen *before* `incoming` goes in: it has reached a limit, or `incoming`
/// would take it past one. An empty memtable is never frozen, so a put larger than a limit gets a memtable of
/// its own. With `Incoming::default()` the question is whether it is full already.
pub fn choose_freeze(
    memtable: &MemtableStats,
    incoming: Incoming,
    settings: &FreezeSettings,
) -> Option<FreezeReason> {
    if memtable.rows == 0 {
        return None;
    }
    let full = |now: u64, more: u64, limit: u64| now >= limit || now.saturating_add(more) > limit;
    let old = |limit_ms: u64| memtable.age >= Duration::from_millis(limit_ms);
    if full(memtable.rows, incoming.rows, u64::from(settings.max_rows)) {
        Some(FreezeReason::Rows)
    } else if full(memtable.bytes, incoming.bytes, settings.max_bytes) {
        Some(FreezeReason::Bytes)
    } else if memtable.entries >= settings.max_entries {
        Some(FreezeReason::Entries)
    } else if memtable.wal_bytes >= settings.max_wal_bytes {
        Some(FreezeReason::WalBytes)
    } else if settings.max_age_ms.is_some_and(old) {
        Some(FreezeReason::Age)
    } else {
        None
    }
}
