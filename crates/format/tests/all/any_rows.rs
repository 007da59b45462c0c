//! Any rows come back from an entry, whatever their types, nulls, slices and compression.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, LargeStringArray, ListArray, RecordBatch,
    RecordBatchOptions, StringArray, TimestampMicrosecondArray, types::Int32Type,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater_format::coord::{Epoch, Generation};
use headwater_format::schema::{FIELD_ID, storage_schema};
use headwater_format::wal_entry::{Compression, WalBody, WalEntry, WalEntryError, decode, encode_rows};
use proptest::prelude::*;

/// One value for each kind of column, each perhaps null.
type Row =
    (Option<i64>, Option<f64>, Option<String>, Option<Vec<u8>>, Option<bool>, Option<Vec<Option<i32>>>);

fn row() -> impl Strategy<Value = Row> {
    (
        any::<Option<i64>>(),
        any::<Option<f64>>(),
        prop::option::of("\\PC{0,12}"),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..12)),
        any::<Option<bool>>(),
        prop::option::of(prop::collection::vec(any::<Option<i32>>(), 0..4)),
    )
}

fn columns(rows: &[Row]) -> Vec<ArrayRef> {
    vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.2.as_deref()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.2.as_deref()).collect::<LargeStringArray>()),
        Arc::new(rows.iter().map(|row| row.3.as_deref()).collect::<BinaryArray>()),
        Arc::new(rows.iter().map(|row| row.4).collect::<BooleanArray>()),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows.iter().map(|row| row.5.clone()))),
        Arc::new(rows.iter().map(|row| row.0).collect::<TimestampMicrosecondArray>().with_timezone("UTC")),
    ]
}

/// The storage schema of the columns in `picked`, with ids and metadata, and the batches under it.
fn table(
    picked: &[usize],
    batches: &[Vec<Row>],
    metadata: HashMap<String, String>,
) -> (SchemaRef, Vec<RecordBatch>) {
    let types: Vec<DataType> = columns(&[]).iter().map(|column| column.data_type().clone()).collect();
    let field = |(id, kind): (usize, &usize)| {
        let metadata = HashMap::from([(FIELD_ID.to_owned(), id.to_string())]);
        Field::new(format!("c{id}"), types[*kind].clone(), true).with_metadata(metadata)
    };
    let base = Schema::new(picked.iter().enumerate().map(field).collect::<Vec<_>>()).with_metadata(metadata);
    let storage = storage_schema(&base).unwrap();
    let batch = |rows: &Vec<Row>| {
        let all = columns(rows);
        let mut arrays: Vec<ArrayRef> = picked.iter().map(|kind| Arc::clone(&all[*kind])).collect();
        arrays.push(Arc::new(BooleanArray::from(vec![false; rows.len()])));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(&storage), arrays, &options).unwrap()
    };
    (Arc::clone(&storage), batches.iter().map(batch).collect())
}

fn compression() -> impl Strategy<Value = Compression> {
    prop::sample::select(vec![Compression::None, Compression::Lz4, Compression::Zstd])
}

proptest! {
    #[test]
    fn any_rows_come_back_whole_and_never_in_part(
        picked in prop::collection::vec(0_usize..8, 0..6),
        batches in prop::collection::vec(prop::collection::vec(row(), 1..8), 1..4),
        metadata in prop::collection::hash_map("[a-z]{1,4}", "\\PC{0,8}", 0..3),
        numbers in (any::<u64>(), 1..=u64::MAX),
        compression in compression(),
        skipped: prop::sample::Index,
        cut: prop::sample::Index,
    ) {
        let (schema, batches) = table(&picked, &batches, metadata);
        let sliced = |batch: RecordBatch| {
            let from = skipped.index(batch.num_rows());
            batch.slice(from, batch.num_rows() - from)
        };
        let batches: Vec<RecordBatch> = batches.into_iter().map(sliced).collect();
        let (epoch, generation) = (Epoch::new(numbers.0), Generation::new(numbers.1));
        let bytes = encode_rows(&schema, epoch, generation, &batches, compression).unwrap();
        let length = cut.index(bytes.len());
        prop_assert_eq!(decode(bytes.slice(..length)), Err(WalEntryError::Truncated { length }));
        let body = WalBody::Rows { generation: Some(generation), batches };
        let entry = WalEntry { epoch, body, tokens: Vec::new() };
        prop_assert_eq!(decode(bytes), Ok(entry));
    }
}
