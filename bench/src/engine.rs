//! The two engines behind one face: ours and the reference MemWAL of the `lance` crate.
//!
//! Owns: how each is created, opened, claimed, written to, flushed and left, with limits raised alike. Does
//! not own: clocks. Ours is called as people call it, through `headwater::Table`; the reference through
//! `DatasetMemWalExt` and its `ShardWriter`. Neither maintains any index but that of the key.

use std::time::Duration;

use anyhow::{Result, bail};
use arrow_array::{RecordBatch, RecordBatchIterator};
use headwater::{Connection, MemoryBudget, OpenOptions, ShardSettings, Sharding, Table, WalCompression};
use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance::dataset::mem_wal::{DatasetMemWalExt, ShardWriter, ShardWriterConfig};
use lance::dataset::{WriteMode, WriteParams};
use uuid::Uuid;

use crate::data;
use crate::place::Place;

/// More bytes than any run needs.
const PLENTY_OF_BYTES: u64 = 1 << 40;
/// The reference's writer names its shard; ours derives the id.
const REFERENCE_SHARD: Uuid = Uuid::from_u128(0x6f1c_0b52_7d2e_4a3b_9c4d_5e6f_7081_92a3);

/// Ours at its default settings.
pub const OURS: Engine = Engine::Ours { linger_ms: 0, compression: WalCompression::Auto };
/// The reference at its best setting: a WAL flush interval of 1 ms, the least it takes.
pub const BEST: Engine = Engine::Reference { interval_ms: 1 };
/// The reference at its default interval.
pub const DEFAULTS: Engine = Engine::Reference { interval_ms: 100 };

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Headwater.
    Ours {
        /// `wal.linger_ms`.
        linger_ms: u64,
        /// `wal.compression`.
        compression: WalCompression,
    },
    /// The reference.
    Reference {
        /// `max_wal_flush_interval`, in milliseconds.
        interval_ms: u64,
    },
}

/// When a memtable is frozen.
#[derive(Clone, Copy, Debug)]
pub enum Limits {
    /// As each engine has it by default.
    Defaults,
    /// Not before so many rows in so many puts, whatever their bytes.
    Raised {
        /// Rows.
        rows: usize,
        /// Puts.
        puts: usize,
    },
}

impl Limits {
    /// Room for these and for what a run adds around them.
    pub fn raised(rows: usize, puts: usize) -> Self {
        Self::Raised { rows: rows + 1_000, puts: puts + 1_000 }
    }
}

impl Engine {
    /// Ours, which waits for company that long.
    pub const fn lingering(linger_ms: u64) -> Self {
        Self::Ours { linger_ms, compression: WalCompression::Auto }
    }

    /// How tables and JSON name it.
    pub fn name(self) -> String {
        match self {
            OURS => "headwater".to_owned(),
            Self::Ours { linger_ms: 0, compression } => format!("headwater, entries {compression:?}"),
            Self::Ours { linger_ms, .. } => format!("headwater, linger {linger_ms} ms"),
            Self::Reference { interval_ms: 100 } => "reference, defaults".to_owned(),
            Self::Reference { interval_ms } => format!("reference, interval {interval_ms} ms"),
        }
    }

    /// Makes the table; nobody writes to it yet.
    pub async fn create_table(self, place: &Place, limits: Limits) -> Result<Opened> {
        match self {
            Self::Ours { linger_ms, compression } => {
                let (schema, key) = (data::schema(), [data::KEY.to_owned()]);
                let options = our_options(place, limits, linger_ms, compression);
                let table = Table::create(&place.uri(), &schema, &key, &Sharding::Unsharded, options).await?;
                Ok(Opened::Ours(Box::new(table)))
            }
            Self::Reference { .. } => Ok(Opened::Reference(Box::new(create_reference(place).await?))),
        }
    }

    /// Gives the plain Lance table that is there a write tier; nobody writes to it yet.
    pub async fn init_table(self, place: &Place, limits: Limits) -> Result<Opened> {
        match self {
            Self::Ours { linger_ms, compression } => {
                let options = our_options(place, limits, linger_ms, compression);
                let table = Table::init(&place.uri(), &[], &Sharding::Unsharded, options).await?;
                Ok(Opened::Ours(Box::new(table)))
            }
            Self::Reference { .. } => {
                let mut dataset = open_lance(place).await?;
                init_reference(&mut dataset).await?;
                Ok(Opened::Reference(Box::new(dataset)))
            }
        }
    }

    /// Opens the table that is there; nobody writes to it yet.
    pub async fn open_table(self, place: &Place, limits: Limits) -> Result<Opened> {
        match self {
            Self::Ours { linger_ms, compression } => {
                let options = our_options(place, limits, linger_ms, compression);
                let table = Table::open(&place.uri(), options).await?;
                Ok(Opened::Ours(Box::new(table)))
            }
            Self::Reference { .. } => Ok(Opened::Reference(Box::new(open_lance(place).await?))),
        }
    }

    /// Claims the shard of an open table and replays its WAL. Ours makes the shard of a new table with the
    /// first put.
    pub async fn claim(self, opened: Opened, limits: Limits) -> Result<Writer> {
        match opened {
            Opened::Ours(table) => {
                table.open_shards().await?;
                Ok(Writer::Ours(table))
            }
            Opened::Reference(dataset) => {
                let writer = dataset.mem_wal_writer(REFERENCE_SHARD, self.reference_config(limits)).await?;
                Ok(Writer::Reference(Box::new(writer), dataset))
            }
        }
    }

    /// A new table, with one row written to it, so that nothing happens for the first time later on.
    pub async fn create(self, place: &Place, limits: Limits) -> Result<Writer> {
        let opened = self.create_table(place, limits).await?;
        let writer = self.claim(opened, limits).await?;
        writer.put(data::warm_up()?).await?;
        Ok(writer)
    }

    fn reference_config(self, limits: Limits) -> ShardWriterConfig {
        let mut config = ShardWriterConfig::new(REFERENCE_SHARD);
        if let Self::Reference { interval_ms } = self {
            config.max_wal_flush_interval = Some(Duration::from_millis(interval_ms));
        }
        if let Limits::Raised { rows, puts } = limits {
            let plenty = usize::try_from(PLENTY_OF_BYTES).unwrap_or(usize::MAX / 2);
            config.max_memtable_rows = rows.max(config.max_memtable_rows);
            config.max_memtable_batches = puts.max(config.max_memtable_batches);
            config.max_memtable_size = plenty / 4;
            config.max_unflushed_memtable_bytes = plenty;
        }
        config
    }
}

/// What ours is opened with.
pub fn our_options(
    place: &Place,
    limits: Limits,
    linger_ms: u64,
    compression: WalCompression,
) -> OpenOptions {
    let mut settings = ShardSettings::default();
    settings.wal.linger_ms = linger_ms;
    settings.wal.compression = compression;
    let mut options = OpenOptions::default();
    if let Limits::Raised { rows, .. } = limits {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX - 1);
        settings.freeze.max_rows = rows.max(settings.freeze.max_rows);
        settings.freeze.max_bytes = PLENTY_OF_BYTES;
        settings.freeze.max_entries = u64::MAX;
        settings.freeze.max_wal_bytes = PLENTY_OF_BYTES;
        options.memory = Some(MemoryBudget::new(PLENTY_OF_BYTES));
    }
    options.settings = settings;
    options.table.fsync = place.fsync();
    if let Some(wrapper) = place.wrapper() {
        options.connection = Connection::default().with_wrapper(wrapper);
    }
    options
}

async fn create_reference(place: &Place) -> Result<Dataset> {
    let params =
        WriteParams { mode: WriteMode::Create, store_params: place.store_params(), ..WriteParams::default() };
    let no_rows = RecordBatchIterator::new([], data::marked_schema());
    let uri = place.uri();
    let mut dataset = Dataset::write(no_rows, uri.as_str(), Some(params)).await?;
    init_reference(&mut dataset).await?;
    Ok(dataset)
}

async fn init_reference(dataset: &mut Dataset) -> Result<()> {
    let none: Vec<String> = Vec::new();
    dataset.initialize_mem_wal().unsharded().maintained_indexes(none).execute().await?;
    Ok(())
}

async fn open_lance(place: &Place) -> Result<Dataset> {
    let mut builder = DatasetBuilder::from_uri(&place.uri());
    if let Some(params) = place.store_params() {
        builder = builder.with_store_params(params);
    }
    Ok(builder.load().await?)
}

/// A table somebody opened and nobody writes to.
pub enum Opened {
    /// By Headwater.
    Ours(Box<Table>),
    /// By Lance.
    Reference(Box<Dataset>),
}

/// The one shard of a table, claimed.
pub enum Writer {
    /// By Headwater.
    Ours(Box<Table>),
    /// By the reference, with the table it was opened from.
    Reference(Box<ShardWriter>, Box<Dataset>),
}

impl Writer {
    /// Writes rows and waits until they are durable.
    pub async fn put(&self, batch: RecordBatch) -> Result<()> {
        match self {
            Self::Ours(table) => {
                table.put(batch).await?;
            }
            Self::Reference(writer, _) => {
                writer.put(vec![batch]).await?;
            }
        }
        Ok(())
    }

    /// Freezes what is in memory and waits until it is a published SSTable.
    pub async fn flush(&self) -> Result<()> {
        match self {
            Self::Ours(table) => {
                table.flush().await?;
            }
            Self::Reference(writer, _) => writer.force_freeze_active().await?.wait().await?,
        }
        Ok(())
    }

    /// Rows in the active memtable, replaced ones included.
    pub async fn rows(&self) -> Result<u64> {
        match self {
            Self::Ours(table) => Ok(table.stats().shards.values().map(|shard| shard.active_rows).sum()),
            Self::Reference(writer, _) => Ok(writer.memtable_stats().await?.row_count as u64),
        }
    }

    /// Bytes of memory the engine says its memtables hold.
    pub fn stated_bytes(&self) -> u64 {
        match self {
            Self::Ours(table) => table.stats().shards.values().map(|shard| shard.memtable_bytes).sum(),
            Self::Reference(writer, _) => writer.memory().retained_bytes() as u64,
        }
    }

    /// Our table, for reading it.
    pub fn table(&self) -> Result<&Table> {
        match self {
            Self::Ours(table) => Ok(table.as_ref()),
            Self::Reference(..) => bail!("the reference wrote this table"),
        }
    }

    /// The reference's writer and table, for reading them.
    pub fn reference(&self) -> Result<(&ShardWriter, &Dataset)> {
        match self {
            Self::Ours(_) => bail!("the reference did not write this table"),
            Self::Reference(writer, dataset) => Ok((writer.as_ref(), dataset.as_ref())),
        }
    }

    /// Stops without flushing, as a crash would.
    pub async fn abandon(&self) -> Result<()> {
        match self {
            Self::Ours(table) => table.abandon(),
            Self::Reference(writer, _) => writer.abort().await?,
        }
        Ok(())
    }
}
