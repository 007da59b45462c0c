//! Updates and deletes by condition: what they change, and what happens once however often it is asked for.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use futures::future::join_all;
use headwater::{ClientToken, Error, OpenOptions, ScanRequest, Sharding, Table, UpdateRequest};
use lance::Dataset;
use lance::dataset::WriteParams;

use crate::support::{Home, keys, options, rows};

/// x, note, and the vector of a row.
type Values = (i32, Option<String>, Vec<f32>);

fn schema() -> SchemaRef {
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("x", DataType::Int32, false),
        Field::new("note", DataType::Utf8, true),
        Field::new("v", DataType::FixedSizeList(item, 2), true),
    ]))
}

/// Rows with x = 0, the note "old" and the vector [id, 0].
fn fresh(ids: impl IntoIterator<Item = i64>) -> RecordBatch {
    let ids: Vec<i64> = ids.into_iter().collect();
    let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for id in &ids {
        vectors.values().append_slice(&[*id as f32, 0.0]);
        vectors.append(true);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.clone())),
        Arc::new(Int32Array::from(vec![0; ids.len()])),
        Arc::new(StringArray::from(vec!["old"; ids.len()])),
        Arc::new(vectors.finish()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// A table with rows 0..10 in its base, 10..20 in SSTables and 20..30 in memory; of each ten the last is
/// replaced by the next tier.
async fn layered(home: &Home, sharding: &Sharding) -> Table {
    let base = fresh(0..10);
    let base = RecordBatchIterator::new([Ok(base)], schema());
    let params = WriteParams { max_rows_per_file: 4, ..WriteParams::default() };
    Dataset::write(base, &home.uri(), Some(params)).await.unwrap();
    let table = Table::init(&home.uri(), &["id".to_owned()], sharding, options()).await.unwrap();
    table.put(fresh(9..20)).await.unwrap();
    table.flush().await.unwrap();
    table.put(fresh(19..30)).await.unwrap();
    table
}

async fn empty(home: &Home, options: OpenOptions) -> Table {
    let key = ["id".to_owned()];
    Table::create(&home.uri(), &schema(), &key, &Sharding::Unsharded, options).await.unwrap()
}

fn buckets() -> Sharding {
    Sharding::Bucket { column: "id".to_owned(), num_buckets: 3 }
}

async fn held(table: &Table) -> BTreeMap<i64, Values> {
    let batches: Vec<RecordBatch> =
        table.scan(&ScanRequest::default()).await.unwrap().try_collect().await.unwrap();
    let mut held = BTreeMap::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let note = batch["note"].as_string::<i32>();
            let vectors = batch["v"].as_fixed_size_list();
            let vector = match vectors.is_valid(row) {
                true => vectors.value(row).as_primitive::<Float32Type>().values().to_vec(),
                false => Vec::new(),
            };
            let values = (
                batch["x"].as_primitive::<Int32Type>().value(row),
                note.is_valid(row).then(|| note.value(row).to_owned()),
                vector,
            );
            let id = batch["id"].as_primitive::<Int64Type>().value(row);
            assert_eq!(held.insert(id, values), None, "row {id} twice");
        }
    }
    held
}

async fn xs(table: &Table) -> Vec<i32> {
    held(table).await.into_values().map(|(x, ..)| x).collect()
}

fn token(name: &str) -> Option<ClientToken> {
    Some(ClientToken::new(name.as_bytes()).unwrap())
}

fn set(updates: &[(&str, &str)], predicate: Option<&str>) -> UpdateRequest {
    let updates = updates.iter().map(|(column, value)| ((*column).to_owned(), (*value).to_owned()));
    let predicate = predicate.map(ToOwned::to_owned);
    UpdateRequest { updates: updates.collect(), predicate, token: None }
}

fn add_one(predicate: Option<&str>, name: &str) -> UpdateRequest {
    UpdateRequest { token: token(name), ..set(&[("x", "x + 1")], predicate) }
}

async fn updated(table: &Table, request: UpdateRequest) -> u64 {
    table.update(request).await.unwrap().rows_updated
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_gives_rows_of_every_tier_new_values_from_what_they_were() {
    for sharding in [Sharding::Unsharded, buckets()] {
        let home = Home::new();
        let table = layered(&home, &sharding).await;
        let all = [("x", "x + CAST(id AS INT) * 2"), ("note", "concat(note, '!')")];
        assert_eq!(updated(&table, set(&all, Some("id % 2 = 1"))).await, 15);
        let after = held(&table).await;
        assert_eq!(after.len(), 30);
        for (id, (x, note, vector)) in after {
            let (changed, at) = (id % 2 == 1, id as f32);
            let (value, text) = if changed { (2 * id as i32, "old!") } else { (0, "old") };
            assert_eq!((x, note.as_deref(), vector), (value, Some(text), vec![at, 0.0]), "row {id}");
        }
        // Values are cast to the column: text to a number, numbers to a vector of other numbers.
        let cast = [("x", "'7'"), ("v", "[1.5, -2]"), ("note", "NULL")];
        assert_eq!(updated(&table, set(&cast, Some("id >= 28 OR id = 3"))).await, 3);
        let after = held(&table).await;
        for id in [3, 28, 29] {
            assert_eq!(after[&id], (7, None, vec![1.5, -2.0]), "row {id}");
        }
        assert_eq!(updated(&table, set(&[("v", "NULL"), ("note", "'x = 1'")], None)).await, 30);
        assert!(
            held(&table).await.into_values().all(|(_, note, v)| v.is_empty() && note.unwrap() == "x = 1")
        );
        assert_eq!(updated(&table, set(&[("x", "1")], Some("note IS NULL"))).await, 0);
        let before = held(&table).await;
        table.close().await.unwrap();
        let table = home.open().await;
        assert_eq!(held(&table).await, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_takes_the_rows_its_condition_keeps_from_every_tier() {
    for sharding in [Sharding::Unsharded, buckets()] {
        let home = Home::new();
        let table = layered(&home, &sharding).await;
        assert_eq!(table.delete_where("id % 10 >= 8", None).await.unwrap().num_deleted_rows, 6);
        assert_eq!(table.delete_where("id % 10 >= 8", None).await.unwrap().num_deleted_rows, 0);
        let left: Vec<i64> = held(&table).await.into_keys().collect();
        assert_eq!(left, (0..30).filter(|id| id % 10 < 8).collect::<Vec<_>>());
        assert_eq!(table.delete_where("true", None).await.unwrap().num_deleted_rows, 24);
        assert_eq!(table.count(None).await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_update_cannot_do_is_refused_by_column_and_changes_nothing() {
    let home = Home::new();
    let table = layered(&home, &Sharding::Unsharded).await;
    let before = held(&table).await;
    for (updates, predicate, says) in [
        (&[("id", "7")][..], None, &["id", "key", "never changes"][..]),
        (&[("hat", "7")], None, &["\"hat\"", "id, x, note, v"]),
        (&[("x", "1"), ("x", "2")], None, &["column x", "twice"]),
        (&[], None, &["no column"]),
        (&[("x", "")], None, &["column x", "empty"]),
        (&[("x", "hat + 1")], None, &["column x", "hat"]),
        (&[("x", "x + 1, note = 'y'")], None, &["column x", "goes on after the expression"]),
        (&[("x", "'seven'")], None, &["column x", "seven"]),
        (&[("x", "NULL")], None, &["column x", "null"]),
        (&[("x", "3000000000")], None, &["column x", "3000000000"]),
        (&[("v", "[1.0, 2.0, 3.0]")], None, &["column v"]),
        (&[("v", "5")], None, &["column v", "Int64"]),
        (&[("x", "1")], Some("hat = 1"), &["hat = 1", "no column"]),
        (&[("x", "1")], Some("id = 1; DROP TABLE t"), &["goes on after the condition"]),
        (&[("x", "1 / (id - 3)")], Some("id = 3"), &["column x", "Divide by zero"]),
    ] {
        let error = table.update(set(updates, predicate)).await.unwrap_err();
        let text = crate::support::text(&error);
        for part in says {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
        assert!(!error.is_retryable(), "{text}");
        assert!(matches!(error, Error::Read { .. }), "{error:?}");
    }
    assert!(table.delete_where("", None).await.is_err());
    assert_eq!(held(&table).await, before);

    let keyless = Home::new();
    let schema = rows(&[(1, "a")]).schema();
    let options = options();
    let table = Table::create(&keyless.uri(), &schema, &[], &Sharding::Unsharded, options).await.unwrap();
    table.put(rows(&[(1, "a")])).await.unwrap();
    for error in [
        table.update(set(&[("name", "'b'")], None)).await.unwrap_err(),
        table.delete_where("id = 1", None).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("without a key"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_and_upserts_beside_each_other_lose_nothing_and_apply_nothing_twice() {
    for sharding in [Sharding::Unsharded, buckets()] {
        let home = Home::new();
        let table = Arc::new(layered(&home, &sharding).await);
        let increments = (0..2).map(|_| {
            let table = Arc::clone(&table);
            async move {
                for _ in 0..8 {
                    assert_eq!(updated(&table, set(&[("x", "x + 1")], None)).await, 30);
                }
            }
        });
        let upserts = async {
            for round in 0..20 {
                let ids: Vec<i64> = (round % 3..30).step_by(3).collect();
                let note = format!("round {round}");
                let batch = RecordBatch::try_from_iter([
                    ("id", Arc::new(Int64Array::from(ids.clone())) as ArrayRef),
                    ("note", Arc::new(StringArray::from(vec![note.as_str(); ids.len()])) as ArrayRef),
                ]);
                table.upsert_columns(batch.unwrap(), None).await.unwrap();
            }
        };
        let flushes = async {
            for _ in 0..3 {
                table.flush().await.unwrap();
            }
        };
        futures::join!(join_all(increments), upserts, flushes);
        for (id, (x, note, _)) in held(&table).await {
            let round = (0..20).rev().find(|round| round % 3 == id % 3).unwrap();
            assert_eq!((x, note), (16, Some(format!("round {round}"))), "row {id}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_no_longer_match_when_they_are_written_are_left_alone() {
    let home = Home::new();
    let table = Arc::new(layered(&home, &Sharding::Unsharded).await);
    // Each takes what the others have not: together they take every row once.
    let takers = (0..6).map(|taker| {
        let table = Arc::clone(&table);
        let note = format!("'taken by {taker}'");
        async move { updated(&table, set(&[("note", &note), ("x", "x + 1")], Some("x = 0"))).await }
    });
    let taken: u64 = join_all(takers).await.into_iter().sum();
    assert_eq!(taken, 30);
    assert_eq!(xs(&table).await, [1; 30]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_sent_again_changes_nothing_whatever_happened_since() {
    for sharding in [Sharding::Unsharded, buckets()] {
        let home = Home::new();
        let table = layered(&home, &sharding).await;
        let request = || add_one(Some("x < 5"), "request 1");
        assert_eq!(updated(&table, request()).await, 30);
        assert_eq!(updated(&table, request()).await, 30, "and says what it did");
        // Others set rows back, and write new ones that match.
        table.put(fresh([4, 24, 100, 101])).await.unwrap();
        assert_eq!(updated(&table, request()).await, 30);
        let mut expected = vec![1; 32];
        for row in [4, 24, 30, 31] {
            expected[row] = 0;
        }
        assert_eq!(xs(&table).await, expected);
        table.abandon();
        let table = home.open().await;
        assert_eq!(updated(&table, request()).await, 30, "replayed");
        table.close().await.unwrap();
        let table = home.open().await;
        assert_eq!(updated(&table, request()).await, 30, "flushed");
        assert_eq!(xs(&table).await, expected);
        assert_eq!(updated(&table, add_one(Some("x < 5"), "request 2")).await, 32);

        let delete = || async { table.delete_where("id < 3", token("request 3")).await.unwrap() };
        assert_eq!(delete().await.num_deleted_rows, 3);
        table.put(fresh([0, 1])).await.unwrap();
        assert_eq!(delete().await.num_deleted_rows, 3);
        assert_eq!(table.count(None).await.unwrap(), 31);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_sent_twice_at_once_is_made_once() {
    let home = Home::new();
    let mut options = options();
    options.settings.freeze.max_rows = 64;
    let table = Arc::new(empty(&home, options).await);
    for first in (0..640).step_by(64) {
        table.put(fresh(first..first + 64)).await.unwrap();
    }
    let runs = (0..4).map(|_| {
        let table = Arc::clone(&table);
        async move { updated(&table, add_one(None, "once")).await }
    });
    assert_eq!(join_all(runs).await, [640; 4]);
    assert_eq!(xs(&table).await, [1; 640]);
}

/// Entries in the logs of the table.
fn entries(home: &Home) -> usize {
    let shards = fs::read_dir(home.path().join("_mem_wal")).unwrap();
    let logs = shards.filter_map(|shard| fs::read_dir(shard.unwrap().path().join("wal")).ok());
    // Beside them lie files that are being written.
    let is_entry = |path: PathBuf| path.extension().is_some_and(|extension| extension == "arrow");
    logs.flatten().filter(|file| is_entry(file.as_ref().unwrap().path())).count()
}

/// Runs `work` until so many more entries are there, then lets go of everything as a crash does. Whether it
/// was not done by then.
async fn crash_after(home: &Home, table: Table, more: usize, work: impl AsyncFnOnce(&Table)) -> bool {
    let wanted = entries(home) + more;
    let crashed = {
        let working = std::pin::pin!(work(&table));
        let written = std::pin::pin!(async {
            while entries(home) < wanted {
                tokio::task::yield_now().await;
            }
        });
        matches!(futures::future::select(working, written).await, futures::future::Either::Right(_))
    };
    table.abandon();
    crashed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_sent_again_after_a_crash_anywhere_goes_on_and_changes_each_row_once_p12() {
    const ROWS: i64 = 320;
    let mut crashes = 0;
    for sharding in [Sharding::Unsharded, buckets()] {
        for after in 1..=8 {
            let home = Home::new();
            let mut options = options();
            // Puts of at most 32 rows: ten of them, or some more over three shards.
            options.settings.freeze.max_rows = 32;
            let key = ["id".to_owned()];
            let table =
                Table::create(&home.uri(), &schema(), &key, &sharding, options.clone()).await.unwrap();
            for first in (0..ROWS).step_by(16) {
                table.put(fresh(first..first + 16)).await.unwrap();
            }
            let run = async |table: &Table| drop(table.update(add_one(Some("x < 3"), "update")).await);
            crashes += usize::from(crash_after(&home, table, after, run).await);
            // What was committed and not answered is there; rows behind it are not.
            let table = Table::open(&home.uri(), options.clone()).await.unwrap();
            let (done, left): (Vec<i32>, Vec<i32>) = xs(&table).await.into_iter().partition(|x| *x == 1);
            assert!(left.iter().all(|x| *x == 0), "after {after}: {left:?}");
            if after > 1 {
                // Others add a row, and the next try crashes too, in part over what is flushed by now.
                table.put(fresh([ROWS])).await.unwrap();
                table.flush().await.unwrap();
                crashes += usize::from(crash_after(&home, table, 2, run).await);
            } else {
                table.close().await.unwrap();
            }
            let table = Table::open(&home.uri(), options.clone()).await.unwrap();
            let rows = updated(&table, add_one(Some("x < 3"), "update")).await;
            let after_all = xs(&table).await;
            assert!(after_all[..ROWS as usize].iter().all(|x| *x == 1), "after {after}: {after_all:?}");
            let told = after_all.iter().filter(|x| **x == 1).count() as u64;
            assert_eq!(rows, told, "after {after}, {} rows by the first", done.len());
            assert_eq!(updated(&table, add_one(Some("x < 3"), "update")).await, rows);
            assert_eq!(xs(&table).await, after_all);

            let run = async |table: &Table| drop(table.delete_where("id >= 0", token("delete")).await);
            crashes += usize::from(crash_after(&home, table, after, run).await);
            let table = Table::open(&home.uri(), options).await.unwrap();
            let gone: Vec<i64> = {
                let left = held(&table).await;
                (0..ROWS).filter(|id| !left.contains_key(id)).take(5).collect()
            };
            // Written anew by somebody, so they are not the request's any more.
            table.put(fresh(gone.clone())).await.unwrap();
            table.delete_where("id >= 0", token("delete")).await.unwrap();
            assert_eq!(held(&table).await.into_keys().collect::<Vec<_>>(), gone, "after {after}");
        }
    }
    assert!(crashes >= 24, "only {crashes} of the runs were cut short");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_do_not_fit_into_one_put_are_changed_in_several() {
    let home = Home::new();
    let mut options = options();
    options.settings.wal.max_entry_bytes = 64 << 10;
    let table = empty(&home, options).await;
    for first in (0..2_000).step_by(100) {
        table.put(fresh(first..first + 100)).await.unwrap();
    }
    // 2,000 rows of more than 1,000 bytes each.
    let long = set(&[("note", "repeat('long ', 200)")], None);
    let before = table.stats().shards.values().map(|shard| shard.counters.puts).sum::<u64>();
    assert_eq!(updated(&table, UpdateRequest { token: token("long"), ..long.clone() }).await, 2_000);
    let puts = table.stats().shards.values().map(|shard| shard.counters.puts).sum::<u64>() - before;
    assert!((32..=200).contains(&puts), "{puts} puts");
    assert_eq!(updated(&table, UpdateRequest { token: token("long"), ..long }).await, 2_000);
    assert!(held(&table).await.into_values().all(|(_, note, _)| note.unwrap().len() == 1_000));
    table.delete(keys(&[5])).await.unwrap();
    assert_eq!(
        table.delete_where("length(note) = 1000", token("all")).await.unwrap().num_deleted_rows,
        1_999
    );
}

/// A null of a vector takes as much room in an entry as the vector.
#[tokio::test(flavor = "multi_thread")]
async fn deletes_of_rows_with_long_vectors_are_cut_into_puts_that_fit() {
    let home = Home::new();
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("v", DataType::FixedSizeList(item, 256), true),
    ];
    let mut options = options();
    options.settings.wal.max_entry_bytes = 64 << 10;
    let (schema, key) = (Schema::new(fields), ["id".to_owned()]);
    let table = Table::create(&home.uri(), &schema, &key, &Sharding::Unsharded, options).await.unwrap();
    for first in (0..500).step_by(25) {
        // Only keys: the vectors are null.
        table.put(keys(&(first..first + 25).collect::<Vec<_>>())).await.unwrap();
    }
    assert_eq!(table.delete_where("v IS NULL", token("all")).await.unwrap().num_deleted_rows, 500);
    assert_eq!(table.count(None).await.unwrap(), 0);
}
