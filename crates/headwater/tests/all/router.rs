//! Splitting batches by shard value, without any table.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater::router::{Part, Router};
use headwater::{Error, ShardValue, Sharding};

fn schema() -> SchemaRef {
    let fields = vec![Field::new("id", DataType::Int64, false), Field::new("city", DataType::Utf8, false)];
    Arc::new(Schema::new(fields))
}

fn rows(ids: Vec<i64>, cities: Vec<&str>) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(ids)), Arc::new(StringArray::from(cities))];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn by_city() -> Router {
    Router::new("memory://t", schema(), Sharding::Identity { column: "city".to_owned() })
}

fn ids(part: &Part) -> Vec<i64> {
    part.rows.column(0).as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn rows_of_one_value_keep_their_order() {
    let parts =
        by_city().split(rows(vec![5, 1, 4, 2, 3], vec!["rome", "oslo", "rome", "rome", "oslo"])).unwrap();
    let found: Vec<_> = parts.iter().map(|part| (part.value.clone(), ids(part))).collect();
    let value = |city: &str| ShardValue::Identity(city.as_bytes().to_vec());
    assert_eq!(found, [(value("oslo"), vec![1, 3]), (value("rome"), vec![5, 4, 2])]);
}

#[test]
fn all_rows_of_one_bucket_arrive_and_no_row_is_lost() {
    let by_id =
        Router::new("memory://t", schema(), Sharding::Bucket { column: "id".to_owned(), num_buckets: 4 });
    let batch = rows((1..=100).collect(), vec!["x"; 100]);
    let parts = by_id.split(batch).unwrap();
    assert_eq!(
        parts.iter().map(|part| part.value.clone()).collect::<Vec<_>>(),
        (0..4).map(ShardValue::Bucket).collect::<Vec<_>>()
    );
    // int64 1..5 with 4 buckets are in 0, 0, 3, 2, 3 in every implementation of the format.
    let bucket_of = |id| parts.iter().position(|part| ids(part).contains(&id)).unwrap();
    assert_eq!((1..=5).map(bucket_of).collect::<Vec<_>>(), [0, 0, 3, 2, 3]);
    assert_eq!(parts.iter().map(|part| part.rows.num_rows()).sum::<usize>(), 100);
}

#[test]
fn rows_of_one_shard_are_not_copied() {
    let batch = rows(vec![1, 2], vec!["oslo", "oslo"]);
    let parts = by_city().split(batch.clone()).unwrap();
    assert_eq!(parts.len(), 1);
    let data = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().as_ptr();
    assert!(parts.iter().all(|part| data(&part.rows) == data(&batch)));
}

#[test]
fn a_batch_without_rows_has_no_parts() {
    assert!(by_city().split(rows(vec![], vec![])).unwrap().is_empty());
    let unsharded = Router::new("memory://t", schema(), Sharding::Unsharded);
    assert!(unsharded.split(rows(vec![], vec![])).unwrap().is_empty());
}

#[test]
fn a_null_is_named_by_its_row_in_the_whole_batch() {
    let fields = vec![Field::new("id", DataType::Int64, true), Field::new("city", DataType::Utf8, false)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(1), Some(2), None])),
        Arc::new(StringArray::from(vec!["oslo", "rome", "rome"])),
    ];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let error = by_city().split(batch).unwrap_err();
    assert!(matches!(error, Error::Rows { ref column, row: Some(2), .. } if column == "id"), "{error}");
}

#[test]
fn another_type_of_the_shard_column_is_refused_because_it_hashes_differently() {
    let by_id =
        Router::new("memory://t", schema(), Sharding::Bucket { column: "id".to_owned(), num_buckets: 4 });
    let batch =
        RecordBatch::try_from_iter([("id", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
    let error = by_id.split(batch).unwrap_err().to_string();
    assert!(error.contains("Int32") && error.contains("Int64"), "{error}");
}

#[test]
fn a_missing_shard_column_is_named() {
    let batch =
        RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let error = by_city().split(batch).unwrap_err();
    assert!(matches!(error, Error::Rows { ref column, row: None, .. } if column == "city"), "{error}");
}
