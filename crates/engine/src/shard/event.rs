//! Everything that can happen to an open shard. The list is closed: reading it is reading the shard's life.

use std::time::Duration;

use bytes::Bytes;
use headwater_format::coord::{Epoch, Generation};
use headwater_format::token::ClientToken;
use tokio::sync::oneshot;

use crate::budget::Charge;
use crate::error::ShardError;
use crate::flush::attempt::AttemptFailed;
use crate::ingest::PreparedBatch;
use crate::manifest::Published;
use crate::shard::handle::Seal;
use crate::shard::options::WriteOptions;
use crate::shard::tokens::Listed;
use crate::wal::append::Appended;
use crate::wal::queue::{AckSender, Group};

/// A put (or delete) whose rows are shaped and whose keys are extracted.
#[derive(Debug)]
pub(super) struct PutRequest {
    pub prepared: PreparedBatch,
    /// What goes with them.
    pub options: WriteOptions,
    /// Told when the rows are in the memtable: ordered, visible at `ReadLevel::Pending`, not durable.
    pub accepted: Option<oneshot::Sender<()>>,
    /// Told when they are durable, or never will be by this writer.
    pub ack: AckSender,
    /// The memory of the rows on their way to the memtable, which charges them itself.
    pub charge: Charge,
}

/// The outcome of writing one entry.
#[derive(Debug)]
pub(super) struct Written {
    pub group: Group,
    /// Encoded size.
    pub bytes: u64,
    /// When the PUT began: the epoch was ours then, if it succeeded.
    pub began: Duration,
    pub result: Result<Appended, ShardError>,
}

/// One thing that happened.
#[derive(Debug)]
pub(super) enum Event {
    /// Somebody writes.
    Put(Box<PutRequest>),
    /// Somebody asks which tokens with this beginning are known.
    Tokens(ClientToken, oneshot::Sender<Result<Vec<Listed>, ShardError>>),
    /// Somebody wants the active memtable frozen.
    Seal(oneshot::Sender<Result<Seal, ShardError>>),
    /// Somebody wants everything flushed and the shard closed.
    Close(oneshot::Sender<Result<(), ShardError>>),
    /// A writer of this process waits for memory.
    Pressure,
    /// The next entry is encoded.
    Encoded(Group, Result<Bytes, ShardError>),
    /// An entry is durable, or is not and nothing can follow it.
    Appended(Box<Written>),
    /// A memtable index has applied some rows.
    Indexed,
    /// A background task cannot go on (an index that cannot take a row, a task that panicked): the shard
    /// stops.
    Broken(ShardError),
    /// A flush attempt ended.
    Flushed(Generation, Box<Result<Published, AttemptFailed>>),
    /// The wait after a failed flush attempt is over.
    RetryFlush,
    /// The memtable of that generation has reached the age limit.
    Aged(Generation),
    /// The linger of the first waiting put is over.
    Lingered,
    /// Clients that were just answered have had their time to come back.
    Gathered,
    /// The manifest was looked at while writing: a larger epoch than ours, if there is one, or why it could
    /// not be read.
    Looked(Result<Option<Epoch>, ShardError>),
    /// A reader saw a larger epoch on storage.
    FencedBy(Epoch),
}
