//! What can go wrong in a shard, as its callers see it (P14).
//!
//! Owns: [`ShardError`] and how errors of the parts become it. Every variant says what, where and what to do.

use headwater_format::coord::{Epoch, ShardId};
use headwater_store::StoreError;

use crate::hold::Violation;
use crate::index::IndexError;
use crate::ingest::InvalidInput;
use crate::table::TableError;

/// Why a shard did not do what was asked. Cheap to clone: one failure may answer many callers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// The request itself is wrong; nothing was written. Correct it and try again.
    #[error("{reason}")]
    Invalid {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The table's columns changed while rows of the former ones were in memory: they cannot be flushed, and
    /// the writer has stopped. The rows stay in the WAL.
    #[error("{reason}")]
    SchemaChanged {
        /// What differs, and what to do.
        reason: String,
    },
    /// Another writer has claimed the shard. This writer is done: nothing it holds unacknowledged was
    /// acknowledged.
    #[error(
        "shard {shard} was taken over: its epoch here is {ours}, on storage {theirs}; reopen to take it back"
    )]
    Fenced {
        /// The shard.
        shard: ShardId,
        /// This writer's epoch.
        ours: Epoch,
        /// The epoch seen on storage.
        theirs: Epoch,
    },
    /// An earlier failure left it unknown what is durable, so this writer neither reads nor writes any more.
    #[error(
        "writer of shard {shard} stopped after: {reason}; reopen the shard to go on from what is durable"
    )]
    Poisoned {
        /// The shard.
        shard: ShardId,
        /// The failure that stopped it.
        reason: String,
    },
    /// Memory is full and was not freed in time, or the shard remembers as many client tokens as it may.
    /// Nothing was written; try again.
    #[error("shard {shard}: {used} of {limit} {what} in use after waiting {waited_ms} ms; try again")]
    Backpressure {
        /// The shard.
        shard: ShardId,
        /// What is used up: `bytes` of the process's memtables, or `client tokens`.
        what: &'static str,
        /// How much of it is in use.
        used: u64,
        /// How much there is.
        limit: u64,
        /// How long the put waited, in milliseconds.
        waited_ms: u64,
    },
    /// Storage did not answer, or refused; nothing changed. Trying again may help.
    #[error("storage: {reason}")]
    Unavailable {
        /// What storage said, with the path.
        reason: String,
    },
    /// A conditional write may or may not have been applied and could not be looked up. Reopening finds out.
    #[error("outcome of writing {path} is unknown: {reason}; reopen the shard to find out")]
    UnknownOutcome {
        /// The object written.
        path: String,
        /// What storage said last.
        reason: String,
    },
    /// A stored object cannot be what its name says. Nothing was changed.
    #[error("corrupt object {path}: {reason}")]
    Corrupt {
        /// The object.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process changed the shard in the same moment. Trying again may help.
    #[error("shard {shard}: {reason}")]
    Conflict {
        /// The shard.
        shard: ShardId,
        /// Who won what.
        reason: String,
    },
    /// A key of a conditional write was written since the snapshot it was decided on, or may have been.
    /// Nothing was written. Take a new snapshot, read the rows again, and decide anew: the same write with
    /// the old snapshot is refused again.
    #[error("shard {shard}: {reason}; nothing was written: read the rows again and decide anew")]
    ConditionFailed {
        /// The shard.
        shard: ShardId,
        /// What was written since.
        reason: String,
    },
    /// The shard is being dropped and refuses claims.
    #[error("shard {shard} is sealed: it is being dropped and takes no writer")]
    Sealed {
        /// The shard.
        shard: ShardId,
    },
    /// The shard was closed.
    #[error("shard {shard} is closed")]
    Closed {
        /// The shard.
        shard: ShardId,
    },
    /// A snapshot is older than `snapshot_max_age_ms`; take a new one.
    #[error(
        "snapshot of shard {shard} is {age_ms} ms old, more than the {max_age_ms} ms allowed; take a new one"
    )]
    SnapshotExpired {
        /// The shard.
        shard: ShardId,
        /// Its age in milliseconds.
        age_ms: u64,
        /// The setting `snapshot_max_age_ms`.
        max_age_ms: u64,
    },
    /// An invariant did not hold. The writer stopped; what is durable is untouched.
    #[error("internal error, invariant {invariant} does not hold: {context}")]
    Internal {
        /// Id of the invariant.
        invariant: &'static str,
        /// The values seen.
        context: String,
    },
}

impl ShardError {
    /// An [`ShardError::Invalid`].
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }

    /// Whether the same call may succeed later on the same shard handle.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Backpressure { .. } | Self::Unavailable { .. } | Self::SnapshotExpired { .. })
    }

    /// Whether opening the shard again in this process can cure what stopped its writer. Storage that
    /// failed, was full, or left an outcome unknown: yes, for replay finds out what is durable. Not a
    /// fence: the shard is another writer's now, and taking it back is for people to decide. Not damage on
    /// storage, rows no index takes, or columns that changed: the next writer meets them too. Not a broken
    /// invariant or a panic: a fault of this program is not to be hidden.
    pub fn is_cured_by_reopening(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::UnknownOutcome { .. } | Self::Conflict { .. })
    }
}

impl From<InvalidInput> for ShardError {
    fn from(error: InvalidInput) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<IndexError> for ShardError {
    fn from(error: IndexError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<Violation> for ShardError {
    fn from(violation: Violation) -> Self {
        Self::Internal { invariant: violation.invariant, context: violation.context }
    }
}

impl From<TableError> for ShardError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Invalid { reason } => Self::Invalid { reason },
            TableError::SchemaChanged { reason } => Self::SchemaChanged { reason },
            TableError::Corrupt { path, reason } => Self::Corrupt { path, reason },
            TableError::NotFound { .. } | TableError::Unavailable { .. } => {
                Self::Unavailable { reason: error.to_string() }
            }
        }
    }
}

impl From<StoreError> for ShardError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt { path, reason } => Self::Corrupt { path, reason },
            other => Self::Unavailable { reason: chain(&other) },
        }
    }
}

/// The error and its sources in one line: storage errors say the interesting part last.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
