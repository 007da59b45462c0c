//! Vectors of every type that can be searched, over memtable, SSTable and base at once, at the distances
//! Lance gives; and what cannot be searched is refused by the part of the request that is at fault.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StructArray};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Fields, Schema};
use futures::TryStreamExt;
use headwater::{
    Error, Metric, OrderBy, QueryError, QueryRequest, Sharding, Table, VectorQuery, VectorSearch,
};
use lance::Dataset;
use lance::dataset::WriteParams;
use lance_linalg::distance::DistanceType;

use crate::support::{Home, options};

const DIMENSION: i32 = 8;

fn list_of(element: DataType, size: i32) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", element, true)), size)
}

/// Vectors of small whole numbers, of any type; every seventh is null.
fn vectors(ids: &[i64], element: &DataType, salt: i64) -> ArrayRef {
    let number = |id: i64, place: i64| (id * 31 + place * 17 + salt * 7) % 11;
    let rows = ids.iter().map(|id| {
        (id % 7 != 6).then(|| {
            (0..i64::from(DIMENSION)).map(|place| Some(number(*id, place) as f32)).collect::<Vec<_>>()
        })
    });
    let rows = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, DIMENSION);
    let numbers = cast(rows.values(), element).unwrap();
    let item = Arc::new(Field::new("item", element.clone(), true));
    Arc::new(FixedSizeListArray::new(item, DIMENSION, numbers, rows.nulls().cloned()))
}

/// `id`, and the vectors in a column of their own or in a struct.
fn rows(ids: &[i64], element: &DataType, salt: i64, nested: bool) -> RecordBatch {
    let vectors = vectors(ids, element, salt);
    let (name, column): (_, ArrayRef) = match nested {
        false => ("v", vectors),
        true => {
            let fields = Fields::from(vec![Field::new("v", vectors.data_type().clone(), true)]);
            ("in", Arc::new(StructArray::new(fields, vec![vectors], None)))
        }
    };
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new(name, column.data_type().clone(), true),
    ]);
    let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    RecordBatch::try_new(Arc::new(schema), vec![ids, column]).unwrap()
}

async fn write(uri: &str, rows: &RecordBatch) {
    let batches = arrow_array::RecordBatchIterator::new([Ok(rows.clone())], rows.schema());
    Dataset::write(batches, uri, Some(WriteParams::default())).await.unwrap();
}

/// Ids and distances, nearest first.
fn found_in(batches: &[RecordBatch]) -> Vec<(i64, f32)> {
    let rows = batches.iter().flat_map(|batch| {
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
        let distances = batch.column_by_name("_distance").unwrap().as_primitive::<Float32Type>();
        ids.values().iter().copied().zip(distances.values().iter().copied()).collect::<Vec<_>>()
    });
    let mut rows: Vec<(i64, f32)> = rows.collect();
    rows.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
    rows
}

async fn check(element: DataType, metrics: &[Metric], nested: bool) {
    let (home, plain) = (Home::new(), Home::new());
    let range = |ids: std::ops::Range<i64>| ids.collect::<Vec<_>>();
    write(&home.uri(), &rows(&range(0..30), &element, 0, nested)).await;
    let table = Table::init(&home.uri(), &["id".to_owned()], &Sharding::Unsharded, options()).await.unwrap();
    table.put(rows(&range(10..40), &element, 1, nested)).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&range(20..50), &element, 2, nested)).await.unwrap();
    let live = [rows(&range(0..10), &element, 0, nested), rows(&range(10..20), &element, 1, nested)];
    let live = [live[0].clone(), live[1].clone(), rows(&range(20..50), &element, 2, nested)];
    write(&plain.uri(), &arrow_select::concat::concat_batches(&live[0].schema(), &live).unwrap()).await;
    let plain = Dataset::open(&plain.uri()).await.unwrap();
    let vector: Vec<f32> = (0..DIMENSION).map(|place| ((place * 5) % 9) as f32).collect();
    let path = if nested { "in.v" } else { "v" };
    for metric in metrics {
        let nearest = VectorQuery {
            vectors: vec![vector.clone()],
            column: Some(path.to_owned()),
            metric: Some(*metric),
            ..VectorQuery::default()
        };
        let request = QueryRequest { nearest: Some(nearest), ..QueryRequest::default() };
        let found: Vec<RecordBatch> = table.query(&request).await.unwrap().try_collect().await.unwrap();
        let key = cast(&Float32Array::from(vector.clone()), &element).unwrap();
        let mut scanner = plain.scan();
        scanner.nearest(path, &key, 100).unwrap().distance_metric(DistanceType::from(*metric));
        let wanted: Vec<RecordBatch> = scanner.try_into_stream().await.unwrap().try_collect().await.unwrap();
        let (found, wanted) = (found_in(&found), found_in(&wanted));
        assert_eq!(found.len(), (0..50).filter(|id| id % 7 != 6).count(), "{element}, {metric:?}: {found:?}");
        assert_eq!(found, wanted, "{element}, {metric:?}");
    }
    table.close().await.unwrap();
}

const OF_NUMBERS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::Dot];

#[tokio::test(flavor = "multi_thread")]
async fn of_half_single_and_double_precision() {
    for element in [DataType::Float16, DataType::Float32, DataType::Float64] {
        check(element, &OF_NUMBERS, false).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_bytes_by_the_bits_that_differ_and_of_small_integers() {
    check(DataType::UInt8, &[Metric::Hamming], false).await;
    check(DataType::Int8, &OF_NUMBERS, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_struct() {
    check(DataType::Float32, &[Metric::L2], true).await;
}

/// A table with columns of vectors of several kinds.
async fn table(home: &Home) -> Table {
    let several = DataType::List(Arc::new(Field::new("item", list_of(DataType::Float32, 4), true)));
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("a", list_of(DataType::Float32, 4), true),
        Field::new("b", list_of(DataType::Float32, 8), true),
        Field::new("c", list_of(DataType::Float64, 8), true),
        Field::new("bytes", list_of(DataType::UInt8, 2), true),
        Field::new("several", several, true),
        Field::new("text", DataType::Utf8, true),
    ]);
    Table::create(&home.uri(), &schema, &["id".to_owned()], &Sharding::Unsharded, options()).await.unwrap()
}

fn near(vectors: &[&[f32]], column: Option<&str>) -> VectorQuery {
    let vectors = vectors.iter().map(|vector| vector.to_vec()).collect();
    VectorQuery { vectors, column: column.map(str::to_owned), ..VectorQuery::default() }
}

/// What a search that cannot be made is refused with: the part at fault, and the reason.
async fn refused(table: &Table, nearest: VectorQuery) -> (String, String) {
    let request = QueryRequest { nearest: Some(nearest), ..QueryRequest::default() };
    let Err(Error::Read { source, .. }) = table.query(&request).await else { panic!("it was taken") };
    match &*source {
        QueryError::Request { field, reason } => ((*field).to_owned(), reason.clone()),
        QueryError::Column { column, known } => (column.clone(), known.clone()),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_column_of_the_dimension_is_taken_and_others_are_said() {
    let home = Home::new();
    let table = table(&home).await;
    for taken in [near(&[&[0.0; 4]], None), near(&[&[1.0, 255.0]], None), near(&[&[0.0; 8]], Some("c"))] {
        let request = QueryRequest { nearest: Some(taken), ..QueryRequest::default() };
        let found: Vec<RecordBatch> = table.query(&request).await.unwrap().try_collect().await.unwrap();
        assert_eq!(found.len(), 0);
    }
    for (nearest, field, part) in [
        (near(&[], None), "vector", "there is none"),
        (near(&[&[0.0; 8]], None), "vector_column", "b, c"),
        (near(&[&[0.0; 3]], None), "vector", "dimension 3"),
        (near(&[&[0.0; 3]], Some("a")), "vector", "3 numbers"),
        (near(&[&[0.0; 4], &[0.0; 5]], Some("a")), "vector", "vector 1"),
        (near(&[&[]], None), "vector", "dimension 0"),
        (near(&[&[0.0, f32::NAN, 0.0, 0.0]], None), "vector", "number 1 is not finite"),
        (near(&[&[f32::INFINITY; 4]], None), "vector", "not finite"),
        (near(&[&[0.5, 1.0]], Some("bytes")), "vector", "no UInt8"),
        (near(&[&[256.0, 1.0]], Some("bytes")), "vector", "no UInt8"),
        (near(&[&[0.0; 4]], Some("nope")), "nope", "text"),
        (near(&[&[0.0; 4]], Some("A")), "A", "id, a"),
        (near(&[&[0.0; 4]], Some("text")), "vector_column", "no vectors"),
        (near(&[&[0.0; 4]], Some("several")), "vector_column", "several vectors a row"),
        (near(&[&[0.0; 4]], Some("text.a")), "vector_column", "text.a"),
    ] {
        let (found, reason) = refused(&table, nearest.clone()).await;
        assert!(found == field && reason.contains(part), "{nearest:?}: {found}: {reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_bounds_and_numbers_that_cannot_be_are_refused_by_name() {
    let home = Home::new();
    let table = table(&home).await;
    let a = || near(&[&[0.0; 4]], Some("a"));
    let searched = |search: VectorSearch| VectorQuery { search, ..a() };
    let default = VectorSearch::default;
    for (nearest, field) in [
        (VectorQuery { metric: Some(Metric::Hamming), ..a() }, "distance_type"),
        (VectorQuery { metric: Some(Metric::L2), ..near(&[&[0.0; 2]], None) }, "distance_type"),
        (VectorQuery { lower_bound: Some(f32::NAN), ..a() }, "lower_bound"),
        (VectorQuery { upper_bound: Some(f32::NAN), ..a() }, "upper_bound"),
        (searched(VectorSearch { minimum_nprobes: Some(0), ..default() }), "minimum_nprobes"),
        (
            searched(VectorSearch { minimum_nprobes: Some(3), maximum_nprobes: Some(2), ..default() }),
            "minimum_nprobes",
        ),
        (searched(VectorSearch { effort: Some(1.5), ..default() }), "search_effort"),
        (searched(VectorSearch { effort: Some(f64::NAN), ..default() }), "search_effort"),
        (searched(VectorSearch { refine_factor: Some(0), ..default() }), "refine_factor"),
    ] {
        let (found, reason) = refused(&table, nearest.clone()).await;
        assert_eq!(found, field, "{nearest:?}: {reason}");
    }
    assert_eq!("COSINE".parse::<Metric>().unwrap(), Metric::Cosine);
    assert!("l3".parse::<Metric>().unwrap_err().to_string().starts_with("distance_type: \"l3\""));
    let order = OrderBy { column: "_distance".to_owned(), ascending: false, nulls_first: false };
    let request = QueryRequest { nearest: Some(a()), order_by: vec![order], ..QueryRequest::default() };
    assert!(table.query(&request).await.is_ok(), "ordered by distance");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_calls_a_column_as_the_search_calls_its_own_is_not_searched() {
    let home = Home::new();
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("v", list_of(DataType::Float32, 4), true),
        Field::new("query_index", DataType::Int64, true),
    ]);
    let key = ["id".to_owned()];
    let table = Table::create(&home.uri(), &schema, &key, &Sharding::Unsharded, options()).await.unwrap();
    let (field, reason) = refused(&table, near(&[&[0.0; 4], &[1.0; 4]], None)).await;
    assert!(field == "vector" && reason.contains("query_index"), "{field}: {reason}");
    let one = QueryRequest { nearest: Some(near(&[&[0.0; 4]], None)), ..QueryRequest::default() };
    assert!(table.query(&one).await.is_ok(), "one vector needs no index");
}
