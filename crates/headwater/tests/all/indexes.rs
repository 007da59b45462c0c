//! Scalar indexes of the base change no answer (P13): rows that are not in the base are found without one,
//! and a row of the base that an index finds and a newer one replaced does not come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, ListArray, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use headwater::{IndexKind, ScanRequest, Sharding, Table};
use lance::Dataset;
use lance::dataset::{WriteMode, WriteParams};

use crate::support::{Home, asking, keys, options, text};

/// Value and word by key.
type Model = BTreeMap<i64, (i64, &'static str)>;
/// Whether a row is wanted.
type Wanted = fn(&(i64, &'static str)) -> bool;

const WORDS: [&str; 3] = ["red", "green", "blue"];

/// Conditions, and what they keep of the model.
const FILTERS: [(&str, Wanted); 6] = [
    ("n = 7", |(n, _)| *n == 7),
    ("n > 40", |(n, _)| *n > 40),
    ("n >= 7 AND n < 20 AND word = 'red'", |(n, word)| (7..20).contains(n) && *word == "red"),
    ("word = 'blue'", |(_, word)| *word == "blue"),
    ("word IN ('red', 'green') OR n = 5", |(n, word)| *word != "blue" || *n == 5),
    ("NOT (n = 7)", |(n, _)| *n != 7),
];

fn schema() -> SchemaRef {
    let tags = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("n", DataType::Int64, true),
        Field::new("word", DataType::Utf8, true),
        Field::new("tags", tags, true),
    ]))
}

fn rows(of: &Model) -> RecordBatch {
    let n: Int64Array = of.values().map(|(n, _)| Some(*n)).collect();
    let word: StringArray = of.values().map(|(_, word)| Some(*word)).collect();
    let tags = ListArray::from_iter_primitive::<Int64Type, _, _>(of.values().map(|(n, _)| Some([Some(*n)])));
    let ids = Int64Array::from_iter_values(of.keys().copied());
    RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(n), Arc::new(word), Arc::new(tags)]).unwrap()
}

fn fresh(ids: impl IntoIterator<Item = i64>, value: impl Fn(i64) -> i64) -> Model {
    ids.into_iter().map(|id| (id, (value(id), WORDS[(value(id) % 3) as usize]))).collect()
}

async fn write(home: &Home, of: &Model, mode: WriteMode) {
    let batches = RecordBatchIterator::new([Ok(rows(of))], schema());
    // Small fragments, so that addresses are not row numbers.
    let params = WriteParams { max_rows_per_file: 16, mode, ..WriteParams::default() };
    Dataset::write(batches, &home.uri(), Some(params)).await.unwrap();
}

/// A table with `base` in its base.
async fn table(home: &Home, base: &Model) -> Table {
    write(home, base, WriteMode::Create).await;
    Table::init(&home.uri(), &["id".to_owned()], &Sharding::Unsharded, asking()).await.unwrap()
}

/// Every filter, against the model.
async fn check(table: &Table, model: &Model, context: &str) {
    for (filter, wanted) in FILTERS {
        let request = ScanRequest { filter: Some(filter.to_owned()), ..ScanRequest::default() };
        let batches: Vec<RecordBatch> = table.scan(&request).await.unwrap().try_collect().await.unwrap();
        let mut found: Vec<(i64, i64, String)> = Vec::new();
        for batch in &batches {
            let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
            let n = batch.column_by_name("n").unwrap().as_primitive::<Int64Type>();
            let words = batch.column_by_name("word").unwrap().as_string::<i32>();
            let row = |row| (ids.value(row), n.value(row), words.value(row).to_owned());
            found.extend((0..batch.num_rows()).map(row));
        }
        found.sort();
        let kept = model.iter().filter(|(_, row)| wanted(row));
        let kept: Vec<_> = kept.map(|(id, (n, word))| (*id, *n, (*word).to_owned())).collect();
        assert_eq!(found, kept, "{filter}, {context}");
        assert_eq!(table.count(Some(filter)).await.unwrap(), kept.len() as u64, "{filter}, {context}");
    }
}

/// As the writer and as somebody else who only reads.
async fn check_both(home: &Home, table: &Table, model: &Model, context: &str) {
    check(table, model, context).await;
    let reader = Table::open(&home.uri(), options()).await.unwrap();
    check(&reader, model, &format!("reader, {context}")).await;
}

/// How Lance plans a filter on the base alone.
async fn base_plan(home: &Home, filter: &str) -> String {
    let dataset = Dataset::open(&home.uri()).await.unwrap();
    let mut scanner = dataset.scan();
    scanner.filter(filter).unwrap();
    scanner.explain_plan(true).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_equal_the_model_with_and_without_indexes_whatever_newer_rows_replace() {
    let home = Home::new();
    let mut model = fresh(0..60, |id| id);
    let table = table(&home, &model).await;
    // In an SSTable: rows that match what their base rows do not, the other way round, and new ones.
    let flushed = fresh((0..20).chain(60..70), |id| (id + 30) % 50);
    table.put(rows(&flushed)).await.unwrap();
    table.flush().await.unwrap();
    model.extend(flushed);
    // In the WAL: the same again over base and SSTable, and deletes.
    let pending = fresh((10..30).chain(65..75), |id| (id * 7) % 60);
    table.put(rows(&pending)).await.unwrap();
    model.extend(pending);
    let gone = [7, 41, 42, 55, 61, 70];
    table.delete(keys(&gone)).await.unwrap();
    model.retain(|id, _| !gone.contains(id));
    check_both(&home, &table, &model, "no index").await;

    table.create_index("n", IndexKind::BTree, None).await.unwrap();
    table.create_index("word", IndexKind::Bitmap, Some("words")).await.unwrap();
    for (filter, index) in [("n = 7", "n_idx"), ("word = 'blue'", "words")] {
        let plan = base_plan(&home, filter).await;
        assert!(plan.contains("ScalarIndexQuery") && plan.contains(index), "the index is used: {plan}");
    }
    check_both(&home, &table, &model, "indexes").await;

    // Rows the indexes do not cover, in the base and in the WAL.
    let appended = fresh(80..95, |id| id % 10);
    write(&home, &appended, WriteMode::Append).await;
    model.extend(appended);
    let newer = fresh([2, 50, 80, 81, 90], |id| (id + 5) % 50);
    table.put(rows(&newer)).await.unwrap();
    model.extend(newer);
    check_both(&home, &table, &model, "rows that are in no index").await;
    table.flush().await.unwrap();
    check_both(&home, &table, &model, "flushed").await;

    table.drop_index("n_idx", false).await.unwrap();
    table.drop_index("words", false).await.unwrap();
    check_both(&home, &table, &model, "dropped").await;
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_says_what_is_covered_and_the_key_has_its_index() {
    let home = Home::new();
    let table = table(&home, &fresh(0..40, |id| id)).await;
    let created = table.create_index("n", IndexKind::BTree, Some("by n")).await.unwrap();
    assert_eq!((created.fragments, created.covered, created.unindexed_rows), (3, 3, 0));
    write(&home, &fresh(40..50, |id| id), WriteMode::Append).await;
    let listed = table.indexes().await.unwrap();
    let shown: Vec<_> = listed
        .iter()
        .map(|index| {
            (index.name.as_str(), index.kind.as_str(), index.columns.join(","), index.unindexed_rows)
        })
        .collect();
    assert_eq!(
        shown,
        [("by n", "btree", "n".to_owned(), 10), ("headwater_key", "btree", "id".to_owned(), 10)]
    );
    assert_eq!((listed[0].fragments, listed[0].covered), (4, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_on_an_empty_base_is_there_and_finds_nothing_wrong() {
    let home = Home::new();
    let key = ["id".to_owned()];
    let table = Table::create(&home.uri(), &schema(), &key, &Sharding::Unsharded, options()).await.unwrap();
    for (column, kind) in [("n", IndexKind::BTree), ("word", IndexKind::Bitmap)] {
        let created = table.create_index(column, kind, None).await.unwrap();
        assert_eq!((created.fragments, created.unindexed_rows), (0, 0));
    }
    let model = fresh(0..30, |id| id);
    table.put(rows(&model)).await.unwrap();
    check_both(&home, &table, &model, "in the WAL").await;
    table.flush().await.unwrap();
    check_both(&home, &table, &model, "in an SSTable").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_indexed_or_dropped_is_refused_with_the_reason() {
    let home = Home::new();
    let table = table(&home, &fresh(0..10, |id| id)).await;
    table.create_index("n", IndexKind::BTree, None).await.unwrap();
    for (column, name, part) in [
        ("nope", None, "id, n, word, tags"),
        ("N", None, "no column"),
        ("tags", None, "List"),
        ("n", None, "\"n_idx\" already, on n"),
        ("word", Some("n_idx"), "\"n_idx\" already, on n"),
        ("word", Some("headwater_key"), "already, on id"),
        ("word", Some(""), "not empty"),
        ("word", Some("__lance_mem_wal"), "Lance's own"),
    ] {
        let refused = table.create_index(column, IndexKind::Bitmap, name).await;
        let said = text(&refused.unwrap_err());
        assert!(said.contains(part), "{column}, {name:?}: {said}");
    }
    for (name, part) in [
        ("nope", "headwater_key, n_idx"),
        ("__lance_mem_wal", "write tier itself"),
        ("headwater_key", "--force"),
    ] {
        let said = text(&table.drop_index(name, false).await.unwrap_err());
        assert!(said.contains(part), "{name}: {said}");
    }
    let said = text(&table.drop_index("__lance_mem_wal", true).await.unwrap_err());
    assert!(said.contains("write tier itself"), "not even by force: {said}");
    assert_eq!(table.indexes().await.unwrap().len(), 2, "nothing was dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_index_on_the_key_rows_are_still_found_by_it() {
    let home = Home::new();
    let mut model = fresh(0..40, |id| id);
    let table = table(&home, &model).await;
    table.drop_index("headwater_key", true).await.unwrap();
    assert!(table.indexes().await.unwrap().is_empty());
    let newer = fresh(5..9, |id| id + 40);
    table.put(rows(&newer)).await.unwrap();
    model.extend(newer);
    check_both(&home, &table, &model, "without the key's index").await;
    let get = headwater::GetRequest { keys: keys(&[3, 7, 99]), columns: Some(vec!["n".to_owned()]) };
    let found = table.get(&get).await.unwrap();
    let n = found.column_by_name("n").unwrap().as_primitive::<Int64Type>();
    assert_eq!(n.values().to_vec(), [3, 47]);
}
