//! What the tests share: tables in temporary directories, rows, and reading everything back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use headwater::coord::ShardId;
use headwater::inspect::TableReport;
use headwater::inspect::report::ShardReport;
use headwater::{Error, OpenOptions, ReadLevel, Sharding, Table, TableOptions, TokioEnv};
use headwater_format::shard_manifest::ShardManifest;
use tempfile::TempDir;

/// Live rows by key.
pub type Rows = BTreeMap<i64, String>;

/// A directory for one table, gone at the end of the test.
pub struct Home {
    directory: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("table")
    }

    pub fn uri(&self) -> String {
        self.path().display().to_string()
    }

    /// A new table (id: Int64 key, name: Utf8).
    pub async fn create(&self, sharding: &Sharding) -> Table {
        Table::create(&self.uri(), &schema(), &["id".to_owned()], sharding, options()).await.unwrap()
    }

    pub async fn open(&self) -> Table {
        Table::open(&self.uri(), options()).await.unwrap()
    }

    /// Opens the table, takes every shard over and reads all rows that are not in the base.
    pub async fn reopen_and_read(&self) -> Rows {
        let table = self.open().await;
        table.open_shards().await.unwrap();
        read(&table).await
    }

    pub async fn inspect(&self) -> TableReport {
        inspect(&self.uri()).await
    }

    /// The report of the only shard.
    pub async fn shard(&self) -> ShardReport {
        let mut report = self.inspect().await;
        assert_eq!(report.shards.len(), 1, "{report:?}");
        report.shards.remove(0)
    }

    /// Every object of a directory of the only shard.
    pub async fn objects(&self, directory: &str) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(self.shard_dir().await.join(directory)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        // Beside the manifests lies a hint.
        let objects = paths.filter(|path| path.extension().is_none_or(|extension| extension != "json"));
        objects.map(|path| fs::read(path).unwrap()).collect()
    }

    /// The newest manifest of the only shard, with what of it is ours alone.
    pub async fn newest_manifest(&self) -> ShardManifest {
        let manifests = self.objects("manifest").await.into_iter();
        let manifests = manifests.map(|bytes| ShardManifest::decode(&bytes).unwrap());
        manifests.max_by_key(|manifest| manifest.version).unwrap()
    }

    /// The directory of the only shard.
    pub async fn shard_dir(&self) -> PathBuf {
        self.path().join("_mem_wal").join(self.shard().await.id)
    }
}

pub async fn inspect(uri: &str) -> TableReport {
    headwater::inspect::inspect(uri, &TableOptions::default(), Arc::new(TokioEnv::new())).await.unwrap()
}

/// Without fsync: these tests crash processes, not machines.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.table.fsync = false;
    // A test that waits for a request that cannot succeed should not wait for long.
    options.settings.retry.max_attempts = 3;
    options.settings.retry.base = Duration::from_millis(1);
    options.settings.flush.retry_base_ms = 1;
    options.settings.flush.retry_cap_ms = 10;
    options
}

/// So that each read sees at once what others did to the base, and which shards they made.
pub fn asking() -> OpenOptions {
    let mut options = options();
    options.settings.reads.base_refresh_ms = 0;
    options
}

pub fn schema() -> Schema {
    Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, true)])
}

pub fn rows(rows: &[(i64, &str)]) -> RecordBatch {
    let ids: Int64Array = rows.iter().map(|(id, _)| Some(*id)).collect();
    let names: StringArray = rows.iter().map(|(_, name)| Some(*name)).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(names)];
    RecordBatch::try_new(Arc::new(schema()), columns).unwrap()
}

pub fn keys(ids: &[i64]) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
    RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap()
}

/// `(id, "name of id")` for every id.
pub fn named(ids: impl IntoIterator<Item = i64>) -> RecordBatch {
    let ids: Vec<i64> = ids.into_iter().collect();
    let names: Vec<String> = ids.iter().map(|id| format!("name of {id}")).collect();
    rows(&ids.iter().copied().zip(names.iter().map(String::as_str)).collect::<Vec<_>>())
}

pub fn expected(rows: &[(i64, &str)]) -> Rows {
    rows.iter().map(|(id, name)| (*id, (*name).to_owned())).collect()
}

/// All rows of the open shards: of each key the newest, oldest tier first.
pub async fn read(table: &Table) -> Rows {
    by_shard(table).await.into_values().flatten().collect()
}

/// The same, by shard.
pub async fn by_shard(table: &Table) -> BTreeMap<ShardId, Rows> {
    let snapshot = table.snapshot(ReadLevel::Durable).await.unwrap();
    let mut shards = BTreeMap::new();
    for (id, shard) in snapshot.shards() {
        let mut rows = Rows::new();
        for sstable in shard.sstables().unwrap() {
            let reader = table.files().open_sstable(*id, sstable).await.unwrap();
            for batch in reader.scan().await.unwrap() {
                apply(&mut rows, &batch);
            }
        }
        for memtable in shard.memtables().unwrap() {
            for batch in memtable.visible(shard.seq()).unwrap() {
                apply(&mut rows, &batch);
            }
        }
        shards.insert(*id, rows);
    }
    shards
}

fn apply(rows: &mut Rows, batch: &RecordBatch) {
    let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
    let names = batch.column_by_name("name").unwrap().as_string::<i32>();
    let deleted = batch.column_by_name("_tombstone").unwrap().as_boolean();
    for row in 0..batch.num_rows() {
        if deleted.value(row) {
            rows.remove(&ids.value(row));
        } else {
            let name = if names.is_null(row) { "null" } else { names.value(row) };
            rows.insert(ids.value(row), name.to_owned());
        }
    }
}

/// The error's whole text, its sources included.
pub fn text(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The one file in `directory` whose name begins so.
pub fn file(directory: &Path, begin: &str) -> PathBuf {
    let found = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        found.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(begin)).collect();
    assert_eq!(found.len(), 1, "files of {} that begin with {begin}: {found:?}", directory.display());
    found.remove(0)
}

/// Every file below `directory` with its content: to show that nothing was touched.
pub fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

/// A directory with everything in it.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
