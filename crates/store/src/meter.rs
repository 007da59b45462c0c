//! Counts requests to storage.
//!
//! Owns: [`Meter`] (requests, failures and bytes by request class and kind of object) and its snapshots.
//! Every attempt counts, retries included, because every attempt is paid for (B1). Does not own: budgets. Fed
//! by [`crate::Store`]; read by stats, `make run` and tests.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_format::path::{MEM_WAL_DIR, parse_sstable_name};
use serde::{Deserialize, Serialize};

/// The classes of requests object stores bill and limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Writes of whole objects, conditional or not.
    Put,
    /// Reads of whole objects.
    Get,
    /// Existence checks.
    Head,
    /// Listings; one for each call, however many pages it takes.
    List,
    /// Deletions.
    Delete,
}

impl Request {
    /// All classes.
    pub const ALL: [Self; 5] = [Self::Put, Self::Get, Self::Head, Self::List, Self::Delete];
}

/// The kinds of objects, told from their path below the table root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// WAL entries.
    Wal,
    /// Versions of a shard manifest.
    Manifest,
    /// Version hints.
    Hint,
    /// Files of SSTables.
    Sstable,
    /// Files of the base table.
    Base,
    /// Anything else, such as a listing of `_mem_wal/` itself.
    Other,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Wal, Self::Manifest, Self::Hint, Self::Sstable, Self::Base, Self::Other];

    /// The kind of the object or prefix at `path`, relative to the table root.
    pub fn of(path: &str) -> Self {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        match parts.next() {
            Some(MEM_WAL_DIR) => {}
            Some("data" | "_versions" | "_indices" | "_deletions" | "_transactions") => return Self::Base,
            _ => return Self::Other,
        }
        match (parts.nth(1), parts.next()) {
            (Some("wal"), _) => Self::Wal,
            (Some("manifest"), Some("version_hint.json")) => Self::Hint,
            (Some("manifest"), _) => Self::Manifest,
            (Some(name), _) if parse_sstable_name(name).is_some() => Self::Sstable,
            _ => Self::Other,
        }
    }
}

#[derive(Debug, Default)]
struct Cell {
    requests: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
}

/// Counters of requests, shared by whoever talks to one table. All operations are lock-free.
#[derive(Debug, Default)]
pub struct Meter {
    cells: [[Cell; Kind::ALL.len()]; Request::ALL.len()],
}

impl Meter {
    /// A meter at zero.
    pub fn new() -> Self {
        Self::default()
    }

    fn cell(&self, request: Request, kind: Kind) -> Option<&Cell> {
        self.cells.get(request as usize)?.get(kind as usize)
    }

    /// Counts one request that is about to be sent, with the bytes it carries.
    pub fn sent(&self, request: Request, kind: Kind, bytes: u64) {
        if let Some(cell) = self.cell(request, kind) {
            cell.requests.fetch_add(1, Ordering::Relaxed);
            cell.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Counts bytes that came back.
    pub fn received(&self, request: Request, kind: Kind, bytes: u64) {
        if let Some(cell) = self.cell(request, kind) {
            cell.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Counts a request that got no usable answer. "Not there" and "already there" are answers.
    pub fn failed(&self, request: Request, kind: Kind) {
        if let Some(cell) = self.cell(request, kind) {
            cell.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counters now. Each is exact; together they may be a few requests apart.
    pub fn snapshot(&self) -> MeterSnapshot {
        let mut rows = Vec::new();
        for request in Request::ALL {
            for kind in Kind::ALL {
                let Some(cell) = self.cell(request, kind) else { continue };
                let counts = Counts {
                    requests: cell.requests.load(Ordering::Relaxed),
                    failed: cell.failed.load(Ordering::Relaxed),
                    bytes: cell.bytes.load(Ordering::Relaxed),
                };
                if counts != Counts::default() {
                    rows.push(MeterRow { request, kind, counts });
                }
            }
        }
        MeterSnapshot { rows }
    }
}

/// Counters of one class of requests for one kind of object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests sent, retries included.
    pub requests: u64,
    /// Those of them that got no usable answer.
    pub failed: u64,
    /// Payload bytes sent (puts) or received (gets).
    pub bytes: u64,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            failed: self.failed + other.failed,
            bytes: self.bytes + other.bytes,
        }
    }

    fn minus(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            failed: self.failed.saturating_sub(earlier.failed),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

/// One line of a [`MeterSnapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterRow {
    /// Class of requests.
    pub request: Request,
    /// Kind of object.
    pub kind: Kind,
    /// Their counters.
    #[serde(flatten)]
    pub counts: Counts,
}

/// What a [`Meter`] had counted: lines that are not zero, in the order of [`Request::ALL`] and [`Kind::ALL`].
/// Displays as a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterSnapshot {
    /// The lines.
    pub rows: Vec<MeterRow>,
}

impl MeterSnapshot {
    /// The counters of one class and kind.
    pub fn get(&self, request: Request, kind: Kind) -> Counts {
        self.sum(|row| row.request == request && row.kind == kind)
    }

    /// The counters of one class over all kinds.
    pub fn of_request(&self, request: Request) -> Counts {
        self.sum(|row| row.request == request)
    }

    /// The counters of one kind over all classes.
    pub fn of_kind(&self, kind: Kind) -> Counts {
        self.sum(|row| row.kind == kind)
    }

    /// The counters over everything.
    pub fn total(&self) -> Counts {
        self.sum(|_| true)
    }

    /// What was counted after `earlier`, a snapshot of the same meter.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let rows = self
            .rows
            .iter()
            .map(|row| MeterRow { counts: row.counts.minus(earlier.get(row.request, row.kind)), ..*row });
        Self { rows: rows.filter(|row| row.counts != Counts::default()).collect() }
    }

    fn sum(&self, wanted: impl Fn(&MeterRow) -> bool) -> Counts {
        self.rows.iter().filter(|row| wanted(row)).fold(Counts::default(), |sum, row| sum.plus(row.counts))
    }
}

impl fmt::Display for MeterSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<8} {:<9} {:>10} {:>8} {:>14}", "request", "object", "requests", "failed", "bytes")?;
        for row in &self.rows {
            // Debug names are the variant names; lower case is how the rest of the output spells them.
            let request = format!("{:?}", row.request).to_lowercase();
            let kind = format!("{:?}", row.kind).to_lowercase();
            let Counts { requests, failed, bytes } = row.counts;
            writeln!(f, "{request:<8} {kind:<9} {requests:>10} {failed:>8} {bytes:>14}")?;
        }
        let Counts { requests, failed, bytes } = self.total();
        write!(f, "{:<8} {:<9} {requests:>10} {failed:>8} {bytes:>14}", "all", "all")
    }
}

#[cfg(test)]
mod tests;
