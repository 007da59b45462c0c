//! One set of rows as three tables, and how each is read.
//!
//! Owns: [`Tiers`]: ours and the reference's (base, SSTables, memtable) and a plain Lance table that holds
//! the live rows; scan and count of each; proof that they agree. Does not own: which rows (`rows`), point
//! lookups (`workloads::r4`).
//!
//! Each engine writes a table of its own, with the same rows in the same puts and the same flushes. They
//! can't share one: a memtable is part of what is read, it is in the memory of the shard's writer, and a
//! shard has one writer. The base is the same on all sides: an ordinary Lance write, with a BTree on the
//! key. Ours is read as people read it, through `headwater::Table`, which looks at the newest base version
//! and at the shards each time. The reference is read through `LsmScanner` at its best: over an open base
//! that it does not look for newer versions of, over its writer's own manifest and memtables, with opened
//! SSTables cached.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::ArrowError;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use headwater::{ScanRequest, Table};
use lance::Dataset;
use lance::dataset::mem_wal::scanner::{DatasetCache, InMemoryMemTables, SsTableCache};
use lance::dataset::mem_wal::{LsmScanner, ShardSnapshot, ShardWriter};
use lance::dataset::{WriteMode, WriteParams};
use lance::index::DatasetIndexExt;
use lance_index::IndexType;
use lance_index::scalar::{BuiltinIndexType, ScalarIndexParams};

use crate::clients;
use crate::data::KEY;
use crate::engine::{BEST, Engine, Limits, OURS, Writer};
use crate::place::Place;
use crate::rows::{COLUMNS, Digest, Layout, Rows};

/// Clients that fill a memtable.
const CLIENTS: usize = 16;
/// Opened SSTables the reference keeps: more than there are.
const CACHED_SSTABLES: u64 = 1_000;

/// Rows as they arrive.
pub type RowStream = BoxStream<'static, Result<RecordBatch>>;

/// Which of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Headwater's.
    Ours,
    /// A plain Lance table of the live rows.
    Plain,
    /// The reference's.
    Reference,
}

impl Who {
    /// How tables and JSON name it.
    pub fn name(self) -> String {
        let name = match self {
            Self::Ours => "headwater",
            Self::Plain => "plain Lance table",
            Self::Reference => "reference",
        };
        name.to_owned()
    }
}

/// See the module.
pub struct Tiers {
    /// What is in them.
    pub rows: Rows,
    /// The plain table.
    pub plain: Arc<Dataset>,
    ours: Side,
    reference: Option<Reference>,
    _plain_place: Place,
}

/// A table with a write tier, and its writer.
struct Side {
    writer: Arc<Writer>,
    place: Place,
}

/// The reference's table, ready to be read.
pub struct Reference {
    side: Side,
    /// Its base, open.
    pub base: Arc<Dataset>,
    /// Its SSTables, open.
    pub cache: Arc<dyn DatasetCache>,
}

impl Tiers {
    /// Writes the tables of `layout`, each in a place of its own. Nothing has been read afterwards.
    pub async fn build(
        layout: Layout,
        with_reference: bool,
        place: impl Fn() -> Result<Place>,
    ) -> Result<Self> {
        let rows = Rows::new(layout);
        let ours = Side::written(OURS, place()?, &rows).await?;
        let reference = match with_reference {
            true => Some(Reference::new(Side::written(BEST, place()?, &rows).await?)?),
            false => None,
        };
        let plain_place = place()?;
        let plain = Arc::new(write_plain(&plain_place, rows.live()).await?);
        Ok(Self { rows, plain, ours, reference, _plain_place: plain_place })
    }

    /// Our table.
    pub fn table(&self) -> Result<&Table> {
        self.ours.writer.table()
    }

    /// Where our table is.
    pub fn place(&self) -> &Place {
        &self.ours.place
    }

    /// The reference's table.
    pub fn reference(&self) -> Result<&Reference> {
        self.reference.as_ref().context("the reference's table was not written")
    }

    /// Streams some columns of all live rows.
    pub async fn scan(&self, who: Who, columns: &[&str]) -> Result<RowStream> {
        match who {
            Who::Ours => {
                let columns = columns.iter().map(|column| (*column).to_owned()).collect();
                let request = ScanRequest { columns: Some(columns), ..ScanRequest::default() };
                let rows = self.table()?.scan(&request).await?;
                Ok(rows.map_err(anyhow::Error::from).boxed())
            }
            Who::Plain => {
                let mut scanner = self.plain.scan();
                scanner.project(columns)?;
                let rows = scanner.try_into_stream().await?;
                Ok(rows.map_err(anyhow::Error::from).boxed())
            }
            Who::Reference => {
                let scanner = self.reference()?.scanner().await?.project(columns)?;
                let rows = scanner.try_into_stream().await?;
                Ok(rows.map_err(anyhow::Error::from).boxed())
            }
        }
    }

    /// Scans and says how many rows came, which are the right number.
    pub async fn drain(&self, who: Who, columns: &[&str]) -> Result<()> {
        let mut stream = self.scan(who, columns).await?;
        let mut rows = 0;
        while let Some(batch) = stream.try_next().await? {
            rows += batch.num_rows() as u64;
        }
        self.expect(who, rows)
    }

    /// Counts all live rows, which are the right number.
    pub async fn count(&self, who: Who) -> Result<()> {
        let rows = match who {
            Who::Ours => self.table()?.count(None).await?,
            Who::Plain => self.plain.count_rows(None).await? as u64,
            // It has no other way than to scan, and needs the key for that anyhow.
            Who::Reference => self.reference()?.scanner().await?.project(&[KEY])?.count_rows().await?,
        };
        self.expect(who, rows)
    }

    fn expect(&self, who: Who, rows: u64) -> Result<()> {
        let live = self.rows.live_count();
        ensure!(rows == live, "{} has {rows} rows, and {live} are live", who.name());
        Ok(())
    }

    /// All tables hold the same rows, in all columns.
    pub async fn check(&self) -> Result<()> {
        let plain = self.digest(Who::Plain).await?;
        self.expect(Who::Plain, plain.rows)?;
        let others = [Some(Who::Ours), self.reference.as_ref().map(|_| Who::Reference)];
        for who in others.into_iter().flatten() {
            let digest = self.digest(who).await?;
            self.expect(who, digest.rows)?;
            ensure!(digest == plain, "{} has other rows than the plain table", who.name());
        }
        Ok(())
    }

    async fn digest(&self, who: Who) -> Result<Digest> {
        let mut rows = self.scan(who, &COLUMNS).await?;
        let mut digest = Digest::default();
        while let Some(batch) = rows.try_next().await? {
            digest.add(&batch, &COLUMNS)?;
        }
        Ok(digest)
    }

    /// Leaves the shards as a crash would.
    pub async fn abandon(&self) -> Result<()> {
        self.ours.writer.abandon().await?;
        if let Some(reference) = &self.reference {
            reference.side.writer.abandon().await?;
        }
        Ok(())
    }
}

impl Side {
    /// Base, then part by part; every part but the last is flushed.
    async fn written(engine: Engine, place: Place, rows: &Rows) -> Result<Self> {
        write_plain(&place, rows.base()).await?;
        let limits = Limits::raised(rows.largest_part(), rows.largest_part());
        let opened = engine.init_table(&place, limits).await?;
        let writer = Arc::new(engine.claim(opened, limits).await?);
        let sstables = rows.layout.sstables;
        for part in 0..=sstables {
            let puts: Arc<[RecordBatch]> = rows.puts(part)?.into();
            clients::run(&writer, &puts, CLIENTS).await?;
            let (held, put) = (writer.rows().await?, clients::rows(&puts) as u64);
            ensure!(held == put, "{} holds {held} rows of {put} in memory", engine.name());
            if part < sstables {
                writer.flush().await?;
            }
        }
        Ok(Self { writer, place })
    }
}

impl Reference {
    fn new(side: Side) -> Result<Self> {
        let (_, dataset) = side.writer.reference()?;
        let base = Arc::new(dataset.clone());
        let cache: Arc<dyn DatasetCache> = Arc::new(SsTableCache::new(CACHED_SSTABLES));
        Ok(Self { side, base, cache })
    }

    /// A scanner over everything, as it is now.
    pub async fn scanner(&self) -> Result<LsmScanner> {
        let (shards, memtables) = self.sources().await?;
        let id = self.writer()?.shard_id();
        let scanner = LsmScanner::new(Arc::clone(&self.base), vec![shards], vec![KEY.to_owned()]);
        Ok(scanner.with_in_memory_memtables(id, memtables).with_sstable_cache(Arc::clone(&self.cache)))
    }

    /// Its SSTables and memtables.
    pub async fn sources(&self) -> Result<(ShardSnapshot, InMemoryMemTables)> {
        let writer = self.writer()?;
        let memtables = writer.in_memory_memtable_refs().await?;
        let manifest = writer.manifest().await?.context("the reference's shard has no manifest")?;
        let mut shard = ShardSnapshot::new(writer.shard_id())
            .with_spec_id(manifest.shard_spec_id)
            .with_current_generation(manifest.current_generation);
        for sstable in manifest.sstables {
            shard = shard.with_sstable(sstable.generation, sstable.path);
        }
        Ok((shard, memtables))
    }

    /// Its shard's writer.
    pub fn writer(&self) -> Result<&ShardWriter> {
        Ok(self.side.writer.reference()?.0)
    }

    /// Where its table is.
    pub fn place(&self) -> &Place {
        &self.side.place
    }
}

/// An ordinary Lance table of these rows, with a BTree on the key.
async fn write_plain(
    place: &Place,
    rows: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
) -> Result<Dataset> {
    let params =
        WriteParams { mode: WriteMode::Create, store_params: place.store_params(), ..WriteParams::default() };
    let rows = RecordBatchIterator::new(rows, Rows::schema(true));
    let uri = place.uri();
    let mut dataset = Dataset::write(rows, uri.as_str(), Some(params)).await?;
    let btree = ScalarIndexParams::for_builtin(BuiltinIndexType::BTree);
    let name = Some("key".to_owned());
    dataset.create_index(&[KEY], IndexType::BTree, name, &btree, false).await?;
    Ok(dataset)
}
