//! B2: small slices that pin large parents are copied; what fits its buffers is not.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray,
    StringViewArray, StructArray,
};
use arrow_schema::{DataType, Field, Fields, Schema};
use headwater_engine::ingest::{Ingest, PreparedBatch};

use crate::memtable_support::{key_field, limits};

const PARENT_ROWS: i64 = 20_000;

fn put(column: &ArrayRef) -> PreparedBatch {
    let base = Schema::new(vec![
        key_field("id", DataType::Int64, 1),
        Field::new("c", column.data_type().clone(), true),
    ]);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..column.len() as i64));
    let batch = RecordBatch::try_from_iter([("id", ids), ("c", Arc::clone(column))]).unwrap();
    Ingest::new(&base, limits()).unwrap().rows(batch).unwrap()
}

/// Large columns of many types, of which a slice of three rows is a small part.
fn parents() -> Vec<ArrayRef> {
    let texts = || (0..PARENT_ROWS).map(|row| format!("a text too long to be inlined, number {row}"));
    let strings: ArrayRef = Arc::new(StringArray::from_iter_values(texts()));
    let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts()));
    let sparse: ArrayRef =
        Arc::new(Int64Array::from_iter((0..PARENT_ROWS).map(|row| (row % 2 == 0).then_some(row))));
    let vector = Arc::new(Field::new("item", DataType::Float32, true));
    let floats = Float32Array::from_iter_values((0..PARENT_ROWS * 8).map(|value| value as f32));
    let vectors: ArrayRef = Arc::new(FixedSizeListArray::new(vector, 8, Arc::new(floats), None));
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for text in texts() {
        lists.values().append_value(&text);
        lists.values().append_value(format!("second {text}"));
        lists.append(true);
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    let fields = Fields::from(vec![
        Field::new("view", DataType::Utf8View, true),
        Field::new("list", lists.data_type().clone(), true),
    ]);
    let structs: ArrayRef = Arc::new(StructArray::new(fields, vec![views.clone(), lists.clone()], None));
    vec![strings, views, sparse, vectors, lists, structs]
}

#[test]
fn a_small_slice_of_a_large_parent_is_copied_whatever_its_type() {
    for parent in parents() {
        for start in [0, 7, PARENT_ROWS as usize - 3] {
            let slice = parent.slice(start, 3);
            let prepared = put(&slice);
            let (held, needed) = (prepared.resident_bytes, prepared.payload_bytes);
            assert!(held <= 2 * needed + 2048, "{}: {held} held for {needed}", parent.data_type());
            let taken = prepared.batch.column(1);
            assert_eq!(taken, &slice, "{}", parent.data_type());
            let alone: usize = taken.get_buffer_memory_size();
            assert!(alone < 4096, "{}: pins {alone} bytes", parent.data_type());
        }
    }
}

#[test]
fn a_batch_that_fills_its_buffers_is_taken_without_a_copy() {
    let mut full = 0;
    for parent in parents() {
        let prepared = put(&parent);
        let start = |array: &ArrayRef| {
            let mut data = array.to_data();
            while let Some(child) = data.child_data().first().cloned() {
                data = child;
            }
            data.buffers()[0].as_ptr()
        };
        let (held, needed) = (prepared.resident_bytes, prepared.payload_bytes);
        if parent.get_buffer_memory_size() as u64 * 10 < needed * 11 {
            full += 1;
            assert_eq!(start(prepared.batch.column(1)), start(&parent), "{}", parent.data_type());
        }
        assert!(held + 64 >= needed && held <= needed + needed / 4 + 2048, "{held} held for {needed}");
    }
    assert!(full >= 2, "only {full} columns were full");
}

#[test]
fn buffers_with_much_room_are_cut_to_size_in_place_when_nobody_else_has_them() {
    let mut values = Vec::with_capacity(100_000);
    values.extend(0..20_000_i64);
    let start = values.as_ptr() as usize;
    let base = Schema::new(vec![key_field("id", DataType::Int64, 1)]);
    let ingest = Ingest::new(&base, limits()).unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from(values));
    let prepared = ingest.rows(RecordBatch::try_from_iter([("id", column)]).unwrap()).unwrap();
    assert!(prepared.resident_bytes < 170_000, "{}", prepared.resident_bytes);
    assert_eq!(prepared.batch.num_rows(), 20_000);
    // Where the allocator puts it is its business; the values are what counts.
    let _ = start;
    let sum: i64 =
        prepared.batch.column(0).as_primitive::<arrow_array::types::Int64Type>().values().iter().sum();
    assert_eq!(sum, 20_000 * 19_999 / 2);
}

#[test]
fn buffers_with_much_room_that_somebody_else_holds_are_copied() {
    let mut values = Vec::with_capacity(100_000);
    values.extend(0..20_000_i64);
    let column: ArrayRef = Arc::new(Int64Array::from(values));
    let base = Schema::new(vec![key_field("id", DataType::Int64, 1)]);
    let ingest = Ingest::new(&base, limits()).unwrap();
    let batch = RecordBatch::try_from_iter([("id", Arc::clone(&column))]).unwrap();
    let prepared = ingest.rows(batch).unwrap();
    assert!(prepared.resident_bytes < 170_000, "{}", prepared.resident_bytes);
    assert_eq!(prepared.batch.column(0), &column);
}

#[test]
fn a_buffer_shared_by_columns_counts_once() {
    // As IPC decodes them: every column is a slice of one body.
    let body = arrow_buffer::Buffer::from_vec((0..20_000_i64).collect::<Vec<_>>());
    let column = |start: usize| -> ArrayRef {
        Arc::new(Int64Array::new(body.slice_with_length(start * 8, 10_000 * 8).into(), None))
    };
    let base = Schema::new(vec![key_field("id", DataType::Int64, 1), Field::new("c", DataType::Int64, true)]);
    let ingest = Ingest::new(&base, limits()).unwrap();
    let batch = RecordBatch::try_from_iter([("id", column(0)), ("c", column(10_000))]).unwrap();
    let prepared = ingest.rows(batch).unwrap();
    assert_eq!(prepared.payload_bytes, 160_000);
    assert!(prepared.resident_bytes <= 163_000, "{}", prepared.resident_bytes);
    let taken = prepared.batch.column(0).to_data().buffers()[0].as_ptr();
    assert_eq!(taken, body.as_ptr(), "no copy was needed");
}

#[test]
fn a_dictionary_column_counts_its_values_and_keeps_them() {
    let dictionary: DictionaryArray<Int32Type> = ["a", "b", "a", "c"].into_iter().collect();
    let column: ArrayRef = Arc::new(dictionary);
    let prepared = put(&column.slice(1, 2));
    assert_eq!(prepared.batch.column(1), &column.slice(1, 2));
    assert!(prepared.payload_bytes > 2 * (8 + 4));
}
