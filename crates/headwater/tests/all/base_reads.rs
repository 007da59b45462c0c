//! What newer rows hide of the base, whatever the base is like: with a key index that covers all of it, some
//! of it or nothing, with and without stable row ids, changed by others between reads (P4, P6, P13).

use std::collections::BTreeSet;

use arrow_array::{RecordBatch, RecordBatchIterator};
use futures::TryStreamExt;
use headwater::{GetRequest, ReadLevel, ReadSnapshot, ScanRequest, Sharding, Table};
use lance::Dataset;
use lance::dataset::optimize::{CompactionOptions, compact_files};
use lance::dataset::{WriteMode, WriteParams};
use lance::index::DatasetIndexExt;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::reads::{Kind, Model, check, contents, of_model};
use crate::support::{Home, asking};

/// Rows of the base: many enough that a few keys are looked up in the index, and many keys in a pass.
const BASE_ROWS: i64 = 3000;

/// How much of the base the key index covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index {
    Whole,
    Half,
    None,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    index: Index,
    stable_row_ids: bool,
}

fn params(layout: Layout, mode: WriteMode) -> Option<WriteParams> {
    let enable_stable_row_ids = layout.stable_row_ids;
    Some(WriteParams { max_rows_per_file: 700, mode, enable_stable_row_ids, ..WriteParams::default() })
}

async fn write(home: &Home, kind: Kind, rows: &[(i64, Option<i64>)], params: Option<WriteParams>) {
    let batches = RecordBatchIterator::new([Ok(kind.rows(rows))], kind.schema());
    Dataset::write(batches, &home.uri(), params).await.unwrap();
}

/// A table whose base is as `layout` says, and its rows.
async fn table(home: &Home, kind: Kind, layout: Layout) -> (Table, Model) {
    let rows: Vec<_> = (0..BASE_ROWS).map(|key| (key, Some(key % 90))).collect();
    let before = if layout.index == Index::Half { rows.len() / 2 } else { rows.len() };
    write(home, kind, &rows[..before], params(layout, WriteMode::Create)).await;
    let table = Table::init(&home.uri(), &kind.key_names(), &Sharding::Unsharded, asking()).await.unwrap();
    match layout.index {
        Index::Whole => {}
        Index::Half => write(home, kind, &rows[before..], params(layout, WriteMode::Append)).await,
        Index::None => Dataset::open(&home.uri()).await.unwrap().drop_index("headwater_key").await.unwrap(),
    }
    (table, rows.into_iter().collect())
}

/// Keys of the newest rows: hidden in the base whoever adds them there.
type Written = BTreeSet<i64>;

/// Something others do to the base.
async fn change_base(
    home: &Home,
    kind: Kind,
    layout: Layout,
    chance: &mut SmallRng,
    model: &mut Model,
    written: &Written,
) {
    let mut dataset = Dataset::open(&home.uri()).await.unwrap();
    match chance.random_range(0..4) {
        0 => {
            let mut rows: Vec<_> = written.iter().map(|key| (*key, Some(-1))).take(20).collect();
            let new = 10_000 + 100 * chance.random_range(0..1000);
            let new: Vec<_> = (new..new + 9).filter(|key| !model.contains_key(key)).collect();
            let new: Vec<_> = new.into_iter().filter(|key| !written.contains(key)).collect();
            rows.extend(new.iter().map(|key| (*key, Some(7))));
            write(home, kind, &rows, params(layout, WriteMode::Append)).await;
            model.extend(new.into_iter().map(|key| (key, Some(7))));
        }
        1 => {
            // Also rows that are hidden: they are gone and hidden no more.
            let value = chance.random_range(0..90);
            let in_base = |key: &i64| (0..BASE_ROWS).contains(key) && *key % 90 == value;
            dataset.delete(&format!("n = {value}")).await.unwrap();
            model.retain(|key, n| written.contains(key) || !(in_base(key) || *n == Some(value)));
        }
        2 => drop(compact_files(&mut dataset, CompactionOptions::default(), None).await.unwrap()),
        _ => dataset.optimize_indices(&Default::default()).await.unwrap(),
    }
}

/// Keys one by one and a few together: looked up, where many are found in a pass.
async fn check_keys(kind: Kind, snapshot: &ReadSnapshot, model: &Model, keys: &[i64], context: &str) {
    for keys in keys.chunks(1).chain([keys]) {
        let got = snapshot.get(&GetRequest { keys: kind.keys(keys), columns: None }).await.unwrap();
        let distinct: BTreeSet<i64> = keys.iter().copied().collect();
        let wanted = model.iter().filter(|(key, _)| distinct.contains(key));
        if distinct.len() == keys.len() {
            assert_eq!(contents(&[got]), of_model(wanted), "get {keys:?}, {context}");
        }
    }
}

async fn history(kind: Kind, layout: Layout, seed: u64, steps: usize) {
    let home = Home::new();
    let mut chance = SmallRng::seed_from_u64(seed);
    let (mut table, mut model) = table(&home, kind, layout).await;
    let mut written = Written::new();
    for step in 0..steps {
        let context = format!("{kind:?}, {layout:?}, seed {seed}, step {step}");
        let before = (table.read(ReadLevel::Durable).await.unwrap(), model.clone());
        let some = |chance: &mut SmallRng, most| -> Vec<i64> {
            let keys = (0..chance.random_range(1..most)).map(|_| chance.random_range(0..BASE_ROWS + 50));
            keys.collect()
        };
        match chance.random_range(0..12) {
            0..4 => {
                let rows: Vec<_> = some(&mut chance, 6)
                    .into_iter()
                    .map(|key| (key, Some(chance.random_range(0..99))))
                    .collect();
                table.put(kind.rows(&rows)).await.unwrap();
                written.extend(rows.iter().map(|(key, _)| *key));
                model.extend(rows);
            }
            4 => {
                let rows: Vec<_> = some(&mut chance, 400).into_iter().map(|key| (key, Some(50))).collect();
                table.put(kind.rows(&rows)).await.unwrap();
                written.extend(rows.iter().map(|(key, _)| *key));
                model.extend(rows);
            }
            5 => {
                let keys = some(&mut chance, 6);
                table.delete(kind.keys(&keys)).await.unwrap();
                model.retain(|key, _| !keys.contains(key));
                written.extend(keys);
            }
            6 => drop(table.flush().await.unwrap()),
            7 => {
                table.abandon();
                table = Table::open(&home.uri(), asking()).await.unwrap();
                table.open_shards().await.unwrap();
            }
            _ => change_base(&home, kind, layout, &mut chance, &mut model, &written).await,
        }
        let snapshot = table.read(ReadLevel::Durable).await.unwrap();
        let keys = some(&mut chance, 5);
        check_keys(kind, &snapshot, &model, &keys, &context).await;
        check(kind, &snapshot, &model, &context).await;
        check_keys(kind, &snapshot, &model, &keys, &context).await;
        let reader = Table::open(&home.uri(), asking()).await.unwrap();
        let reader = reader.read(ReadLevel::Durable).await.unwrap();
        check(kind, &reader, &model, &format!("reader, {context}")).await;
        check(kind, &before.0, &before.1, &format!("an older snapshot, {context}")).await;
        check_keys(kind, &before.0, &before.1, &keys, &format!("an older snapshot, {context}")).await;
    }
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_equal_the_model_whatever_the_index_of_the_base_covers() {
    for (seed, index) in (31..).zip([Index::Whole, Index::Half, Index::None]) {
        history(Kind::Int64, Layout { index, stable_row_ids: false }, seed, 14).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_equal_the_model_with_stable_row_ids() {
    for (seed, index) in (41..).zip([Index::Whole, Index::Half, Index::None]) {
        history(Kind::Int64, Layout { index, stable_row_ids: true }, seed, 14).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_equal_the_model_where_the_index_is_on_one_column_of_the_key() {
    for (seed, stable_row_ids) in [(51, false), (52, true)] {
        history(Kind::Composite, Layout { index: Index::Half, stable_row_ids }, seed, 10).await;
    }
    history(Kind::Text, Layout { index: Index::Half, stable_row_ids: false }, 53, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_in_a_large_base_are_hidden_together_by_index_and_by_pass() {
    for index in [Index::Whole, Index::Half, Index::None] {
        let home = Home::new();
        let kind = Kind::Int64;
        let layout = Layout { index, stable_row_ids: false };
        let (table, _) = table(&home, kind, layout).await;
        // Keys 0 to 9 once more, in fragments the index does not cover.
        let again: Vec<_> = (0..10).map(|key| (key, Some(1000))).collect();
        write(&home, kind, &again, params(layout, WriteMode::Append)).await;
        let get = |keys: &[i64]| GetRequest { keys: kind.keys(keys), columns: None };
        assert_eq!(table.get(&get(&[3, 4])).await.unwrap().num_rows(), 4, "{index:?}");
        let live = BASE_ROWS as u64 + 10;
        table.put(kind.rows(&[(3, Some(-3))])).await.unwrap();
        assert_eq!(table.count(None).await.unwrap(), live - 1, "{index:?}");
        assert_eq!(table.get(&get(&[3, 4])).await.unwrap().num_rows(), 3, "{index:?}");
        let many: Vec<_> = (0..100).map(|key| (key, Some(-1))).collect();
        table.put(kind.rows(&many)).await.unwrap();
        assert_eq!(table.count(None).await.unwrap(), live - 10, "{index:?}");
        let rows: Vec<RecordBatch> =
            table.scan(&ScanRequest::default()).await.unwrap().try_collect().await.unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, live - 10, "{index:?}");
        table.delete(kind.keys(&(0..10).collect::<Vec<_>>())).await.unwrap();
        assert_eq!(table.count(None).await.unwrap(), live - 20, "{index:?}");
        assert_eq!(table.get(&get(&[3, 4, 11])).await.unwrap().num_rows(), 1, "{index:?}");
    }
}

/// B2: what reads keep follows what is fresh, not how large the base is.
#[tokio::test(flavor = "multi_thread")]
async fn memory_kept_for_reads_does_not_grow_with_the_base() {
    let home = Home::new();
    let kind = Kind::Text;
    let (table, _) = table(&home, kind, Layout { index: Index::Whole, stable_row_ids: false }).await;
    table.put(kind.rows(&[(1, Some(1))])).await.unwrap();
    let before = table.memory().used();
    assert_eq!(table.count(None).await.unwrap(), BASE_ROWS as u64);
    let kept = table.memory().used() - before;
    assert!(kept < 1000, "{kept} bytes for one fresh key over {BASE_ROWS} rows");
}
