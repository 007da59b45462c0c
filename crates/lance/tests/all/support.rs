//! What the tests share: tables in temporary directories, memtables filled by hand, rows as plain text.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_engine::budget::MemoryBudget;
use headwater_engine::index::MemIndex;
use headwater_engine::ingest::{Ingest, IngestLimits};
use headwater_engine::memtable::{FrozenMemtable, Memtable};
use headwater_engine::table::{TableError, TableIo, WrittenSsTable};
use headwater_format::coord::{Generation, Seq, ShardId};
use headwater_format::path::{sstable_dir, sstable_name};
use headwater_format::shard_manifest::SsTable;
use headwater_lance::{LanceTable, Sharding, TableOptions};
use headwater_store::env::{EnvRef, TokioEnv};
use lance::Dataset;
use tempfile::TempDir;
use uuid::Uuid;

/// A rows-or-deletes step of a test story.
pub enum Step {
    Rows(RecordBatch),
    Deletes(RecordBatch),
}

pub fn env() -> EnvRef {
    Arc::new(TokioEnv::new())
}

pub fn options() -> TableOptions {
    TableOptions::default()
}

pub fn names(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|column| (*column).to_owned()).collect()
}

/// `id` Int64, `value` Utf8.
pub fn id_value_schema() -> Schema {
    Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("value", DataType::Utf8, true)])
}

pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

pub fn id_value_rows(rows: &[(i64, &str)]) -> RecordBatch {
    let ids = Int64Array::from_iter_values(rows.iter().map(|(id, _)| *id));
    let values = StringArray::from_iter_values(rows.iter().map(|(_, value)| *value));
    batch(vec![("id", Arc::new(ids)), ("value", Arc::new(values))])
}

pub fn ids(ids: &[i64]) -> RecordBatch {
    batch(vec![("id", Arc::new(Int64Array::from(ids.to_vec())))])
}

/// A directory that goes away with the test, and a table path in it.
pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn uri(&self) -> String {
        self.dir.path().join("table.lance").to_str().unwrap().to_owned()
    }

    /// A new table with this schema and key, without a write tier.
    pub async fn table(&self, schema: &Schema, key: &[&str]) -> Arc<LanceTable> {
        LanceTable::create(&self.uri(), schema, &names(key), &options(), env()).await.unwrap()
    }

    /// A new unsharded table keyed by `id`.
    pub async fn id_value_table(&self) -> Arc<LanceTable> {
        let table = self.table(&id_value_schema(), &["id"]).await;
        table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
        table
    }

    pub async fn dataset(&self) -> Dataset {
        Dataset::open(&self.uri()).await.unwrap()
    }

    pub async fn open(&self) -> Arc<LanceTable> {
        LanceTable::open(&self.uri(), &options(), env()).await.unwrap()
    }
}

/// A memtable of generation 1 with `steps` in it, all durable.
pub fn frozen(table: &LanceTable, steps: Vec<Step>) -> FrozenMemtable {
    let frozen = frozen_not_durable(table, steps);
    frozen.set_durable_through(frozen.end_seq());
    frozen
}

pub fn frozen_not_durable(table: &LanceTable, steps: Vec<Step>) -> FrozenMemtable {
    frozen_with(table, steps, Vec::new())
}

pub fn frozen_with(table: &LanceTable, steps: Vec<Step>, indexes: Vec<Arc<dyn MemIndex>>) -> FrozenMemtable {
    let limits = IngestLimits { max_rows: u64::MAX, max_bytes: u64::MAX };
    let ingest = Ingest::new(&table.schema(), limits).unwrap();
    let mut memtable = Memtable::new(
        Generation::new(1),
        Arc::clone(ingest.schema()),
        ingest.key().cloned(),
        Seq::new(1),
        indexes,
        MemoryBudget::new(u64::MAX).charge(0),
    );
    for step in steps {
        let prepared = match step {
            Step::Rows(rows) => ingest.rows(rows).unwrap(),
            Step::Deletes(keys) => ingest.deletes(keys).unwrap(),
        };
        memtable.append(&prepared).unwrap();
    }
    memtable.freeze()
}

pub fn shard() -> ShardId {
    ShardId::new(Uuid::from_u128(0x1234_5678))
}

/// The name tests write generation 1 under.
pub fn name() -> String {
    sstable_name(0xabcd_ef01, Generation::new(1))
}

pub fn sstable() -> SsTable {
    SsTable {
        generation: Generation::new(1),
        path: name(),
        in_memory_bytes: None,
        physical_rows: None,
        primary_key_bytes: None,
    }
}

pub async fn write(table: &LanceTable, frozen: &FrozenMemtable) -> Result<WrittenSsTable, TableError> {
    table.write_sstable(shard(), &name(), frozen).await
}

/// The written generation as anybody else sees it: a plain Lance dataset.
pub async fn plain_dataset(place: &Place) -> Dataset {
    Dataset::open(&format!("{}/{}", place.uri(), sstable_dir(shard(), &name()))).await.unwrap()
}

/// Rows of text cells, as `column=cell`.
pub fn cells(batches: &[RecordBatch], columns: &[&str]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cell = |column: &&str| {
                let values = batch.column_by_name(column).unwrap_or_else(|| panic!("no column {column}"));
                arrow_cast::display::array_value_to_string(values, row).unwrap()
            };
            rows.push(columns.iter().map(cell).collect());
        }
    }
    rows
}

pub fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// What a SchemaChanged error says.
#[track_caller]
pub fn schema_changed<T: std::fmt::Debug>(result: Result<T, TableError>) -> String {
    match result {
        Err(TableError::SchemaChanged { reason }) => reason,
        other => panic!("expected SchemaChanged, found {other:?}"),
    }
}

/// What an Invalid error says.
#[track_caller]
pub fn invalid<T: std::fmt::Debug>(result: Result<T, TableError>) -> String {
    match result {
        Err(TableError::Invalid { reason }) => reason,
        other => panic!("expected Invalid, found {other:?}"),
    }
}

/// The live rows of a plain dataset.
pub async fn scan_plain(dataset: &Dataset) -> Vec<RecordBatch> {
    use futures::TryStreamExt;
    dataset.scan().try_into_stream().await.unwrap().try_collect().await.unwrap()
}
