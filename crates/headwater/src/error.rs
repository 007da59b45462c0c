//! The one error of the library: what happened, where, and what to do about it.
//!
//! Owns: [`Error`], [`PutFailure`]. Does not own: the errors of a shard or of a table's files; they are
//! carried as sources, whole (P14). Nothing decides on the text of an error: match on the variants and their
//! sources.

use headwater_engine::error::ShardError;
use headwater_engine::table::TableError;
use headwater_format::coord::ShardId;
use headwater_query::QueryError;
use headwater_store::StoreError;

/// Why a table could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The base table or its MemWAL index: missing, not initialised, or not to be read.
    #[error("{}", of_table(table, source))]
    Table {
        /// Address of the table.
        table: String,
        /// What is wrong.
        source: std::sync::Arc<TableError>,
    },
    /// One shard could not do it. Nothing is said about other shards.
    #[error("{}", of_shard(table, *shard, source))]
    Shard {
        /// Address of the table.
        table: String,
        /// The shard.
        shard: ShardId,
        /// What the shard said.
        source: ShardError,
    },
    /// A write that went to several shards failed on some of them. There is no atomicity across shards: the
    /// parts of the others are durable. Writing the same batch again is safe on a table with a key.
    #[error("{} of {shards} shards refused their part of the write; the first: {first}", failures.len())]
    Put {
        /// How many shards the write went to.
        shards: usize,
        /// Rows that were acknowledged, on the other shards.
        rows_acknowledged: usize,
        /// The failed parts, by shard.
        failures: Vec<PutFailure>,
        /// The first of them, as an error of its own.
        first: Box<Error>,
    },
    /// Rows that cannot be routed: a missing or mistyped shard column, a null where none may be.
    #[error("table {table}: column {column}{}: {reason}", place(*row))]
    Rows {
        /// Address of the table.
        table: String,
        /// The column at fault.
        column: String,
        /// The first row at fault, counted from 0 in the batch, when it is a row and not the column as a
        /// whole.
        row: Option<usize>,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting nobody knows, or with a value it cannot have.
    #[error("setting {name}: {reason}")]
    Setting {
        /// Dotted name, as `freeze.max_rows`.
        name: String,
        /// What is wrong with it, and which settings there are nearby.
        reason: String,
    },
    /// An option for the object store that nobody reads.
    #[error("storage option {name}: {reason}")]
    StorageOption {
        /// The option.
        name: String,
        /// What is wrong with it, and which options there are nearby.
        reason: String,
    },
    /// Object storage, asked directly (by `inspect`).
    #[error("storage of table {table}: {source}")]
    Storage {
        /// Address of the table.
        table: String,
        /// What it said.
        source: std::sync::Arc<StoreError>,
    },
    /// A read that could not be answered.
    #[error("table {table}: {source}")]
    Read {
        /// Address of the table.
        table: String,
        /// Why not.
        source: std::sync::Arc<QueryError>,
    },
    /// A query over several tables that could not be answered.
    #[error("{source}")]
    Query {
        /// Why not; names the table where one is at fault.
        source: std::sync::Arc<QueryError>,
    },
    /// A pinned snapshot is too old, and gone.
    #[error(
        "snapshot {token} of table {table} is {age_ms} ms old, and after the {max_age_ms} ms of \
         reads.snapshot_max_age_ms it is gone: pin a new one"
    )]
    SnapshotExpired {
        /// Address of the table.
        table: String,
        /// Its token.
        token: String,
        /// Its age in milliseconds.
        age_ms: u64,
        /// The setting `reads.snapshot_max_age_ms`.
        max_age_ms: u64,
    },
    /// A token of no snapshot that is pinned.
    #[error(
        "table {table} has no snapshot {token} pinned: it was released, or pinned by another process or when \
         the table was open before; pin a new one"
    )]
    NoSuchSnapshot {
        /// Address of the table.
        table: String,
        /// The token.
        token: String,
    },
    /// As many snapshots are pinned as may be.
    #[error(
        "{pinned} snapshots of table {table} are pinned, and {max} may be: release some, or raise \
         reads.max_pinned_snapshots"
    )]
    TooManySnapshots {
        /// Address of the table.
        table: String,
        /// How many are pinned.
        pinned: usize,
        /// The setting `reads.max_pinned_snapshots`.
        max: usize,
    },
    /// Rows of an update or delete by condition that others write so fast that they could not be changed
    /// between two writes. Rows before them may be changed: sent again with its client token, the request
    /// goes on with these.
    #[error(
        "table {table}: others wrote {rows} of the rows {attempts} times while they were being changed; send \
         the request again"
    )]
    Contended {
        /// Address of the table.
        table: String,
        /// How many rows were to be changed together.
        rows: usize,
        /// How often it was tried.
        attempts: usize,
    },
    /// The table was closed in this process; open it again.
    #[error("table {table} was closed; open it again")]
    Closed {
        /// Address of the table.
        table: String,
    },
}

/// One shard's part of a write that failed.
#[derive(Clone, Debug)]
pub struct PutFailure {
    /// The shard.
    pub shard: ShardId,
    /// Rows of the write that belong to it.
    pub rows: usize,
    /// What it said.
    pub error: ShardError,
}

impl Error {
    pub(crate) fn table(table: &str, source: TableError) -> Self {
        Self::Table { table: table.to_owned(), source: std::sync::Arc::new(source) }
    }

    pub(crate) fn shard(table: &str, shard: ShardId, source: ShardError) -> Self {
        Self::Shard { table: table.to_owned(), shard, source }
    }

    pub(crate) fn storage(table: &str, source: StoreError) -> Self {
        Self::Storage { table: table.to_owned(), source: std::sync::Arc::new(source) }
    }

    pub(crate) fn read(table: &str, source: QueryError) -> Self {
        Self::Read { table: table.to_owned(), source: std::sync::Arc::new(source) }
    }

    /// What the shard said, when it was (first of all) a shard.
    pub fn shard_error(&self) -> Option<&ShardError> {
        match self {
            Self::Shard { source, .. } => Some(source),
            Self::Put { first, .. } => first.shard_error(),
            _ => None,
        }
    }

    /// Whether the same request may succeed later without any change.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Table { source, .. } => source.is_retryable(),
            Self::Storage { source, .. } => source.is_retryable(),
            Self::Shard { source, .. } => source.is_retryable(),
            Self::Read { source, .. } | Self::Query { source } => source.is_retryable(),
            Self::Put { failures, .. } => failures.iter().all(|failure| failure.error.is_retryable()),
            // Others release theirs, or they expire.
            Self::Contended { .. } | Self::TooManySnapshots { .. } => true,
            Self::Rows { .. }
            | Self::Setting { .. }
            | Self::StorageOption { .. }
            | Self::SnapshotExpired { .. }
            | Self::NoSuchSnapshot { .. }
            | Self::Closed { .. } => false,
        }
    }

    /// What to do about it, in a sentence for people; none where the message says it already.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Put { failures, first, .. } if failures.len() == 1 => first.advice(),
            // Lost shards are not written again by trying again.
            Self::Put { first, .. } if !self.is_retryable() && first.advice().is_some() => first.advice(),
            Self::Put { .. } => Some("write the same batch again: on a table with a key that is safe"),
            Self::Table { table, source } if is_missing(table, source) => {
                Some("check the address; `headwater init --schema FILE` and Table::create make a new table")
            }
            _ => self.shard_error().and_then(shard_advice),
        }
    }
}

/// Of a query that names several tables; what one table says is told by [`crate::Table::read_failed`].
impl From<QueryError> for Error {
    fn from(source: QueryError) -> Self {
        Self::Query { source: std::sync::Arc::new(source) }
    }
}

fn of_table(table: &str, source: &TableError) -> String {
    if is_missing(table, source) {
        return format!("there is no Lance table at {table}");
    }
    let said = match source {
        TableError::Unavailable { path, reason } if is_address(path, table) => {
            format!("storage unavailable: {reason}")
        }
        _ => source.to_string(),
    };
    // What Lance says of a table begins with its address, and so do texts about the address itself.
    let address = table.trim_end_matches('/');
    let rest = said.strip_prefix(address).unwrap_or_default();
    if rest.starts_with(": ") {
        format!("table {table}{rest}")
    } else if rest.starts_with(" is ") || said.starts_with(&format!("{table:?}")) {
        said
    } else {
        format!("table {table}: {said}")
    }
}

/// Whether it is the table itself that was not found.
fn is_missing(table: &str, source: &TableError) -> bool {
    matches!(source, TableError::NotFound { path } if is_address(path, table))
}

fn is_address(path: &str, table: &str) -> bool {
    path.trim_end_matches('/') == table.trim_end_matches('/')
}

/// Names the shard once: most errors of a shard do it themselves.
fn of_shard(table: &str, shard: ShardId, source: &ShardError) -> String {
    use ShardError as E;
    match source {
        E::Fenced { .. }
        | E::Poisoned { .. }
        | E::ConditionFailed { .. }
        | E::Backpressure { .. }
        | E::Conflict { .. }
        | E::Sealed { .. }
        | E::Closed { .. }
        | E::SnapshotExpired { .. } => format!("table {table}: {source}"),
        _ => format!("shard {shard} of table {table}: {source}"),
    }
}

fn place(row: Option<usize>) -> String {
    row.map(|row| format!(", row {row}")).unwrap_or_default()
}

/// Most errors of a shard say themselves what to do; for the others there is more to say than fits in a line.
fn shard_advice(error: &ShardError) -> Option<&'static str> {
    match error {
        ShardError::Poisoned { .. } | ShardError::UnknownOutcome { .. } => {
            Some("every acknowledged row is in the WAL; it is replayed when the table is opened again")
        }
        ShardError::Backpressure { .. } => Some("write slower, or give the process more memory"),
        ShardError::Fenced { .. } | ShardError::Conflict { .. } => {
            Some("another process writes this shard, and a shard has one writer: stop one of the two")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_table_is_named_once() {
        let unavailable =
            TableError::Unavailable { path: "some/t".to_owned(), reason: "no answer".to_owned() };
        for (source, said) in [
            (TableError::invalid("some/t: no manifest"), "table some/t: no manifest"),
            (TableError::invalid("some/t is a file"), "some/t is a file"),
            (TableError::invalid("\"some/t/\" names no table"), "\"some/t/\" names no table"),
            (TableError::invalid("some/text is no key"), "table some/t/: some/text is no key"),
            (TableError::NotFound { path: "some/t".to_owned() }, "there is no Lance table at some/t/"),
            (TableError::NotFound { path: "data/x".to_owned() }, "table some/t/: not found: data/x"),
            (unavailable, "table some/t/: storage unavailable: no answer"),
        ] {
            let text = Error::table("some/t/", source).to_string();
            assert_eq!(text, said.replace("table some/t: ", "table some/t/: "));
        }
    }
}
