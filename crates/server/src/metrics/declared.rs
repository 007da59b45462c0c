//! The one table of all metrics.
//!
//! Owns: [`Declared`], one constant a metric, and [`ALL`] of them in the order of the page. Does not own: how
//! a value is come by.

#![expect(missing_docs, reason = "each metric says what it is in its help")]

/// What kind of number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process or its shard starts anew.
    Counter,
    /// A number of this moment.
    Gauge,
    /// How values were distributed.
    Histogram,
}

/// What a number counts, where it is not just a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name without prefix, unit and `_total`.
    pub name: &'static str,
    /// What kind of number.
    pub kind: Kind,
    /// What it counts.
    pub unit: Option<Unit>,
    /// What it says, for people.
    pub help: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
}

/// Beginning of every name.
pub const PREFIX: &str = "headwater";

impl Kind {
    /// As Prometheus spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Unit {
    /// As Prometheus spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
        }
    }
}

impl Declared {
    /// Its name on the page, `_total` of counters excepted.
    pub fn family(&self) -> String {
        match self.unit {
            Some(unit) => format!("{PREFIX}_{}_{}", self.name, unit.name()),
            None => format!("{PREFIX}_{}", self.name),
        }
    }

    /// Its name in a query.
    pub fn series(&self) -> String {
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{total}", self.family())
    }

    const fn new(
        name: &'static str,
        kind: Kind,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind, unit: None, help, labels }
    }

    const fn in_unit(self, unit: Unit) -> Self {
        Self { unit: Some(unit), ..self }
    }
}

const OF_TABLE: &[&str] = &["database", "table"];
const OF_REQUESTS: &[&str] = &["database", "table", "request", "object"];

use Kind::{Counter, Gauge, Histogram};
use Unit::{Bytes, Seconds};

pub const HTTP_REQUESTS: Declared = Declared::new(
    "http_requests",
    Counter,
    &["method", "route", "status"],
    "Requests answered, refused ones included",
);
pub const HTTP_DURATION: Declared = Declared::new(
    "http_request_duration",
    Histogram,
    &["route"],
    "From the head of a request to the head of its reply, request body included",
)
.in_unit(Seconds);
pub const HTTP_ERRORS: Declared =
    Declared::new("http_errors", Counter, &["kind"], "Requests answered with an error, by what it says");
pub const HTTP_IN_FLIGHT: Declared = Declared::new(
    "http_in_flight",
    Gauge,
    &["class"],
    "Requests under way, replies still being sent included",
);
pub const HTTP_BODIES: Declared =
    Declared::new("http_bodies", Gauge, &[], "Memory that request bodies are counted with").in_unit(Bytes);
pub const HTTP_CONNECTIONS: Declared = Declared::new("http_connections", Gauge, &[], "Open connections");
pub const OPEN_TABLES: Declared =
    Declared::new("open_tables", Gauge, &[], "Tables that are open, with a write tier and without");
pub const ACK_DURATION: Declared = Declared::new(
    "ack_duration",
    Histogram,
    OF_TABLE,
    "From the moment a put was ordered to its acknowledgement; its count is that of acknowledged puts",
)
.in_unit(Seconds);
pub const ROWS: Declared = Declared::new("rows", Counter, OF_TABLE, "Rows accepted, deletes included");
pub const PAYLOAD: Declared =
    Declared::new("payload", Counter, OF_TABLE, "Payload of the rows accepted").in_unit(Bytes);
pub const GROUP_PUTS: Declared =
    Declared::new("group_puts", Histogram, OF_TABLE, "Puts that went out together as one WAL entry");
pub const WAL_ENTRIES: Declared = Declared::new("wal_entries", Counter, OF_TABLE, "WAL entries written");
pub const WAL_BYTES: Declared =
    Declared::new("wal", Counter, OF_TABLE, "Size of the WAL entries written").in_unit(Bytes);
pub const WAL_PENDING_ROWS: Declared =
    Declared::new("wal_pending_rows", Gauge, OF_TABLE, "Rows accepted and not durable yet");
pub const WAL_LAG: Declared = Declared::new(
    "wal_lag_entries",
    Gauge,
    OF_TABLE,
    "WAL entries above the replay cursors: what a crash now would have replayed",
);
pub const MEMTABLE_BYTES: Declared =
    Declared::new("memtables", Gauge, OF_TABLE, "Memory of memtables, their indexes included").in_unit(Bytes);
pub const INDEX_BYTES: Declared =
    Declared::new("memtable_indexes", Gauge, OF_TABLE, "Memory of the indexes of memtables").in_unit(Bytes);
pub const FROZEN: Declared =
    Declared::new("frozen_memtables", Gauge, OF_TABLE, "Frozen memtables that wait for their flush");
pub const FLUSH_DURATION: Declared = Declared::new(
    "flush_duration",
    Histogram,
    OF_TABLE,
    "Flushes that ended in a published SSTable; its count is that of SSTables published",
)
.in_unit(Seconds);
pub const SSTABLES: Declared =
    Declared::new("sstables", Gauge, OF_TABLE, "SSTables that the shard manifests name");
pub const SHADOW_BYTES: Declared = Declared::new(
    "shadows",
    Gauge,
    OF_TABLE,
    "Memory of what reads keep: keys of SSTables, and what newer rows hide of SSTables and base",
)
.in_unit(Bytes);
pub const MEMORY_USED: Declared = Declared::new(
    "memory_used",
    Gauge,
    OF_TABLE,
    "Memory used of the budget of the table's shards, which tables may share",
)
.in_unit(Bytes);
pub const MEMORY_LIMIT: Declared =
    Declared::new("memory_limit", Gauge, OF_TABLE, "That budget; above it writes wait").in_unit(Bytes);
pub const SHARDS: Declared = Declared::new(
    "shards",
    Gauge,
    &["database", "table", "status"],
    "Shards this process writes, by whether they serve",
);
pub const SHARD_ERRORS: Declared = Declared::new(
    "shard_errors",
    Counter,
    &["database", "table", "kind"],
    "What went wrong in shards and was tried again, waited for or refused",
);
pub const REPEATED_TOKENS: Declared = Declared::new(
    "repeated_tokens",
    Counter,
    OF_TABLE,
    "Writes answered with an earlier one's acknowledgement, because they had its client token",
);
pub const STORAGE_REQUESTS: Declared =
    Declared::new("storage_requests", Counter, OF_REQUESTS, "Requests to storage, retries included");
pub const STORAGE_FAILURES: Declared =
    Declared::new("storage_failures", Counter, OF_REQUESTS, "Requests to storage without a usable answer");
pub const STORAGE_BYTES: Declared =
    Declared::new("storage", Counter, OF_REQUESTS, "Payload of requests to storage").in_unit(Bytes);

/// All of them, in the order of the page.
pub const ALL: &[Declared] = &[
    HTTP_REQUESTS,
    HTTP_DURATION,
    HTTP_ERRORS,
    HTTP_IN_FLIGHT,
    HTTP_BODIES,
    HTTP_CONNECTIONS,
    OPEN_TABLES,
    ACK_DURATION,
    ROWS,
    PAYLOAD,
    GROUP_PUTS,
    WAL_ENTRIES,
    WAL_BYTES,
    WAL_PENDING_ROWS,
    WAL_LAG,
    MEMTABLE_BYTES,
    INDEX_BYTES,
    FROZEN,
    FLUSH_DURATION,
    SSTABLES,
    SHADOW_BYTES,
    MEMORY_USED,
    MEMORY_LIMIT,
    SHARDS,
    SHARD_ERRORS,
    REPEATED_TOKENS,
    STORAGE_REQUESTS,
    STORAGE_FAILURES,
    STORAGE_BYTES,
];
