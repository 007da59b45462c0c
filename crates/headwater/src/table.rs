//! A table with a write tier: what people open, write to and close.
//!
//! Owns: [`Table`]: open, create and init, routing of writes to shards, flush, snapshot, stats, close. Does
//! not own: the base table (`headwater-lance`), what happens inside a shard (`headwater-engine`). Keeps: all
//! rows of a key go to one shard; rows of one shard keep the order of the calls that wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use futures::future::{join_all, try_join_all};
use headwater_engine::budget::MemoryBudget;
use headwater_engine::shard::{Shard, ShardStats};
use headwater_engine::snapshot::ReadLevel;
use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::{Generation, ShardId};
use headwater_format::key::KeySchema;
use headwater_format::schema::KEY_POSITION;
use headwater_lance::{LanceTable, MemWal, Sharding, WriterSpec};
use headwater_store::{MeterSnapshot, Store};

use crate::conditional::WriteOptions;
use crate::error::Error;
use crate::options::OpenOptions;
use crate::pins::PinnedSnapshots;
use crate::reading::Reading;
use crate::router::{self, Part, Router};
use crate::shards::{Common, Shards};
use crate::snapshot::TableSnapshot;
use crate::storage;
use crate::ticket::{SentPart, TableAck, TableTicket, ticket_of};
use crate::writer_defaults;

/// A table with a write tier, open for writing. Shards are claimed when the first row for them arrives, or by
/// [`Table::open_shards`]; a claim fences the writer that had the shard before (P7).
#[derive(Debug)]
pub struct Table {
    lance: Arc<LanceTable>,
    pub(crate) router: Router,
    pub(crate) shards: Arc<Shards>,
    pub(crate) reading: Reading,
}

/// Numbers about a table, for people and dashboards. Works whatever state the shards are in.
#[derive(Clone, Debug)]
pub struct TableStats {
    /// Each shard this process writes. Counters begin anew when a shard is opened again after a failure.
    pub shards: BTreeMap<ShardId, ShardStats>,
    /// Bytes counted against the memory budget now.
    pub memory_used: u64,
    /// Bytes the budget allows.
    pub memory_limit: u64,
    /// Bytes that reads keep: keys of SSTables, and what newer rows hide of SSTables and base.
    pub shadow_bytes: u64,
    /// Object-store requests since the table was opened, by class and kind of object.
    pub requests: MeterSnapshot,
    /// Snapshots that are pinned.
    pub pinned: PinnedSnapshots,
}

/// Which rows a write carries.
#[derive(Clone, Copy)]
pub(crate) enum Rows {
    /// Whole rows.
    Upserts,
    /// Keys of rows that go.
    Deletes,
}

impl Table {
    /// Opens a table whose write tier was initialised, here or elsewhere. Reads the base; claims nothing.
    ///
    /// # Errors
    /// [`Error::Setting`] when a setting cannot be; [`Error::StorageOption`] when nobody reads one;
    /// [`Error::Table`] when there is no such table, it has no write tier (run [`Table::init`]), or storage
    /// does not answer.
    pub async fn open(uri: &str, options: OpenOptions) -> Result<Self, Error> {
        Ok(Self::assemble(open_common(uri, options).await?))
    }

    /// Creates a new, empty Lance table at `uri` with `schema`, the columns `key` as its key (none:
    /// append-only), and a write tier sharded as `sharding` says.
    ///
    /// # Errors
    /// [`Error::Table`] when a table is there already, a key column is missing, nullable or of a
    /// type that cannot be a key, the shard column is no key column, or storage does not do it.
    pub async fn create(
        uri: &str,
        schema: &Schema,
        key: &[String],
        sharding: &Sharding,
        options: OpenOptions,
    ) -> Result<Self, Error> {
        let options = checked(uri, options)?;
        // Before the table exists: one that cannot be sharded this way is not to be left behind.
        check_sharding(schema, key, sharding).map_err(|error| Error::table(uri, error))?;
        let lance =
            LanceTable::create_with(&options.connection, uri, schema, key, &options.table, options.env())
                .await;
        let lance = storage::opened(&options.connection, uri, &options.table, &options.env(), lance).await?;
        Self::start(lance, sharding, &WriterSpec::default(), options).await
    }

    /// Gives an existing Lance table a write tier. `key` names the key columns of a table that has none yet.
    ///
    /// # Errors
    /// [`Error::Table`] when it has a write tier already, the key given is not the key it has,
    /// shards of an earlier write tier are still there (they are named), the shard column is no key column,
    /// or storage does not do it.
    pub async fn init(
        uri: &str,
        key: &[String],
        sharding: &Sharding,
        options: OpenOptions,
    ) -> Result<Self, Error> {
        Self::init_for(uri, key, sharding, &WriterSpec::default(), options).await
    }

    /// [`Table::init`], recording what `writers` says for those who will write the table.
    ///
    /// # Errors
    /// As [`Table::init`]; [`Error::Table`] for an index to maintain that there is not, [`Error::Setting`]
    /// for a setting with a value it cannot have.
    pub async fn init_for(
        uri: &str,
        key: &[String],
        sharding: &Sharding,
        writers: &WriterSpec,
        options: OpenOptions,
    ) -> Result<Self, Error> {
        let options = checked(uri, options)?;
        writer_defaults::apply(options.settings.clone(), &options.given, &writers.defaults)?;
        let table_error = |error| Error::table(uri, error);
        if !key.is_empty() {
            // A key is for good, so whatever else is wrong is to be found first.
            let existing = open_lance(uri, &options).await?;
            check_key(existing.key(), key).map_err(table_error)?;
            check_sharding(&existing.schema(), key, sharding).map_err(table_error)?;
            LanceTable::set_key(uri, key, &options.table, options.env()).await.map_err(table_error)?;
        }
        let lance = open_lance(uri, &options).await?;
        Self::start(lance, sharding, writers, options).await
    }

    async fn start(
        lance: Arc<LanceTable>,
        sharding: &Sharding,
        writers: &WriterSpec,
        options: OpenOptions,
    ) -> Result<Self, Error> {
        let mem_wal = lance.init_mem_wal_for(sharding, writers).await;
        let mem_wal = mem_wal.map_err(|error| Error::table(lance.uri(), error))?;
        Ok(Self::assemble(common(lance, mem_wal, options)?))
    }

    fn assemble(common: Arc<Common>) -> Self {
        let lance = Arc::clone(&common.lance);
        let router = Router::new(lance.uri(), lance.schema(), common.mem_wal.sharding.clone());
        let shards = Arc::new(Shards::new(Arc::clone(&common)));
        let reading = Reading::new(common, Some(Arc::clone(&shards)));
        Self { lance, router, shards, reading }
    }

    /// Address the table was opened at.
    pub fn uri(&self) -> &str {
        self.lance.uri()
    }

    /// The schema rows are written in.
    pub fn schema(&self) -> SchemaRef {
        self.lance.schema()
    }

    /// The key; none on an append-only table.
    pub fn key(&self) -> Option<&KeySchema> {
        self.lance.key()
    }

    /// What the base says about the write tier: sharding, progress of compaction.
    pub fn mem_wal(&self) -> &MemWal {
        &self.shards.common().mem_wal
    }

    /// Access to the files of the table, for readers of SSTables.
    pub fn files(&self) -> Arc<dyn TableIo> {
        self.lance.clone()
    }

    /// The memory budget its shards share.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.shards.common().budget
    }

    pub(crate) fn store(&self) -> &Store {
        self.lance.store()
    }

    /// Writes rows and waits until they are durable. Columns are found by name; nullable columns that are no
    /// key may be left out. On a table with a key a row replaces the older row of its key.
    ///
    /// The rows of one shard are visible whole or not at all (P3). A batch that spans shards is *not* atomic
    /// across them: when one shard fails, the parts of the others stay, and the error says which failed.
    ///
    /// A shard that a failure of storage stopped is opened again by the next write to it, unless another
    /// writer has claimed it meanwhile; what was acknowledged is replayed. While tickets of earlier writes
    /// to it are held that have not been awaited, writes fail instead, so that none is acknowledged behind
    /// one that failed.
    ///
    /// # Errors
    /// [`Error::Rows`] for rows that fit no shard, [`Error::Table`] when what the table is keeps a shard from
    /// being written to, [`Error::Shard`] with one shard's refusal, [`Error::Put`] when some of several
    /// shards refused.
    pub async fn put(&self, batch: RecordBatch) -> Result<TableAck, Error> {
        self.put_nowait(batch).await?.await
    }

    /// Hands rows over and returns a ticket to wait for durability with. Waits only while memory is over its
    /// budget. Rows written by calls that follow one another keep that order in each shard.
    ///
    /// # Errors
    /// As [`Table::put`]; what a shard refuses at once is told here, the rest by the ticket.
    pub async fn put_nowait(&self, batch: RecordBatch) -> Result<TableTicket, Error> {
        self.write(batch, Rows::Upserts, &WriteOptions::default()).await
    }

    /// Deletes the rows with these keys (exactly the key columns) and waits until that is durable. Keys that
    /// were never written are fine.
    ///
    /// # Errors
    /// As [`Table::put`]; refused on a table without a key.
    pub async fn delete(&self, keys: RecordBatch) -> Result<TableAck, Error> {
        self.delete_nowait(keys).await?.await
    }

    /// As [`Table::delete`], with a ticket as [`Table::put_nowait`].
    ///
    /// # Errors
    /// As [`Table::delete`].
    pub async fn delete_nowait(&self, keys: RecordBatch) -> Result<TableTicket, Error> {
        self.write(keys, Rows::Deletes, &WriteOptions::default()).await
    }

    pub(crate) async fn write(
        &self,
        batch: RecordBatch,
        rows: Rows,
        options: &WriteOptions,
    ) -> Result<TableTicket, Error> {
        self.shards.check_open()?;
        let parts = self.router.split(batch)?;
        // All shards first: when one cannot be opened, nothing is written to the others.
        let open = try_join_all(parts.iter().map(|part| self.shards.of_value(&part.value))).await?;
        let sent =
            join_all(parts.into_iter().zip(open).map(|(part, shard)| send(shard, part, rows, options))).await;
        ticket_of(self.uri(), sent).await
    }

    /// Opens the shards that rows of `batch` go to, if they are not open yet.
    pub(crate) async fn open_for(&self, batch: &RecordBatch) -> Result<(), Error> {
        self.shards.check_open()?;
        let parts = self.router.split(batch.clone())?;
        try_join_all(parts.iter().map(|part| self.shards.of_value(&part.value))).await.map(|_| ())
    }

    /// Opens, and so claims, every active shard that exists on storage, written here or elsewhere, and
    /// replays what its WAL holds. One that stopped is opened again as by a write. Returns how many are
    /// open now.
    ///
    /// # Errors
    /// [`Error::Table`] when two shards hold one value (both are named), a shard written elsewhere cannot be
    /// adopted, or one has SSTables of other columns than the table has now; [`Error::Shard`] when one cannot
    /// be opened.
    pub async fn open_shards(&self) -> Result<usize, Error> {
        self.shards.check_open()?;
        let found = self.lance.shards().await.map_err(|error| Error::table(self.uri(), error))?;
        let unrecorded: BTreeSet<ShardId> =
            found.iter().filter(|shard| shard.values().is_empty()).map(|shard| shard.id).collect();
        let active = router::active_shards(self.uri(), self.mem_wal(), found)?;
        let (shards, unrecorded) = (&self.shards, &unrecorded);
        try_join_all(active.into_iter().map(|id| async move {
            let shard = shards.of_id(id).await?;
            if unrecorded.contains(&id) { shards.adopt(id, &shard).await } else { Ok(()) }
        }))
        .await?;
        Ok(self.shards.open_now().len())
    }

    /// Freezes what each open shard holds in memory and waits until it, and everything older, is published as
    /// SSTables. Returns the generation each shard froze, for those that held rows.
    ///
    /// # Errors
    /// [`Error::Shard`] with the first shard that could not; the others are flushed all the same.
    pub async fn flush(&self) -> Result<BTreeMap<ShardId, Generation>, Error> {
        self.shards.check_open()?;
        let ends = join_all(self.shards.open_now().into_iter().map(|(id, shard)| async move {
            let seal = match shard.seal().await {
                Ok(seal) => seal,
                Err(error) => return (id, Err(error)),
            };
            let generation = seal.generation;
            (id, seal.wait().await.map(|_| generation))
        }))
        .await;
        let mut generations = BTreeMap::new();
        for (id, end) in ends {
            let generation = end.map_err(|error| self.shards.shard_failed(id, error))?;
            generations.extend(generation.map(|generation| (id, generation)));
        }
        Ok(generations)
    }

    /// One consistent view per shard this process writes. Shards nobody here has written to or opened with
    /// [`Table::open_shards`] are not part of it.
    ///
    /// # Errors
    /// [`Error::Shard`] when a shard serves no reads: it is fenced, poisoned or closed.
    pub async fn snapshot(&self, level: ReadLevel) -> Result<TableSnapshot, Error> {
        self.shards.check_open()?;
        let taken = self.shards.open_now().into_iter().map(|(id, shard)| async move {
            let snapshot =
                shard.snapshot(level).await.map_err(|error| self.shards.shard_failed(id, error))?;
            Ok::<_, Error>((id, snapshot))
        });
        let shards = try_join_all(taken).await?;
        Ok(TableSnapshot { table: self.uri().to_owned(), level, shards })
    }

    /// Numbers about the table. Works on poisoned and fenced shards too.
    pub fn stats(&self) -> TableStats {
        TableStats {
            shards: self.shards.open_now().into_iter().map(|(id, shard)| (id, shard.stats())).collect(),
            memory_used: self.memory().used(),
            memory_limit: self.memory().limit(),
            shadow_bytes: self.reading.shadow_bytes(),
            requests: self.store().meter().snapshot(),
            pinned: self.reading.pins.stats(),
        }
    }

    /// Flushes and closes every shard. Every shard is closed whatever happens to another. Afterwards the
    /// table takes no more calls.
    ///
    /// # Errors
    /// The first error, by shard. Acknowledged rows are in the WAL all the same and will be replayed.
    pub async fn close(&self) -> Result<(), Error> {
        self.reading.pins.release_all();
        self.shards.close().await
    }

    /// Stops without flushing, as a crash would: every acknowledged row is in the WAL, and the next writer
    /// replays it. Quicker than [`Table::close`] where another process follows at once.
    pub fn abandon(&self) {
        self.reading.pins.release_all();
        self.shards.abandon();
    }
}

async fn send(shard: Arc<Shard>, part: Part, rows: Rows, options: &WriteOptions) -> SentPart {
    let (id, count) = (shard.id(), part.rows.num_rows());
    let options = options.of_shard(id);
    let sent = match rows {
        Rows::Upserts => shard.put_nowait_with(part.rows, options).await,
        Rows::Deletes => shard.delete_nowait_with(part.rows, options).await,
    };
    SentPart { shard: id, rows: count, sent }
}

/// What reads and writes of a table need, for one whose write tier was initialised.
pub(crate) async fn open_common(uri: &str, options: OpenOptions) -> Result<Arc<Common>, Error> {
    let options = checked(uri, options)?;
    let lance = open_lance(uri, &options).await?;
    let Some(mem_wal) = lance.known_mem_wal() else {
        let reason = "the table has no write tier yet; run `headwater init` or Table::init on it once";
        return Err(Error::table(uri, TableError::invalid(reason)));
    };
    common(lance, mem_wal.as_ref().clone(), options)
}

fn common(lance: Arc<LanceTable>, mem_wal: MemWal, options: OpenOptions) -> Result<Arc<Common>, Error> {
    let mut settings =
        writer_defaults::apply(options.settings.clone(), &options.given, &mem_wal.writer_defaults)?;
    settings.wal.compression = settings.wal.compression.resolved(lance.on_local_disk());
    let (env, budget) = (options.env(), options.memory());
    let (indexes, plants) = (options.indexes, options.plants);
    Ok(Arc::new(Common { lance, mem_wal, env, budget, settings, indexes, plants }))
}

async fn open_lance(uri: &str, options: &OpenOptions) -> Result<Arc<LanceTable>, Error> {
    let opened = LanceTable::open_with(&options.connection, uri, &options.table, options.env()).await;
    storage::opened(&options.connection, uri, &options.table, &options.env(), opened).await
}

/// Whether a table that has the key `has`, if any, can be asked to have `key`.
fn check_key(has: Option<&KeySchema>, key: &[String]) -> Result<(), TableError> {
    let Some(has) = has else { return Ok(()) };
    let has: Vec<&str> = has.columns().iter().map(|column| column.name.as_str()).collect();
    if has == key {
        return Ok(());
    }
    Err(TableError::invalid(format!(
        "the key of the table is ({}), and a key never changes: leave the key out to keep it, or make a new \
         table with the key ({})",
        has.join(", "),
        key.join(", ")
    )))
}

/// Whether a table of these columns and this key can be sharded this way.
fn check_sharding(schema: &Schema, key: &[String], sharding: &Sharding) -> Result<(), TableError> {
    let place = |name: &String| key.iter().position(|column| column == name);
    let fields = schema.fields().iter().map(|field| match place(field.name()) {
        None => field.clone(),
        Some(place) => {
            let marker = [(KEY_POSITION.to_owned(), (place + 1).to_string())];
            Arc::new(field.as_ref().clone().with_nullable(false).with_metadata(marker.into()))
        }
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let key = KeySchema::from_schema(&schema).map_err(|error| TableError::invalid(error.to_string()))?;
    sharding.check(&schema, key.as_ref())
}

/// Checks the settings and storage options; requests of the table are retried as the settings say.
fn checked(uri: &str, mut options: OpenOptions) -> Result<OpenOptions, Error> {
    options.settings.validate().map_err(crate::settings::refused)?;
    storage::check_options(uri, &options.table)?;
    options.table.retry = options.settings.retry;
    Ok(options)
}
