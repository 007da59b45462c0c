//! Nulls in not-null fields below the top: found where they are values, and only there.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Int64Array, ListArray, MapArray, RecordBatch, StringArray,
    StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use headwater_engine::ingest::{Ingest, InvalidInput, PreparedBatch};

use crate::memtable_support::{key_field, limits};

fn required(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, false))
}

fn optional(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

/// A put of `column` under a nullable field of type `wanted`.
fn put(wanted: DataType, column: ArrayRef) -> Result<PreparedBatch, InvalidInput> {
    let base = Schema::new(vec![key_field("id", DataType::Int64, 1), Field::new("c", wanted, true)]);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..column.len() as i64));
    Ingest::new(&base, limits())
        .unwrap()
        .rows(RecordBatch::try_from_iter([("id", ids), ("c", column)]).unwrap())
}

fn null_at(result: Result<PreparedBatch, InvalidInput>) -> (String, usize) {
    match result {
        Err(InvalidInput::NullValue { column, row }) => (column, row),
        other => panic!("{other:?}"),
    }
}

#[test]
fn in_a_struct_unless_the_struct_itself_is_null() {
    let wanted = DataType::Struct(Fields::from(vec![required("x", DataType::Int64)]));
    let given = Fields::from(vec![optional("x", DataType::Int64)]);
    let values = ints(&[Some(1), None, Some(3)]);
    let bad = StructArray::new(given.clone(), vec![values.clone()], None);
    assert_eq!(null_at(put(wanted.clone(), Arc::new(bad))), ("c.x".into(), 1));
    let hidden = StructArray::new(given, vec![values], Some(NullBuffer::from(vec![true, false, true])));
    let prepared = put(wanted.clone(), Arc::new(hidden)).unwrap();
    assert_eq!(prepared.batch.column(1).data_type(), &wanted);
    assert_eq!(prepared.batch.column(1).null_count(), 1);
}

#[test]
fn in_a_list_by_the_row_of_the_list() {
    let wanted = DataType::List(required("item", DataType::Int64));
    let given = optional("item", DataType::Int64);
    let values = ints(&[Some(1), Some(2), None, Some(4)]);
    let lists = |offsets: Vec<i32>, nulls| {
        ListArray::new(given.clone(), OffsetBuffer::new(offsets.into()), values.clone(), nulls)
    };
    assert_eq!(null_at(put(wanted.clone(), Arc::new(lists(vec![0, 0, 2, 4], None)))), ("c.item".into(), 2));
    // The null lies under a null list, or outside every list.
    let under_null = lists(vec![0, 2, 4], Some(NullBuffer::from(vec![true, false])));
    assert!(put(wanted.clone(), Arc::new(under_null)).is_ok());
    let outside = lists(vec![0, 1, 2], None);
    assert!(put(wanted.clone(), Arc::new(outside)).is_ok());
    let sliced = lists(vec![0, 3, 4], None).slice(1, 1);
    assert!(put(wanted, Arc::new(sliced)).is_ok());
}

#[test]
fn in_a_fixed_size_list_by_the_row_of_the_list() {
    let wanted = DataType::FixedSizeList(required("item", DataType::Int64), 2);
    let values = ints(&[Some(1), Some(2), Some(3), None, None, None]);
    let given = optional("item", DataType::Int64);
    let nulls = NullBuffer::from(vec![true, true, false]);
    let lists = FixedSizeListArray::new(given, 2, values, Some(nulls));
    assert_eq!(null_at(put(wanted.clone(), Arc::new(lists.clone()))), ("c.item".into(), 1));
    assert!(put(wanted, Arc::new(lists.slice(2, 1))).is_ok());
}

#[test]
fn in_a_struct_in_a_list_at_depth() {
    let inner = DataType::Struct(Fields::from(vec![required("x", DataType::Int64)]));
    let wanted = DataType::List(optional("item", inner));
    let given = Fields::from(vec![optional("x", DataType::Int64)]);
    let structs = StructArray::new(
        given.clone(),
        vec![ints(&[None, Some(2), None])],
        Some(NullBuffer::from(vec![false, true, true])),
    );
    let item = optional("item", DataType::Struct(given));
    let lists = ListArray::new(item, OffsetBuffer::new(vec![0, 1, 3].into()), Arc::new(structs), None);
    assert_eq!(null_at(put(wanted.clone(), Arc::new(lists.clone()))), ("c.item.x".into(), 1));
    assert!(put(wanted, Arc::new(lists.slice(0, 1))).is_ok());
}

#[test]
fn in_the_values_of_a_map() {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    builder.keys().append_value("a");
    builder.values().append_value(1);
    builder.append(true).unwrap();
    builder.keys().append_value("b");
    builder.values().append_null();
    builder.append(true).unwrap();
    let map: MapArray = builder.finish();
    let entries = Fields::from(vec![required("k", DataType::Utf8), required("v", DataType::Int64)]);
    let wanted = DataType::Map(required("e", DataType::Struct(entries)), false);
    assert_eq!(null_at(put(wanted.clone(), Arc::new(map.clone()))), ("c.e.v".into(), 1));
    let fine = put(wanted.clone(), Arc::new(map.slice(0, 1))).unwrap();
    assert_eq!(fine.batch.column(1).data_type(), &wanted, "names of entries are the table's");
}

#[test]
fn of_several_the_first_row_is_named() {
    let wanted = DataType::Struct(Fields::from(vec![
        required("late", DataType::Int64),
        optional("free", DataType::Utf8),
        required("early", DataType::Int64),
    ]));
    let given = Fields::from(vec![
        optional("late", DataType::Int64),
        optional("free", DataType::Utf8),
        optional("early", DataType::Int64),
    ]);
    let columns = vec![
        ints(&[Some(1), Some(2), None]),
        Arc::new(StringArray::from(vec![None, Some("a"), None])) as ArrayRef,
        ints(&[Some(1), None, Some(3)]),
    ];
    let bad = StructArray::new(given, columns, None);
    assert_eq!(null_at(put(wanted, Arc::new(bad))), ("c.early".into(), 1));
}

#[test]
fn nullable_fields_may_be_null_at_any_depth() {
    let mut builder = ListBuilder::new(Int64Builder::new());
    builder.append_value([Some(1), None]);
    builder.append_null();
    let lists = builder.finish();
    assert!(put(lists.data_type().clone(), Arc::new(lists)).is_ok());
}
