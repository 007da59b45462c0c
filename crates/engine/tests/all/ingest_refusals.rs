//! P14: what is refused, with column, row, limit and what to do; nothing is cast.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow_schema::{DataType, Field, Fields, Schema};
use headwater_engine::ingest::{Ingest, IngestLimits, InvalidInput};

use crate::memtable_support::{Key, Table, key_field, limits};

fn point(x: DataType) -> Fields {
    Fields::from(vec![Field::new("x", x, true), Field::new("y", DataType::Int64, true)])
}

fn ingest() -> Ingest {
    let fields = vec![
        key_field("id", DataType::Int64, 1),
        Field::new("name", DataType::Utf8, true),
        Field::new("count", DataType::Int64, false),
        Field::new("point", DataType::Struct(point(DataType::Int64)), true),
    ];
    Ingest::new(&Schema::new(fields), limits()).unwrap()
}

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn refused(columns: Vec<(&str, ArrayRef)>) -> InvalidInput {
    ingest().rows(RecordBatch::try_from_iter(columns).unwrap()).unwrap_err()
}

fn good() -> Vec<(&'static str, ArrayRef)> {
    vec![("id", ints(&[Some(1), Some(2)])), ("count", ints(&[Some(1), Some(2)]))]
}

fn with(name: &'static str, column: ArrayRef) -> Vec<(&'static str, ArrayRef)> {
    let mut columns: Vec<_> = good().into_iter().filter(|(other, _)| *other != name).collect();
    columns.push((name, column));
    columns
}

#[test]
fn an_unknown_column_is_named_with_the_ones_there_are() {
    let error = refused(with("colour", ints(&[None, None])));
    assert_eq!(
        error.to_string(),
        "column \"colour\" is not in the table, which has columns id, name, count, point; rename or drop it"
    );
}

#[test]
fn the_tombstone_column_cannot_be_given() {
    let error = refused(with("_tombstone", ints(&[None, None])));
    assert!(matches!(error, InvalidInput::UnknownColumn { column, .. } if column == "_tombstone"));
}

#[test]
fn a_column_given_twice_is_named() {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("count", DataType::Int64, true),
        Field::new("id", DataType::Int64, true),
    ]);
    let column = ints(&[Some(1)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![column.clone(), column.clone(), column]).unwrap();
    assert_eq!(ingest().rows(batch).unwrap_err(), InvalidInput::DuplicateColumn { column: "id".into() });
}

#[test]
fn a_missing_key_column_and_a_missing_required_column_are_named_with_the_reason() {
    let error = refused(vec![("count", ints(&[Some(1)]))]);
    assert_eq!(error, InvalidInput::MissingColumn { column: "id".into(), why: "part of the key" });
    let error = refused(vec![("id", ints(&[Some(1)]))]);
    assert_eq!(error, InvalidInput::MissingColumn { column: "count".into(), why: "not nullable" });
}

#[test]
fn another_type_is_refused_with_both_types_and_never_cast() {
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let error = refused(with("count", narrow));
    assert_eq!(error.to_string(), "column \"count\" has type Int32, the table Int64; cast it to Int64");
    let dictionary: DictionaryArray<Int32Type> = ["a", "b"].into_iter().collect();
    let error = refused(with("name", Arc::new(dictionary)));
    assert!(error.to_string().contains("Dictionary(Int32, Utf8), the table Utf8"), "{error}");
    let view: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b"]));
    assert!(
        matches!(refused(with("name", view)), InvalidInput::WrongType { column, .. } if column == "name")
    );
}

#[test]
fn a_difference_inside_a_nested_type_is_refused_with_both_types() {
    let narrow = StructArray::new(
        point(DataType::Int32),
        vec![Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef, ints(&[None, None])],
        None,
    );
    let error = refused(with("point", Arc::new(narrow))).to_string();
    assert!(error.contains("Int32") && error.contains("the table Struct("), "{error}");
    let swapped =
        Fields::from(vec![Field::new("y", DataType::Int64, true), Field::new("x", DataType::Int64, true)]);
    let swapped = StructArray::new(swapped, vec![ints(&[None, None]), ints(&[None, None])], None);
    let error = refused(with("point", Arc::new(swapped)));
    assert!(
        matches!(error, InvalidInput::WrongType { column, .. } if column == "point"),
        "names count in structs"
    );
}

#[test]
fn a_null_key_is_named_with_its_row() {
    let error = refused(with("id", ints(&[Some(1), None])));
    assert_eq!(error, InvalidInput::NullKey { column: "id".into(), row: 1 });
    let table = Table::new(Key::Composite);
    let keys = RecordBatch::try_from_iter([
        ("name", Arc::new(StringArray::from(vec![Some("a"), Some("b"), None])) as ArrayRef),
        ("part", Arc::new(Int32Array::from(vec![1, 2, 3]))),
    ]);
    let error = table.ingest.deletes(keys.unwrap()).unwrap_err();
    assert_eq!(error, InvalidInput::NullKey { column: "name".into(), row: 2 });
}

#[test]
fn a_null_in_a_required_column_is_named_with_its_row() {
    let error = refused(with("count", ints(&[Some(1), None])));
    assert_eq!(error, InvalidInput::NullValue { column: "count".into(), row: 1 });
    assert_eq!(
        error.to_string(),
        "column \"count\" is null in row 1 (counted from 0), but may not be; give a value"
    );
}

#[test]
fn a_delete_with_more_or_fewer_columns_than_the_key_is_refused() {
    let batch = RecordBatch::try_from_iter(good()).unwrap();
    let error = ingest().deletes(batch).unwrap_err().to_string();
    assert!(error.contains("\"count\"") && error.contains("for deletes the key columns id"), "{error}");
    let table = Table::new(Key::Composite);
    let half =
        RecordBatch::try_from_iter([("name", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]).unwrap();
    let error = table.ingest.deletes(half).unwrap_err();
    assert_eq!(error, InvalidInput::MissingColumn { column: "part".into(), why: "part of the key" });
}

#[test]
fn a_delete_without_a_key_is_refused() {
    let table = Table::new(Key::Absent);
    let batch = RecordBatch::try_from_iter([("id", ints(&[Some(1)]))]).unwrap();
    assert_eq!(table.ingest.deletes(batch).unwrap_err(), InvalidInput::NoKey);
}

#[test]
fn a_batch_over_a_limit_is_refused_with_the_setting() {
    let base =
        Schema::new(vec![key_field("id", DataType::Int64, 1), Field::new("name", DataType::Utf8, true)]);
    let ingest = Ingest::new(&base, IngestLimits { max_rows: 3, max_bytes: 100 }).unwrap();
    let put = |rows: i64, text: &str| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|_| text)));
        ingest.rows(RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap())
    };
    assert!(put(3, "abc").is_ok());
    let error = put(4, "").unwrap_err();
    assert_eq!(error, InvalidInput::TooManyRows { rows: 4, limit: 3 });
    assert!(error.to_string().contains("freeze.max_rows"));
    // One row: 8 bytes of key, 8 of offsets, the text.
    assert_eq!(put(1, &"a".repeat(84)).unwrap().payload_bytes, 100);
    let error = put(1, &"a".repeat(85)).unwrap_err();
    assert_eq!(error, InvalidInput::TooLarge { bytes: 101, limit: 100 });
    assert!(error.to_string().contains("wal.max_entry_bytes"));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4));
    let deletes = ingest.deletes(RecordBatch::try_from_iter([("id", ids)]).unwrap());
    assert_eq!(deletes.unwrap_err(), InvalidInput::TooManyRows { rows: 4, limit: 3 });
}

#[test]
fn a_slice_of_a_large_batch_is_measured_by_itself() {
    let base =
        Schema::new(vec![key_field("id", DataType::Int64, 1), Field::new("name", DataType::Utf8, true)]);
    let ingest = Ingest::new(&base, IngestLimits { max_rows: 10, max_bytes: 100 }).unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|id| format!("{id:010}"))));
    let large = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
    assert_eq!(ingest.rows(large.slice(500, 2)).unwrap().payload_bytes, 2 * 8 + 3 * 4 + 20);
    assert!(ingest.rows(large).is_err());
}

#[test]
fn a_base_schema_that_cannot_carry_a_shard_is_refused_before_anything_else() {
    let nullable = key_field("id", DataType::Int64, 1).with_nullable(true);
    let float = key_field("id", DataType::Float64, 1);
    let reserved = Field::new("_tombstone", DataType::Boolean, true);
    for (field, word) in [(nullable, "null"), (float, "Float64"), (reserved, "_tombstone")] {
        let error = Ingest::new(&Schema::new(vec![field]), limits()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}
