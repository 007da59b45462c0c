//! Reading a table: the newest base version and every shard, as one snapshot.
//!
//! Owns: taking a [`ReadSnapshot`] (the capture rule), and the shortest way to ask it. Does not own: how it
//! is read (`headwater-query`). A shard this process writes is read from memory; any other is read from
//! storage without claiming it, WAL included, so every acknowledged row is there whoever wrote it.

use arrow_array::RecordBatch;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use headwater_engine::error::ShardError;
use headwater_engine::shard::{ShardStatus, peek};
use headwater_engine::snapshot::{ReadLevel, ShardSnapshot};
use headwater_format::coord::ShardId;
use headwater_query::{GetRequest, QueryError, ReadSnapshot, ScanRequest, SendableRecordBatchStream};

use crate::error::Error;
use crate::table::Table;

/// Looks at base and shards until they fit together; each may move on while the other is looked at.
const ATTEMPTS: usize = 10;
/// Shards of other writers read at once.
const PEEKS: usize = 8;

impl Table {
    /// One consistent view of the whole table: the newest base version, and every shard, written here or
    /// elsewhere. [`ReadLevel::Pending`] adds rows of this process that are on their way to storage. A shard
    /// this process lost to another writer is read from storage, as that writer left it.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Shard`] when a shard serves no reads or its WAL cannot be read;
    /// [`Error::Table`] when the base cannot.
    pub async fn read(&self, level: ReadLevel) -> Result<ReadSnapshot, Error> {
        for _ in 1..ATTEMPTS {
            match self.capture(level).await {
                Err(error) if moved_on(&error) => {}
                end => return end,
            }
        }
        self.capture(level).await
    }

    /// Streams live rows: see [`ReadSnapshot::scan`].
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::scan`].
    pub async fn scan(&self, request: &ScanRequest) -> Result<SendableRecordBatchStream, Error> {
        let snapshot = self.read(ReadLevel::Durable).await?;
        snapshot.scan(request).await.map_err(|error| self.read_failed(error))
    }

    /// The live rows of some keys: see [`ReadSnapshot::get`].
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::get`].
    pub async fn get(&self, request: &GetRequest) -> Result<RecordBatch, Error> {
        let snapshot = self.read(ReadLevel::Durable).await?;
        snapshot.get(request).await.map_err(|error| self.read_failed(error))
    }

    /// How many live rows there are, or how many of them a SQL condition keeps.
    ///
    /// # Errors
    /// As [`Table::read`] and [`ReadSnapshot::count`].
    pub async fn count(&self, filter: Option<&str>) -> Result<u64, Error> {
        let snapshot = self.read(ReadLevel::Durable).await?;
        snapshot.count(filter).await.map_err(|error| self.read_failed(error))
    }

    /// A read's error, with the table it was about.
    pub fn read_failed(&self, error: impl Into<QueryError>) -> Error {
        match error.into() {
            QueryError::Table(source) => Error::table(self.uri(), source),
            QueryError::Shard { shard, source } => Error::shard(self.uri(), shard, *source),
            QueryError::OfTable { source, .. } => self.read_failed(*source),
            source => Error::read(self.uri(), source),
        }
    }

    /// Shards of others are looked at before the base: what is folded into the base in between is then in
    /// both, and left out of the shard. Shards of ours after it: nothing of theirs is missing then.
    async fn capture(&self, level: ReadLevel) -> Result<ReadSnapshot, Error> {
        self.shards.check_open()?;
        let lance = &self.shards.common().lance;
        let failed = |error| Error::table(self.uri(), error);
        let ours = self.serving();
        let on_storage = lance.shard_ids().await.map_err(failed)?;
        let others = on_storage.into_iter().filter(|id| !ours.contains(id));
        let others = stream::iter(others).map(|id| self.peek(id)).buffered(PEEKS);
        let others: Vec<Option<ShardSnapshot>> = others.try_collect().await?;
        let base = lance.pin().await.map_err(failed)?;
        let open = self.shards.open_now().into_iter().filter(|(id, _)| ours.contains(id));
        let open = open.map(|(id, shard)| async move {
            shard.snapshot(level).await.map_err(|error| self.shards.shard_failed(id, error))
        });
        let mut shards = try_join_all(open).await?;
        shards.extend(others.into_iter().flatten());
        shards.sort_by_key(ShardSnapshot::shard);
        let (cache, env) = (self.reads.clone(), self.shards.common().env.clone());
        ReadSnapshot::new(lance.clone(), base, shards, cache, env).map_err(|error| self.read_failed(error))
    }

    /// Shards this process writes. One it lost or that was stopped is read like those of others.
    fn serving(&self) -> Vec<ShardId> {
        let open = self.shards.open_now().into_iter();
        let serves = |status| matches!(status, ShardStatus::Serving | ShardStatus::Closing);
        open.filter(|(_, shard)| serves(shard.stats().status)).map(|(id, _)| id).collect()
    }

    async fn peek(&self, id: ShardId) -> Result<Option<ShardSnapshot>, Error> {
        let common = self.shards.common();
        match peek(id, common.parts(), common.settings.clone()).await {
            Ok(snapshot) => Ok(snapshot),
            Err(error) => Err(self.shards.shard_failed(id, error)),
        }
    }
}

/// Whether base or shard moved on while they were looked at: another look fits them together. A shard that
/// stopped in between is read from storage then, as those of others are.
fn moved_on(error: &Error) -> bool {
    match error {
        Error::Read { source, .. } => matches!(**source, QueryError::Gap { .. }),
        Error::Shard { source, .. } => matches!(
            source,
            ShardError::Fenced { .. } | ShardError::Poisoned { .. } | ShardError::Closed { .. }
        ),
        _ => false,
    }
}
