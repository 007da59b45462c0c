//! Reads over all tiers equal a model holding the live rows (P13), whoever reads: the writer from memory, a
//! reader from storage; before and after freeze, flush, crash and reopen (P4, P5, P6).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int16Array, Int32Array, Int64Array, RecordBatch, RecordBatchIterator,
    StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use headwater::{Error, GetRequest, QueryError, ReadLevel, ReadSnapshot, ScanRequest, Sharding, Table};
use lance::Dataset;
use lance::dataset::{WriteMode, WriteParams};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::support::{Home, asking, options, text};

/// Which kind of key a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int64,
    UInt64,
    Int16,
    Text,
    Binary,
    Composite,
}

impl Kind {
    pub(crate) fn key_fields(self) -> Vec<Field> {
        let one = |of| vec![Field::new("k", of, false)];
        match self {
            Self::Int64 => one(DataType::Int64),
            Self::UInt64 => one(DataType::UInt64),
            Self::Int16 => one(DataType::Int16),
            Self::Text => one(DataType::Utf8),
            Self::Binary => one(DataType::Binary),
            Self::Composite => {
                vec![Field::new("k", DataType::Utf8, false), Field::new("part", DataType::Int32, false)]
            }
        }
    }

    pub(crate) fn key_names(self) -> Vec<String> {
        self.key_fields().iter().map(|field| field.name().clone()).collect()
    }

    pub(crate) fn schema(self) -> SchemaRef {
        let mut fields = self.key_fields();
        fields.push(Field::new("n", DataType::Int64, true));
        fields.push(Field::new("name", DataType::Utf8, true));
        Arc::new(Schema::new(fields))
    }

    pub(crate) fn key_columns(self, keys: &[i64]) -> Vec<ArrayRef> {
        let text = |keys: &[i64]| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(keys.iter().map(|key| format!("key-{key}"))))
        };
        match self {
            Self::Int64 => vec![Arc::new(Int64Array::from(keys.to_vec()))],
            Self::UInt64 => vec![Arc::new(UInt64Array::from_iter_values(keys.iter().map(|key| *key as u64)))],
            Self::Int16 => vec![Arc::new(Int16Array::from_iter_values(keys.iter().map(|key| *key as i16)))],
            Self::Text => vec![text(keys)],
            Self::Binary => {
                let bytes = keys.iter().map(|key| [0, *key as u8, 255]);
                vec![Arc::new(BinaryArray::from_iter_values(bytes))]
            }
            // Two columns that together say it: neither does alone.
            Self::Composite => {
                let high: Vec<i64> = keys.iter().map(|key| key / 5).collect();
                let low = Int32Array::from_iter_values(keys.iter().map(|key| (key % 5) as i32));
                vec![text(&high), Arc::new(low)]
            }
        }
    }

    pub(crate) fn keys(self, keys: &[i64]) -> RecordBatch {
        RecordBatch::try_new(Arc::new(Schema::new(self.key_fields())), self.key_columns(keys)).unwrap()
    }

    pub(crate) fn rows(self, rows: &[(i64, Option<i64>)]) -> RecordBatch {
        let keys: Vec<i64> = rows.iter().map(|(key, _)| *key).collect();
        let mut columns = self.key_columns(&keys);
        columns.push(Arc::new(Int64Array::from_iter(rows.iter().map(|(_, n)| *n))));
        columns.push(Arc::new(StringArray::from_iter(
            rows.iter().map(|(key, n)| n.map(|n| format!("{key}:{n}"))),
        )));
        RecordBatch::try_new(self.schema(), columns).unwrap()
    }
}

/// What the rows must be: value by key.
pub(crate) type Model = BTreeMap<i64, Option<i64>>;

/// The value column and the name of rows, sorted.
pub(crate) fn contents(batches: &[RecordBatch]) -> Vec<(Option<i64>, Option<String>)> {
    let mut rows = Vec::new();
    for batch in batches {
        let n = batch.column_by_name("n").unwrap().as_primitive::<Int64Type>();
        let name = batch.column_by_name("name").unwrap().as_string::<i32>();
        let value = |row| (!n.is_null(row)).then(|| n.value(row));
        let called = |row| (!name.is_null(row)).then(|| name.value(row).to_owned());
        rows.extend((0..batch.num_rows()).map(|row| (value(row), called(row))));
    }
    rows.sort();
    rows
}

pub(crate) fn of_model<'a>(
    rows: impl Iterator<Item = (&'a i64, &'a Option<i64>)>,
) -> Vec<(Option<i64>, Option<String>)> {
    let mut rows: Vec<_> = rows.map(|(key, n)| (*n, n.map(|n| format!("{key}:{n}")))).collect();
    rows.sort();
    rows
}

pub(crate) async fn scan(snapshot: &ReadSnapshot, request: &ScanRequest) -> Vec<RecordBatch> {
    snapshot.scan(request).await.unwrap().try_collect().await.unwrap()
}

fn filtered(filter: &str) -> ScanRequest {
    ScanRequest { filter: Some(filter.to_owned()), ..ScanRequest::default() }
}

/// Every kind of read, against the model.
pub(crate) async fn check(kind: Kind, snapshot: &ReadSnapshot, model: &Model, context: &str) {
    let all = scan(snapshot, &ScanRequest::default()).await;
    assert_eq!(contents(&all), of_model(model.iter()), "scan, {context}");
    assert_eq!(snapshot.count(None).await.unwrap(), model.len() as u64, "count, {context}");

    let large = |n: &Option<i64>| n.is_some_and(|n| n > 40);
    let kept = scan(snapshot, &filtered("n > 40")).await;
    assert_eq!(contents(&kept), of_model(model.iter().filter(|(_, n)| large(n))), "filter, {context}");
    let count = snapshot.count(Some("n > 40")).await.unwrap();
    assert_eq!(count, model.values().filter(|n| large(n)).count() as u64, "filtered count, {context}");
    // Three-valued logic: a null is neither above 40 nor not above it.
    let below = snapshot.count(Some("NOT (n > 40)")).await.unwrap();
    let nulls = snapshot.count(Some("n IS NULL")).await.unwrap();
    assert_eq!(count + below + nulls, model.len() as u64, "three values, {context}");

    let some = ScanRequest {
        columns: Some(vec!["name".to_owned()]),
        limit: Some(3),
        offset: 2,
        ..filtered("n > 40")
    };
    let some = scan(snapshot, &some).await;
    let rows: usize = some.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows as u64, count.saturating_sub(2).min(3), "limit, {context}");
    assert!(some.iter().all(|batch| batch.num_columns() == 1), "projection, {context}");

    let asked: Vec<i64> = (0..30).rev().collect();
    let request =
        GetRequest { keys: kind.keys(&asked), columns: Some(vec!["n".to_owned(), "name".to_owned()]) };
    let got = snapshot.get(&request).await.unwrap();
    let wanted = asked.iter().filter_map(|key| Some((*key, *model.get(key)?)));
    let wanted: Vec<_> = wanted.map(|(key, n)| (n, n.map(|n| format!("{key}:{n}")))).collect();
    let mut sorted = wanted.clone();
    sorted.sort();
    assert_eq!(contents(std::slice::from_ref(&got)), sorted, "get, {context}");
    let n = got.column_by_name("n").unwrap().as_primitive::<Int64Type>();
    assert_eq!(n.iter().collect::<Vec<_>>(), wanted.iter().map(|(n, _)| *n).collect::<Vec<_>>(), "{context}");
}

async fn write_base(home: &Home, kind: Kind, rows: &[(i64, Option<i64>)]) {
    let batch = kind.rows(rows);
    let batches = RecordBatchIterator::new([Ok(batch)], kind.schema());
    // Small fragments, so that addresses are not row numbers.
    let params = WriteParams { max_rows_per_file: 7, ..WriteParams::default() };
    Dataset::write(batches, &home.uri(), Some(params)).await.unwrap();
}

/// Puts, deletes, flushes, crashes and reopens in some order; after each step writer and reader agree with
/// the model, and so does a snapshot taken before.
async fn history(kind: Kind, sharding: Sharding, seed: u64) {
    let home = Home::new();
    let mut chance = SmallRng::seed_from_u64(seed);
    let mut model: Model = (0..20).map(|key| (key, Some(key))).collect();
    let base: Vec<_> = model.iter().map(|(key, n)| (*key, *n)).collect();
    write_base(&home, kind, &base).await;
    let mut table = Table::init(&home.uri(), &kind.key_names(), &sharding, options()).await.unwrap();
    for step in 0..24 {
        let context = format!("{kind:?}, seed {seed}, step {step}");
        let before = (table.read(ReadLevel::Durable).await.unwrap(), model.clone());
        let keys: Vec<i64> = (0..chance.random_range(1..8)).map(|_| chance.random_range(0..30)).collect();
        match chance.random_range(0..10) {
            0..5 => {
                let value =
                    |chance: &mut SmallRng| chance.random_bool(0.9).then(|| chance.random_range(0..100));
                let rows: Vec<_> = keys.iter().map(|key| (*key, value(&mut chance))).collect();
                table.put(kind.rows(&rows)).await.unwrap();
                model.extend(rows);
            }
            5..7 => {
                table.delete(kind.keys(&keys)).await.unwrap();
                model.retain(|key, _| !keys.contains(key));
            }
            7 => drop(table.flush().await.unwrap()),
            8 => {
                table.abandon();
                table = Table::open(&home.uri(), options()).await.unwrap();
            }
            _ => {
                table.close().await.unwrap();
                table = Table::open(&home.uri(), options()).await.unwrap();
                table.open_shards().await.unwrap();
            }
        }
        check(kind, &table.read(ReadLevel::Durable).await.unwrap(), &model, &context).await;
        let reader = Table::open(&home.uri(), options()).await.unwrap();
        check(kind, &reader.read(ReadLevel::Durable).await.unwrap(), &model, &format!("reader, {context}"))
            .await;
        check(kind, &before.0, &before.1, &format!("an older snapshot, {context}")).await;
    }
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_equal_the_model_on_every_kind_of_key() {
    let kinds = [Kind::Int64, Kind::UInt64, Kind::Int16, Kind::Text, Kind::Binary, Kind::Composite];
    for (seed, kind) in (1..).zip(kinds) {
        history(kind, Sharding::Unsharded, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_equal_the_model_on_sharded_tables() {
    history(Kind::Int64, Sharding::Bucket { column: "k".to_owned(), num_buckets: 3 }, 21).await;
    history(Kind::Text, Sharding::Bucket { column: "k".to_owned(), num_buckets: 4 }, 22).await;
    history(Kind::Composite, Sharding::Identity { column: "part".to_owned() }, 23).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_rows_of_a_key_the_base_has_twice_are_hidden_together() {
    let home = Home::new();
    let kind = Kind::Int64;
    write_base(&home, kind, &[(1, Some(1)), (2, Some(2)), (1, Some(3))]).await;
    let table = Table::init(&home.uri(), &kind.key_names(), &Sharding::Unsharded, options()).await.unwrap();
    table.put(kind.rows(&[(9, Some(9))])).await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 4, "both rows of key 1 count until it is written");
    let get = GetRequest { keys: kind.keys(&[1]), columns: None };
    assert_eq!(table.get(&get).await.unwrap().num_rows(), 2);
    table.put(kind.rows(&[(1, Some(4))])).await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 3);
    let rows: Vec<RecordBatch> =
        table.scan(&ScanRequest::default()).await.unwrap().try_collect().await.unwrap();
    let wanted: Model = [(1, Some(4)), (2, Some(2)), (9, Some(9))].into();
    assert_eq!(contents(&rows), of_model(wanted.iter()));
    assert_eq!(contents(&[table.get(&get).await.unwrap()]), of_model([(&1, &Some(4))].into_iter()));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_append_only_table_are_all_read() {
    let home = Home::new();
    let schema = Kind::Int64.schema();
    let table = Table::create(&home.uri(), &schema, &[], &Sharding::Unsharded, options()).await.unwrap();
    let rows = Kind::Int64.rows(&[(1, Some(1)), (1, Some(1))]);
    table.put(rows.clone()).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows.clone()).await.unwrap();
    let reader = Table::open(&home.uri(), options()).await.unwrap();
    for table in [&table, &reader] {
        assert_eq!(table.count(None).await.unwrap(), 4);
        assert_eq!(table.count(Some("n = 1")).await.unwrap(), 4);
        let error = table.get(&GetRequest { keys: Kind::Int64.keys(&[1]), columns: None }).await.unwrap_err();
        assert!(text(&error).contains("no key"), "{}", text(&error));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_appended_to_the_base_by_others_are_read_and_hidden_like_any_other() {
    let home = Home::new();
    let kind = Kind::Int64;
    write_base(&home, kind, &[(1, Some(1))]).await;
    let table = Table::init(&home.uri(), &kind.key_names(), &Sharding::Unsharded, asking()).await.unwrap();
    table.put(kind.rows(&[(1, Some(10)), (2, Some(20))])).await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 2);
    let params = WriteParams { mode: WriteMode::Append, ..WriteParams::default() };
    let batches = RecordBatchIterator::new([Ok(kind.rows(&[(2, Some(2)), (3, Some(3))]))], kind.schema());
    Dataset::write(batches, &home.uri(), Some(params)).await.unwrap();
    let rows: Vec<RecordBatch> =
        table.scan(&ScanRequest::default()).await.unwrap().try_collect().await.unwrap();
    let wanted: Model = [(1, Some(10)), (2, Some(20)), (3, Some(3))].into();
    assert_eq!(contents(&rows), of_model(wanted.iter()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_lost_its_shard_reads_what_the_other_wrote() {
    let home = Home::new();
    let kind = Kind::Int64;
    write_base(&home, kind, &[(1, Some(1))]).await;
    let older = Table::init(&home.uri(), &kind.key_names(), &Sharding::Unsharded, options()).await.unwrap();
    older.put(kind.rows(&[(1, Some(10))])).await.unwrap();
    let newer = Table::open(&home.uri(), options()).await.unwrap();
    newer.put(kind.rows(&[(1, Some(11)), (2, Some(20))])).await.unwrap();
    assert!(older.put(kind.rows(&[(1, Some(12))])).await.is_err(), "it is fenced");
    let rows: Vec<RecordBatch> =
        older.scan(&ScanRequest::default()).await.unwrap().try_collect().await.unwrap();
    let wanted: Model = [(1, Some(11)), (2, Some(20))].into();
    assert_eq!(contents(&rows), of_model(wanted.iter()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_asked_is_refused_by_name() {
    let home = Home::new();
    let kind = Kind::Int64;
    let schema = kind.schema();
    let (uri, key) = (home.uri(), kind.key_names());
    let table = Table::create(&uri, &schema, &key, &Sharding::Unsharded, options()).await.unwrap();
    table.put(kind.rows(&[(1, Some(1))])).await.unwrap();
    let many_terms = format!("n = {}1", "1+".repeat(1000));
    for (filter, part) in [
        ("", "empty"),
        ("n >", "n >"),
        ("k IN (SELECT 1)", "k IN (SELECT 1)"),
        ("no_such_function(n) = 1", "no_such_function"),
        ("nope = 1", "nope"),
        ("n + 1", "gives Int64"),
        ("null", "gives Null"),
        ("n = ?", "stands for a value"),
        ("n = $1", "stands for a value"),
        ("n::decimal(99,2) > 1", "cannot be planned"),
        (&many_terms, "operators in a row"),
        // What is no condition on one row.
        ("count(*) > 1", "is of many rows: a filter is a condition on the columns of one row"),
        ("n > 1 AND max(n) = 3", "max(n) is of many rows"),
        ("sum(n) FILTER (WHERE n > 1) > 3", "is of many rows"),
        ("coalesce(avg(n), 0) > 3", "avg(n) is of many rows"),
        ("row_number() OVER () = 1", "row_number() OVER () looks at other rows"),
        ("sum(n) OVER (PARTITION BY name) > 2", "looks at other rows"),
        ("k IN (SELECT k FROM t)", "k IN (SELECT k FROM t) is another query"),
        ("n = (SELECT max(n) FROM t)", "is another query"),
        ("EXISTS (SELECT 1)", "EXISTS (SELECT 1) is another query"),
        ("coalesce((SELECT 1), n) = 1", "is another query"),
        ("n = ANY (SELECT 1)", "(SELECT 1) is another query"),
        ("unnest([1, 2]) = n", "makes rows of a list"),
        ("n IN UNNEST([1, 2])", "n IN UNNEST([1, 2]) makes rows of a list"),
        ("*", "found: *"),
        ("t.*", "*"),
        ("n = 1; DROP TABLE t", "goes on after the condition, with ;"),
        ("n = 1 LIMIT 1", "goes on after the condition, with LIMIT"),
        ("n = 1) OR (n = 2", "goes on after the condition, with )"),
    ] {
        let error = table.scan(&filtered(filter)).await.map(|_| ()).expect_err(filter);
        let said = text(&error);
        assert!(
            matches!(&error, Error::Read { source, .. } if matches!(**source, QueryError::Filter { .. })),
            "{said}"
        );
        assert!(said.contains(part), "{filter:?}: {said}");
        assert!(!said.contains(".rs:"), "{filter:?} names source code: {said}");
    }
    let request = ScanRequest { columns: Some(vec!["nope".to_owned()]), ..ScanRequest::default() };
    let said = text(&table.scan(&request).await.map(|_| ()).unwrap_err());
    assert!(said.contains("nope") && said.contains("k, n, name"), "{said}");

    let request = |keys| GetRequest { keys, columns: None };
    let words = Kind::Text.keys(&[1]);
    let said = text(&table.get(&request(words)).await.unwrap_err());
    assert!(said.contains("Utf8 values were given, the table has Int64"), "{said}");
    let said = text(&table.get(&request(kind.rows(&[(1, None)]))).await.unwrap_err());
    assert!(said.contains("\"n\" is no key column"), "{said}");
    // Another width is fine where the value fits; none at all gives no rows.
    assert_eq!(table.get(&request(Kind::Int16.keys(&[1]))).await.unwrap().num_rows(), 1);
    assert_eq!(table.get(&request(kind.keys(&[]))).await.unwrap().num_rows(), 0);
}

/// P4: newest wins is decided before any filter, so one that fails on a hidden row does not fail.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_never_sees_a_row_that_is_hidden() {
    let home = Home::new();
    let kind = Kind::Int64;
    write_base(&home, kind, &[(1, Some(0)), (2, Some(5))]).await;
    let table = Table::init(&home.uri(), &kind.key_names(), &Sharding::Unsharded, options()).await.unwrap();
    let fails = "10 / n > 1";
    let count = |snapshot: ReadSnapshot| async move { snapshot.count(Some(fails)).await };
    let before = count(table.read(ReadLevel::Durable).await.unwrap()).await;
    assert!(before.is_err(), "the row with 0 is live: {before:?}");
    table.put(kind.rows(&[(1, Some(2)), (3, Some(0))])).await.unwrap();
    table.flush().await.unwrap();
    table.put(kind.rows(&[(3, Some(3))])).await.unwrap();
    assert_eq!(table.count(Some(fails)).await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_found_by_their_whole_names_whatever_they_hold() {
    let home = Home::new();
    let names = ["id", "A b", "SELECT", "ключ-1"];
    let fields = names.map(|name| Field::new(name, DataType::Int64, name != "id"));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let row = |id: i64, value: i64| {
        let column = |of| Arc::new(Int64Array::from(vec![of])) as ArrayRef;
        let columns = vec![column(id), column(value), column(value), column(value)];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    let batches = RecordBatchIterator::new([Ok(row(1, 1)), Ok(row(2, 1))], schema.clone());
    Dataset::write(batches, &home.uri(), None).await.unwrap();
    let table = Table::init(&home.uri(), &["id".to_owned()], &Sharding::Unsharded, options()).await.unwrap();
    table.put(row(2, 2)).await.unwrap();
    let request = ScanRequest { columns: Some(names.map(str::to_owned).to_vec()), ..ScanRequest::default() };
    let rows: Vec<RecordBatch> = table.scan(&request).await.unwrap().try_collect().await.unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    for batch in rows {
        let found: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(found, names);
    }
    let keys = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let keys = RecordBatch::try_new(keys, vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
    assert_eq!(table.get(&GetRequest { keys, columns: None }).await.unwrap().num_rows(), 2);
}

/// L6: keys kept for reads give way to writers.
#[tokio::test(flavor = "multi_thread")]
async fn a_base_whose_keys_are_larger_than_the_budget_is_read_and_written() {
    let home = Home::new();
    let kind = Kind::Text;
    let base: Vec<_> = (0..5000).map(|key| (key, Some(key))).collect();
    write_base(&home, kind, &base).await;
    let mut small = options();
    small.memory = Some(headwater::MemoryBudget::new(100_000));
    small.settings.backpressure.timeout_ms = 2_000;
    let table = Table::init(&home.uri(), &kind.key_names(), &Sharding::Unsharded, small).await.unwrap();
    for key in 0..3 {
        table.put(kind.rows(&[(key, Some(-1))])).await.unwrap();
        assert_eq!(table.count(None).await.unwrap(), 5000);
        assert_eq!(table.count(Some("n = -1")).await.unwrap(), key as u64 + 1);
    }
    assert!(table.memory().used() < 100_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_names_every_source_and_what_is_hidden_of_it() {
    let home = Home::new();
    let kind = Kind::Int64;
    write_base(&home, kind, &[(1, Some(1)), (2, Some(2))]).await;
    let table = Table::init(&home.uri(), &kind.key_names(), &Sharding::Unsharded, options()).await.unwrap();
    table.put(kind.rows(&[(1, Some(10)), (3, Some(30))])).await.unwrap();
    table.flush().await.unwrap();
    table.put(kind.rows(&[(3, Some(31))])).await.unwrap();
    let snapshot = table.read(ReadLevel::Durable).await.unwrap();
    let plan = snapshot.explain(&filtered("n > 1")).await.unwrap();
    for part in [
        "SourceExec: base, version=",
        "hidden=1, filter=n > Int64(1) (by lance)",
        "generation=1, rows=2, hidden=1, live=1, filter=n > Int64(1)",
        "generation=2, rows=1, live=1, filter=n > Int64(1)",
    ] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
}
