//! Shaping: columns by name, fills, `_tombstone`, deletes, stored rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_engine::ingest::Ingest;
use headwater_engine::memtable::BatchKeys;
use headwater_format::coord::Seq;

use crate::memtable_support::{Key, Table, gone, key_field, limits, row};

fn ingest() -> Ingest {
    let fields = vec![
        key_field("id", DataType::Int64, 1),
        Field::new("name", DataType::Utf8, true),
        Field::new("count", DataType::Int64, false),
    ];
    let metadata = HashMap::from([("base".to_owned(), "yes".to_owned())]);
    Ingest::new(&Schema::new_with_metadata(fields, metadata), limits()).unwrap()
}

fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[test]
fn columns_go_by_name_in_any_order() {
    let batch = RecordBatch::try_from_iter([
        ("count", ints(&[10, 20])),
        ("id", ints(&[1, 2])),
        ("name", texts(&[Some("a"), None])),
    ]);
    let prepared = ingest().rows(batch.unwrap()).unwrap();
    assert_eq!(prepared.batch.schema(), *ingest().schema());
    assert_eq!(prepared.batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2]);
    assert_eq!(prepared.batch.column(2).as_primitive::<Int64Type>().values(), &[10, 20]);
    assert_eq!(prepared.batch.column(3).as_boolean().true_count(), 0);
    assert_eq!(prepared.batch.schema().metadata()["base"], "yes", "schema metadata is the base's own");
}

#[test]
fn a_nullable_column_may_be_left_out_and_is_null() {
    let batch = RecordBatch::try_from_iter([("id", ints(&[1, 2])), ("count", ints(&[10, 20]))]).unwrap();
    let prepared = ingest().rows(batch).unwrap();
    assert_eq!(prepared.batch.column(1).null_count(), 2);
}

#[test]
fn metadata_of_incoming_fields_and_schemas_is_ignored() {
    let odd = HashMap::from([("lance:field_id".to_owned(), "77".to_owned())]);
    let fields = vec![
        Field::new("id", DataType::Int64, true).with_metadata(odd.clone()),
        Field::new("count", DataType::Int64, true).with_metadata(odd.clone()),
    ];
    let schema = Arc::new(Schema::new_with_metadata(fields, odd));
    let batch = RecordBatch::try_new(schema, vec![ints(&[1]), ints(&[2])]).unwrap();
    let prepared = ingest().rows(batch).unwrap();
    assert_eq!(prepared.batch.schema(), *ingest().schema());
}

#[test]
fn list_items_may_be_called_otherwise_and_be_nullable_on_paper() {
    let item = |name: &str, nullable| Arc::new(Field::new(name, DataType::Int64, nullable));
    let base = Schema::new(vec![
        key_field("id", DataType::Int64, 1),
        Field::new("numbers", DataType::List(item("element", false)), true),
    ]);
    let ingest = Ingest::new(&base, limits()).unwrap();
    let lists =
        ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), Some(2)]), None, Some(vec![])]);
    assert_eq!(lists.data_type(), &DataType::List(item("item", true)));
    let columns: [(&str, ArrayRef); 2] = [("id", ints(&[1, 2, 3])), ("numbers", Arc::new(lists.clone()))];
    let prepared = ingest.rows(RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    let taken = prepared.batch.column(1);
    assert_eq!(taken.data_type(), &DataType::List(item("element", false)), "it is the table's type now");
    assert_eq!(taken.as_list::<i32>().values(), lists.values());
    assert_eq!(taken.nulls(), lists.nulls());
}

#[test]
fn a_delete_takes_exactly_the_key_columns_and_fills_the_rest_with_null() {
    for key in [Key::Int, Key::Text, Key::Binary, Key::Composite] {
        let table = Table::new(key);
        let prepared = table.deletes(&[3, 4]);
        assert_eq!(table.read(&[prepared.batch]), vec![gone(3), gone(4)], "{key:?}");
    }
    let table = Table::new(Key::Composite);
    let backwards = RecordBatch::try_from_iter([
        ("part", Arc::new(arrow_array::Int32Array::from(vec![1])) as ArrayRef),
        ("name", texts(&[Some("name 2")])),
    ]);
    let prepared = table.ingest.deletes(backwards.unwrap()).unwrap();
    assert_eq!(table.read(&[prepared.batch]), vec![gone(7)], "in any order");
}

#[test]
fn keys_are_taken_in_the_form_their_type_calls_for() {
    let ints = Table::new(Key::Int).rows(&[(-1, "a"), (1, "b")]);
    assert!(matches!(ints.keys, BatchKeys::Ints(_)));
    assert_eq!((ints.keys.len(), ints.key_bytes), (2, 16));
    let texts = Table::new(Key::Text).rows(&[(7, "a")]);
    assert!(matches!(texts.keys, BatchKeys::Bytes(_)));
    assert_eq!(texts.key_bytes, "key number 7".len() as u64);
    let composite = Table::new(Key::Composite).rows(&[(7, "a")]);
    assert!(matches!(composite.keys, BatchKeys::Bytes(_)));
    assert_eq!(composite.key_bytes, "name 2".len() as u64 + 4);
    let absent = Table::new(Key::Absent).rows(&[(7, "a")]);
    assert!(!absent.keys.is_keyed());
    assert_eq!((absent.keys.len(), absent.key_bytes), (0, 0));
}

#[test]
fn every_supported_key_type_tells_its_values_apart() {
    use arrow_array::{
        BinaryArray, BooleanArray, Int8Array, Int16Array, Int32Array, LargeBinaryArray, LargeStringArray,
        UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int8Array::from(vec![-1, 1, i8::MIN])),
        Arc::new(Int16Array::from(vec![-1, 1, i16::MIN])),
        Arc::new(Int32Array::from(vec![-1, 1, i32::MIN])),
        Arc::new(Int64Array::from(vec![-1, 1, i64::MIN])),
        Arc::new(UInt8Array::from(vec![0, 1, u8::MAX])),
        Arc::new(UInt16Array::from(vec![0, 1, u16::MAX])),
        Arc::new(UInt32Array::from(vec![0, 1, u32::MAX])),
        Arc::new(UInt64Array::from(vec![0, 1, u64::MAX])),
        Arc::new(BooleanArray::from(vec![true, false])),
        Arc::new(StringArray::from(vec!["", "a", "b"])),
        Arc::new(LargeStringArray::from(vec!["", "a", "b"])),
        Arc::new(BinaryArray::from(vec![b"".as_slice(), b"\0", b"\0\0"])),
        Arc::new(LargeBinaryArray::from(vec![b"".as_slice(), b"\0", b"\0\0"])),
    ];
    for column in columns {
        let base = Schema::new(vec![key_field("k", column.data_type().clone(), 1)]);
        let ingest = Ingest::new(&base, limits()).unwrap();
        let prepared = ingest.rows(RecordBatch::try_from_iter([("k", column.clone())]).unwrap()).unwrap();
        let (schema, key) = (ingest.schema().clone(), ingest.key().cloned());
        let charge = headwater_engine::budget::MemoryBudget::new(1 << 30).charge(0);
        let mut memtable = headwater_engine::memtable::Memtable::new(
            headwater_format::coord::Generation::new(1),
            schema,
            key,
            Seq::new(1),
            Vec::new(),
            charge,
        );
        memtable.append(&prepared).unwrap();
        assert_eq!(memtable.distinct_keys(), column.len(), "{}", column.data_type());
        memtable.append(&prepared).unwrap();
        assert_eq!(memtable.distinct_keys(), column.len(), "{}", column.data_type());
    }
}

#[test]
fn a_batch_of_no_rows_is_accepted_and_changes_nothing() {
    let table = Table::new(Key::Int);
    let prepared = table.rows(&[]);
    assert!(prepared.is_empty());
    let mut memtable = table.memtable(1, 5);
    let offsets = memtable.append(&prepared).unwrap();
    assert!(offsets.is_empty());
    assert!(memtable.is_empty() && memtable.end_seq() == Seq::new(5));
    assert!(table.deletes(&[]).is_empty());
}

#[test]
fn rows_of_a_wal_entry_come_back_as_they_were_prepared() {
    let table = Table::new(Key::Text);
    let put = table.rows(&[(1, "a"), (2, "b")]);
    let delete = table.deletes(&[1]);
    let both =
        arrow_select::concat::concat_batches(table.ingest.schema(), [&put.batch, &delete.batch]).unwrap();
    let stored = table.ingest.stored(both).unwrap();
    assert_eq!(table.read(std::slice::from_ref(&stored.batch)), vec![row(1, "a"), row(2, "b"), gone(1)]);
    assert_eq!(stored.key_bytes, put.key_bytes + delete.key_bytes);
    let mut memtable = table.memtable(1, 1);
    memtable.append(&stored).unwrap();
    assert_eq!(table.read(&memtable.view().live(Seq::new(4)).unwrap()), vec![row(2, "b")]);
}

#[test]
fn stored_rows_without_a_tombstone_column_are_no_deletes() {
    let table = Table::new(Key::Int);
    let prepared = table.rows(&[(1, "a")]);
    let bare = prepared.batch.project(&[0, 1]).unwrap();
    let stored = table.ingest.stored(bare).unwrap();
    assert_eq!(table.read(&[stored.batch]), vec![row(1, "a")]);
}

#[test]
fn stored_rows_of_another_schema_are_refused_by_name() {
    let table = Table::new(Key::Int);
    let other = RecordBatch::try_from_iter([("id", ints(&[1])), ("worth", texts(&[Some("a")]))]).unwrap();
    let error = table.ingest.stored(other).unwrap_err().to_string();
    assert!(error.contains("another schema") && error.contains("worth"), "{error}");
}

#[test]
fn a_table_of_key_columns_only_can_be_deleted_from() {
    let base = Schema::new(vec![key_field("id", DataType::Int64, 1)]);
    let ingest = Ingest::new(&base, limits()).unwrap();
    let batch = RecordBatch::try_from_iter([("id", ints(&[1]))]).unwrap();
    assert_eq!(ingest.deletes(batch).unwrap().batch.num_columns(), 2);
}

#[test]
fn a_batch_without_columns_is_refused_for_the_missing_key() {
    let options = RecordBatchOptions::new().with_row_count(Some(3));
    let empty = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).unwrap();
    let error = ingest().rows(empty).unwrap_err().to_string();
    assert!(error.contains("\"id\" is missing"), "{error}");
}
