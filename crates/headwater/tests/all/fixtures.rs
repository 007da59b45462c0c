//! Tables of released versions stay readable: opened, read, replayed and flushed by this version.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{DataType, Field, Schema};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use headwater::{
    ClientToken, Env, OpenOptions, ScanRequest, Sharding, Table, TokioEnv, UpdateRequest, WriteOptions,
};
use headwater_store::env::Task;

use crate::support::{Home, copy, expected, options, read, rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_version_0_1_is_read_replayed_and_written_on() {
    let home = Home::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/0.1/table.lance"), &home.path());
    let before = home.shard().await;
    assert_eq!((before.sstables.len(), before.wal.unflushed_rows, before.problems.len()), (2, 2, 0));

    let table = home.open().await;
    table.open_shards().await.unwrap();
    let held = expected(&[
        (-8, "only in the WAL"),
        (1, "replaced in its generation"),
        (2, "replaced by a later generation"),
        (3, "null"),
        (7, "replaced in the WAL"),
    ]);
    assert_eq!(read(&table).await, held);
    table.put(rows(&[(3, "three")])).await.unwrap();
    table.close().await.unwrap();

    let after = home.shard().await;
    assert_eq!((after.sstables.len(), after.wal.unflushed_rows), (3, 0));
    let mut held = held;
    held.extend(expected(&[(3, "three")]));
    assert_eq!(home.reopen_and_read().await, held);
}

/// Live rows of the table of version 0.2: key columns, note, level.
async fn held(table: &Table) -> Vec<(String, i32, Option<String>, Option<f64>)> {
    let batches: Vec<RecordBatch> =
        table.scan(&ScanRequest::default()).await.unwrap().try_collect().await.unwrap();
    let mut held = Vec::new();
    for batch in &batches {
        let (site, id) = (batch["site"].as_string::<i32>(), batch["id"].as_primitive::<Int32Type>());
        let (note, level) = (batch["note"].as_string::<i32>(), batch["level"].as_primitive::<Float64Type>());
        held.extend((0..batch.num_rows()).map(|row| {
            let note = note.is_valid(row).then(|| note.value(row).to_owned());
            let level = level.is_valid(row).then(|| level.value(row));
            (site.value(row).to_owned(), id.value(row), note, level)
        }));
    }
    held.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_version_0_2_is_read_over_all_tiers_before_and_after_it_is_taken_over() {
    let home = Home::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/0.2/table.lance"), &home.path());
    let row =
        |site: &str, id, note: Option<&str>, level| (site.to_owned(), id, note.map(ToOwned::to_owned), level);
    let expected = [
        row("bern", 9, Some("only in the WAL"), None),
        row("bern", 10, Some("only in the WAL"), None),
        row("kyiv", 3, None, Some(5.0)),
        row("oslo", 1, Some("base"), Some(1.0)),
        row("oslo", 4, Some("the newest of its generation"), Some(7.0)),
        row("rome", 1, Some("replaced in an SSTable"), Some(30.0)),
        row("rome", 2, Some("replaced in the WAL once more"), Some(41.0)),
    ];
    let table = home.open().await;
    assert_eq!(held(&table).await, expected);
    assert_eq!(table.count(Some("site = 'rome'")).await.unwrap(), 2);
    table.open_shards().await.unwrap();
    assert_eq!(held(&table).await, expected);
    table.close().await.unwrap();
    let table = home.open().await;
    assert_eq!(held(&table).await, expected);
    let report = home.inspect().await;
    assert!(report.shards.iter().all(|shard| shard.wal.unflushed_rows == 0 && shard.problems.is_empty()));
}

/// As it is, at another time on the wall.
#[derive(Debug)]
struct At {
    env: TokioEnv,
    wall: SystemTime,
}

impl Env for At {
    fn now(&self) -> Duration {
        self.env.now()
    }

    fn wall_clock(&self) -> SystemTime {
        self.wall
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.env.sleep(duration)
    }

    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) -> Task {
        self.env.spawn(name, future)
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        self.env.run_blocking(work)
    }

    fn random(&self) -> u64 {
        self.env.random()
    }
}

/// Columns of the table of version 0.3: key, a counter, a text.
fn counters(rows: &[(i64, i32, &str)]) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("hits", DataType::Int32, false),
        Field::new("note", DataType::Utf8, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.2))),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// Live rows of the table of version 0.3.
async fn counted(table: &Table) -> Vec<(i64, i32, String)> {
    let batches: Vec<RecordBatch> =
        table.scan(&ScanRequest::default()).await.unwrap().try_collect().await.unwrap();
    let mut held = Vec::new();
    for batch in &batches {
        let (ids, hits) =
            (batch["id"].as_primitive::<Int64Type>(), batch["hits"].as_primitive::<Int32Type>());
        let notes = batch["note"].as_string::<i32>();
        held.extend(
            (0..batch.num_rows()).map(|row| (ids.value(row), hits.value(row), notes.value(row).to_owned())),
        );
    }
    held.sort();
    held
}

fn named(name: &str) -> WriteOptions {
    WriteOptions { token: Some(ClientToken::new(name.as_bytes()).unwrap()), unchanged_since: None }
}

/// The requests whose tokens the table of version 0.3 tells of, but those of `put`.
async fn raise(table: &Table) -> u64 {
    let updates = vec![("hits".to_owned(), "hits + 1".to_owned())];
    let request =
        UpdateRequest { updates, predicate: Some("hits >= 10".to_owned()), token: named("raise").token };
    table.update(request).await.unwrap().rows_updated
}

async fn discard(table: &Table) -> u64 {
    let deleted = table.delete_where("note = 'to be deleted'", named("discard").token).await;
    deleted.unwrap().num_deleted_rows
}

/// As `fixtures/0.3` was made, once, by version 0.3.0.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes fixtures/0.3: run once a version"]
async fn make_the_table_of_version_0_3() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/0.3/table.lance");
    let uri = path.display().to_string();
    let base = counters(&[(1, 1, "base"), (2, 2, "base"), (3, 3, "to be deleted")]);
    let schema = base.schema();
    let base = RecordBatchIterator::new([Ok(base)], schema);
    lance::Dataset::write(base, &uri, None).await.unwrap();
    let table = Table::init(&uri, &["id".to_owned()], &Sharding::Unsharded, options()).await.unwrap();
    let flushed = counters(&[(2, 20, "in an SSTable"), (4, 40, "in an SSTable")]);
    table.put_with(flushed, &named("flushed")).await.unwrap();
    table.put(counters(&[(5, 5, "without a token")])).await.unwrap();
    assert_eq!(raise(&table).await, 2);
    table.flush().await.unwrap();
    table.put_with(counters(&[(6, 60, "only in the WAL")]), &named("in the WAL")).await.unwrap();
    assert_eq!(discard(&table).await, 1);
    table.abandon();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_version_0_3_is_read_and_its_client_tokens_are_known() {
    let home = Home::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/0.3/table.lance"), &home.path());
    let row = |id, hits, note: &str| (id, hits, note.to_owned());
    let mut expected = vec![
        row(1, 1, "base"),
        row(2, 21, "in an SSTable"),
        row(4, 41, "in an SSTable"),
        row(5, 5, "without a token"),
        row(6, 60, "only in the WAL"),
    ];
    let floor = home.newest_manifest().await.token_floor.unwrap();
    let written = SystemTime::UNIX_EPOCH + Duration::from_millis(floor.newest_ms);
    let later = |minutes| OpenOptions {
        env: Some(Arc::new(At { env: TokioEnv::new(), wall: written + Duration::from_mins(minutes) })),
        ..options()
    };
    let table = Table::open(&home.uri(), later(1)).await.unwrap();
    assert_eq!(counted(&table).await, expected);
    for reopened in [false, true] {
        let table = Table::open(&home.uri(), later(1)).await.unwrap();
        for name in ["flushed", "in the WAL"] {
            table.put_with(counters(&[(9, 9, "written again")]), &named(name)).await.unwrap();
        }
        assert_eq!((raise(&table).await, discard(&table).await), (2, 1));
        assert_eq!(counted(&table).await, expected, "reopened: {reopened}");
        if !reopened {
            table.put(counters(&[(7, 70, "by this version")])).await.unwrap();
            expected.push(row(7, 70, "by this version"));
        }
        table.close().await.unwrap();
    }
    let forgotten = Table::open(&home.uri(), later(11)).await.unwrap();
    forgotten.put_with(counters(&[(9, 9, "new")]), &named("flushed")).await.unwrap();
    expected.push(row(9, 9, "new"));
    assert_eq!(counted(&forgotten).await, expected, "after ten minutes a token is a new one");
}
