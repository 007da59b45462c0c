//! Taking snapshots of a table, and reading them until no file is missing.
//!
//! Owns: [`Reading`]: the capture rule over base and shards, how long what is known of them serves, and that
//! a read whose files vanished before its first row is made again. Does not own: how a snapshot is read
//! (`headwater-query`), what is kept between reads (`kept`, `pins`). A shard this process writes is read from
//! memory; any other is followed on storage without claiming it, WAL included, so every acknowledged row of a
//! shard that is known is there, whoever wrote it.
//!
//! A base version that is known and old is as right as the newest one, as long as no generation is missing
//! between it and the shards: that is checked, and then storage is asked (P6).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use futures::future::{BoxFuture, try_join_all};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use headwater_engine::error::ShardError;
use headwater_engine::shard::{Follower, Shard, ShardStatus};
use headwater_engine::snapshot::{ReadLevel, ShardSnapshot};
use headwater_engine::table::TableError;
use headwater_format::coord::ShardId;
use headwater_lance::Sharding;
use headwater_query::{
    GetRequest, QueryError, QueryRequest, ReadCache, ReadSnapshot, ScanRequest, SendableRecordBatchStream,
    first_batch,
};

use crate::error::Error;
use crate::kept::Kept;
use crate::pins::{Pins, SnapshotToken};
use crate::retry::Tries;
use crate::shards::{Common, Shards};

/// Looks at base and shards until they fit together; each may move on while the other is looked at.
const ATTEMPTS: usize = 10;
/// Shards of other writers read at once.
const AT_ONCE: usize = 8;

/// How fresh a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Storage is asked about everything: rows of others, which shards there are, the base.
    Strong,
    /// Rows acknowledged longer ago than this are there, of every shard that is known. What is known of the
    /// shards there are, and of the base, serves for `reads.base_refresh_ms`.
    Within(Duration),
}

impl Freshness {
    /// Every row that was acknowledged before the read began, of every shard that is known.
    pub const ACKNOWLEDGED: Self = Self::Within(Duration::ZERO);

    /// How old rows may be.
    fn of_rows(self) -> Duration {
        match self {
            Self::Strong => Duration::ZERO,
            Self::Within(age) => age,
        }
    }
}

/// What a read streams.
#[derive(Clone, Copy)]
enum Stream<'a> {
    Rows(&'a ScanRequest),
    /// Keys of the rows a condition keeps, at most so many at a time.
    Keys(Option<&'a str>, usize),
}

/// Reads of one table in one process.
#[derive(Debug)]
pub(crate) struct Reading {
    common: Arc<Common>,
    /// The shards this process writes; none when it only reads.
    shards: Option<Arc<Shards>>,
    cache: Arc<ReadCache>,
    kept: Kept,
    pub pins: Pins,
    /// Held by the one who takes a snapshot for all that may share it.
    sharing: tokio::sync::Mutex<()>,
}

impl Reading {
    pub fn new(common: Arc<Common>, shards: Option<Arc<Shards>>) -> Self {
        let cache = Arc::new(ReadCache::new(&common.budget));
        let kept = Kept::new(&common.env, &common.budget);
        let pins = Pins::new(common.lance.uri(), &common.env, &common.settings.reads);
        Self { common, shards, cache, kept, pins, sharing: tokio::sync::Mutex::default() }
    }

    /// A snapshot that is as fresh as is asked for. One that is young enough is handed out again.
    pub async fn read(&self, level: ReadLevel, freshness: Freshness) -> Result<ReadSnapshot, Error> {
        let (max_staleness, known_for) = (freshness.of_rows(), self.known_for(freshness));
        if max_staleness.is_zero() {
            return self.take(level, known_for).await;
        }
        if let Some(recent) = self.recent(max_staleness) {
            return Ok(recent);
        }
        let _sharing = self.sharing.lock().await;
        match self.recent(max_staleness) {
            Some(recent) => Ok(recent),
            None => self.take(level, known_for).await,
        }
    }

    /// For how long what is known of the base and of which shards there are serves.
    fn known_for(&self, freshness: Freshness) -> Duration {
        match freshness {
            Freshness::Strong => Duration::ZERO,
            Freshness::Within(_) => Duration::from_millis(self.common.settings.reads.base_refresh_ms),
        }
    }

    /// Asks storage which shards there are, and for the newest base version.
    pub async fn refresh(&self) -> Result<(), Error> {
        let ours = self.serving()?;
        self.shards_of_others(&ours, Duration::ZERO).await?;
        let lance = &self.common.lance;
        lance.pin().await.map_err(|error| Error::table(lance.uri(), error)).map(|_| ())
    }

    /// A version of the base alone.
    pub async fn read_version(&self, version: u64) -> Result<ReadSnapshot, Error> {
        let Common { lance, env, .. } = &*self.common;
        let base = lance.pin_version(version).await.map_err(|error| Error::table(lance.uri(), error))?;
        Ok(ReadSnapshot::of_base(Arc::clone(lance), base, Arc::clone(&self.cache), env.clone()))
    }

    /// Takes a snapshot and keeps it.
    pub async fn pin(&self, freshness: Freshness) -> Result<SnapshotToken, Error> {
        // Before anything is read for it.
        self.pins.check_room()?;
        let taken = self.now();
        let snapshot = self.take(ReadLevel::Durable, self.known_for(freshness)).await?;
        self.pins.pin(taken, snapshot)
    }

    fn recent(&self, max_staleness: Duration) -> Option<ReadSnapshot> {
        let serves = Duration::from_millis(self.common.settings.reads.snapshot_max_age_ms);
        let since = self.now().checked_sub(max_staleness.min(serves));
        self.kept.snapshot_since(since.unwrap_or_default())
    }

    /// Bytes of keys and shadows kept for reads.
    pub fn shadow_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    async fn take(&self, level: ReadLevel, known_for: Duration) -> Result<ReadSnapshot, Error> {
        let began = self.now();
        let snapshot = self.capture_fitting(level, known_for).await?;
        if self.shards.is_none() {
            self.kept.keep(began, &snapshot);
        }
        Ok(snapshot)
    }

    pub async fn scan(
        &self,
        request: &ScanRequest,
        freshness: Freshness,
    ) -> Result<SendableRecordBatchStream, Error> {
        self.begin(ReadLevel::Durable, freshness, Stream::Rows(request)).await
    }

    /// The keys of the rows a condition keeps, of the newest state, at most `rows` at a time: see
    /// [`ReadSnapshot::matching_keys`].
    pub async fn matching_keys(
        &self,
        filter: Option<&str>,
        rows: usize,
    ) -> Result<SendableRecordBatchStream, Error> {
        self.begin(ReadLevel::Pending, Freshness::ACKNOWLEDGED, Stream::Keys(filter, rows)).await
    }

    async fn begin(
        &self,
        level: ReadLevel,
        freshness: Freshness,
        stream: Stream<'_>,
    ) -> Result<SendableRecordBatchStream, Error> {
        let mut tries = Tries::default();
        loop {
            let snapshot = self.read(level, freshness).await?;
            let rows = match stream {
                Stream::Rows(request) => snapshot.scan(request).await,
                Stream::Keys(filter, rows) => snapshot.matching_keys(filter, rows).await,
            };
            let rows = match rows {
                Ok(rows) => first_batch(rows).await,
                Err(error) => Err(error),
            };
            match rows {
                Err(error) if tries.again(snapshot.source_names(), &error) => self.look_anew().await,
                end => return end.map_err(|error| self.failed(error)),
            }
        }
    }

    pub async fn query(
        &self,
        request: &QueryRequest,
        freshness: Freshness,
    ) -> Result<SendableRecordBatchStream, Error> {
        let read =
            |snapshot: ReadSnapshot| async move { first_batch(snapshot.query(request).await?).await }.boxed();
        self.until_complete(freshness, read).await
    }

    pub async fn explain_query(
        &self,
        request: &QueryRequest,
        verbose: bool,
        freshness: Freshness,
    ) -> Result<String, Error> {
        let read =
            |snapshot: ReadSnapshot| async move { snapshot.explain_query(request, verbose).await }.boxed();
        self.until_complete(freshness, read).await
    }

    pub async fn analyze_query(&self, request: &QueryRequest, freshness: Freshness) -> Result<String, Error> {
        let read = |snapshot: ReadSnapshot| async move { snapshot.analyze_query(request).await }.boxed();
        self.until_complete(freshness, read).await
    }

    /// Reads, of a new snapshot each time, until no file it names is missing.
    async fn until_complete<'a, T>(
        &self,
        freshness: Freshness,
        read: impl Fn(ReadSnapshot) -> BoxFuture<'a, Result<T, QueryError>>,
    ) -> Result<T, Error> {
        let mut tries = Tries::default();
        loop {
            let snapshot = self.read(ReadLevel::Durable, freshness).await?;
            match read(snapshot.clone()).await {
                Err(error) if tries.again(snapshot.source_names(), &error) => self.look_anew().await,
                end => return end.map_err(|error| self.failed(error)),
            }
        }
    }

    pub async fn get(&self, request: &GetRequest, freshness: Freshness) -> Result<RecordBatch, Error> {
        Ok(self.get_at(ReadLevel::Durable, request, freshness).await?.1)
    }

    /// The live rows of some keys, with the snapshot they were read from.
    pub async fn get_at(
        &self,
        level: ReadLevel,
        request: &GetRequest,
        freshness: Freshness,
    ) -> Result<(ReadSnapshot, RecordBatch), Error> {
        let mut tries = Tries::default();
        loop {
            let snapshot = self.read(level, freshness).await?;
            match snapshot.get(request).await {
                Err(error) if tries.again(snapshot.source_names(), &error) => self.look_anew().await,
                end => return end.map(|rows| (snapshot, rows)).map_err(|error| self.failed(error)),
            }
        }
    }

    pub async fn count(&self, filter: Option<&str>, freshness: Freshness) -> Result<u64, Error> {
        let mut tries = Tries::default();
        loop {
            let snapshot = self.read(ReadLevel::Durable, freshness).await?;
            match snapshot.count(filter).await {
                Err(error) if tries.again(snapshot.source_names(), &error) => self.look_anew().await,
                end => return end.map_err(|error| self.failed(error)),
            }
        }
    }

    /// A read's error, with the table it was about.
    pub fn failed(&self, error: QueryError) -> Error {
        let uri = self.common.lance.uri();
        match error {
            QueryError::Table(source) => Error::table(uri, source),
            QueryError::Shard { shard, source } => Error::shard(uri, shard, *source),
            QueryError::OfTable { source, .. } => self.failed(*source),
            source => Error::read(uri, source),
        }
    }

    /// The next snapshot looks at every manifest: a file was missing that the last one named, or had columns
    /// that the base did not.
    async fn look_anew(&self) {
        self.kept.forget_snapshot();
        self.kept.forget_listing();
        self.common.lance.distrust_pin();
        for follower in self.kept.followers() {
            follower.distrust().await;
        }
    }

    async fn capture_fitting(&self, level: ReadLevel, known_for: Duration) -> Result<ReadSnapshot, Error> {
        let (mut renewed, mut known_for) = (false, known_for);
        for _ in 1..ATTEMPTS {
            match self.capture(level, known_for).await {
                Err(error) if moved_on(&error) => {}
                // Followers hold rows of the columns the table had when they began, and the base that is
                // known has those of then.
                Err(error) if !renewed && columns_changed(&error) => {
                    renewed = true;
                    self.kept.retain(&BTreeSet::new());
                }
                end => return end,
            }
            known_for = Duration::ZERO;
        }
        self.capture(level, known_for).await
    }

    /// Shards of others are looked at before the base: what is folded into the base in between is then in
    /// both, and left out of the shard. Shards of ours after it: nothing of theirs is missing then.
    async fn capture(&self, level: ReadLevel, known_for: Duration) -> Result<ReadSnapshot, Error> {
        let ours = self.serving()?;
        let others = self.shards_of_others(&ours, known_for).await?;
        self.kept.retain(&others);
        let others = stream::iter(others).map(|id| self.follow(id)).buffered(AT_ONCE);
        let others: Vec<Option<ShardSnapshot>> = others.try_collect().await?;
        let lance = &self.common.lance;
        let base = lance.pin_known(known_for).await.map_err(|error| Error::table(lance.uri(), error))?;
        let ours = ours.into_iter().map(|(id, shard)| async move {
            shard.snapshot(level).await.map_err(|error| Error::shard(lance.uri(), id, error))
        });
        let mut shards = try_join_all(ours).await?;
        shards.extend(others.into_iter().flatten());
        shards.sort_by_key(ShardSnapshot::shard);
        let (cache, env) = (self.cache.clone(), self.common.env.clone());
        ReadSnapshot::new(lance.clone(), base, shards, cache, env).map_err(|error| self.failed(error))
    }

    /// Shards this process writes. One it lost or that was stopped is read like those of others.
    fn serving(&self) -> Result<Vec<(ShardId, Arc<Shard>)>, Error> {
        let Some(shards) = &self.shards else { return Ok(Vec::new()) };
        shards.check_open()?;
        let serves = |status| matches!(status, ShardStatus::Serving | ShardStatus::Closing);
        Ok(shards.open_now().into_iter().filter(|(_, shard)| serves(shard.stats().status)).collect())
    }

    /// The shards on storage that are not `ours`. Others may make one at any moment, so what is known of them
    /// serves for `known_for` only; but the only shard of a table that is not sharded has been found to be
    /// that when it was claimed, and whoever makes a second one all the same is noticed as late as whoever
    /// takes ours over. Shards this process has made are known whatever storage said before.
    async fn shards_of_others(
        &self,
        ours: &[(ShardId, Arc<Shard>)],
        known_for: Duration,
    ) -> Result<BTreeSet<ShardId>, Error> {
        let Common { lance, mem_wal, settings, .. } = &*self.common;
        let asked = self.now();
        let settled = mem_wal.sharding == Sharding::Unsharded && !ours.is_empty();
        let confirmed_for = Duration::from_millis(settings.reads.epoch_confirm_ms);
        let relied_on = if settled { known_for.max(confirmed_for) } else { known_for };
        let since = asked.saturating_sub(relied_on);
        let known = if known_for.is_zero() { None } else { self.kept.listed_since(since) };
        let mut shards = match known {
            Some(known) => known,
            None => {
                let listed = lance.shard_ids().await.map_err(|error| Error::table(lance.uri(), error))?;
                self.kept.list(asked, listed.clone());
                listed
            }
        };
        // Those that have stopped, too: their rows are read as storage has them.
        shards.extend(self.shards.iter().flat_map(|own| own.open_now()).map(|(id, _)| id));
        shards.retain(|id| !ours.iter().any(|(own, _)| own == id));
        Ok(shards)
    }

    async fn follow(&self, id: ShardId) -> Result<Option<ShardSnapshot>, Error> {
        let failed = |error| Error::shard(self.common.lance.uri(), id, error);
        let open = || Follower::open(id, self.common.parts(), self.common.settings.clone());
        let follower = self.kept.follower(id, open).map_err(failed)?;
        follower.refresh().await.map_err(failed)
    }

    fn now(&self) -> Duration {
        self.common.env.now()
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

fn columns_changed(error: &Error) -> bool {
    matches!(error, Error::Table { source, .. } if matches!(**source, TableError::SchemaChanged { .. }))
}
