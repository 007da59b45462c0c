//! Which keys there are, and their encodings. `tests/all/goldens.rs` compares with the reference type by
//! type.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash};
use std::sync::Arc;

use arrow_array::{
    BinaryArray, BooleanArray, Int32Array, Int64Array, LargeBinaryArray, StringArray, UInt16Array,
};
use proptest::prelude::*;

use super::*;

fn marked(name: &str, data_type: DataType, marker: &str, value: &str) -> Field {
    Field::new(name, data_type, false).with_metadata(HashMap::from([(marker.to_owned(), value.to_owned())]))
}

fn at(name: &str, data_type: DataType, position: &str) -> Field {
    marked(name, data_type, KEY_POSITION, position)
}

fn legacy(name: &str, id: &str) -> Field {
    let metadata = [(KEY_LEGACY, "true"), (FIELD_ID, id)];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Field::new(name, DataType::Int8, false).with_metadata(metadata.into())
}

fn key_of(fields: Vec<Field>) -> Result<Option<KeySchema>, KeyError> {
    KeySchema::from_schema(&Schema::new(fields))
}

fn names(key: &KeySchema) -> Vec<(&str, usize)> {
    key.columns().iter().map(|column| (column.name.as_str(), column.index)).collect()
}

#[test]
fn a_schema_without_marks_has_no_key() {
    assert_eq!(key_of(vec![Field::new("a", DataType::Int64, false)]), Ok(None));
    assert_eq!(key_of(vec![marked("a", DataType::Int64, KEY_LEGACY, "false")]), Ok(None));
    assert_eq!(key_of(Vec::new()), Ok(None));
}

#[test]
fn places_order_the_key_and_older_marks_follow_by_field_id() {
    let key = key_of(vec![
        legacy("d", "9"),
        at("b", DataType::Utf8, "2"),
        Field::new("v", DataType::Int8, true),
        legacy("c", "3"),
        at("a", DataType::Int64, "1"),
    ]);
    let key = key.unwrap().unwrap();
    assert_eq!(names(&key), [("a", 4), ("b", 1), ("c", 3), ("d", 0)]);
    assert_eq!(key.single(), None);
    let single = key_of(vec![legacy("d", "9")]).unwrap().unwrap();
    assert_eq!(single.single().map(|column| column.key_type), Some(KeyType::Int8));
}

#[test]
fn places_must_be_one_two_three() {
    let refused = |positions: &[&str]| {
        let fields = positions.iter().enumerate();
        let fields = fields.map(|(n, position)| at(&format!("c{n}"), DataType::Int8, position)).collect();
        match key_of(fields) {
            Err(KeyError::Position { column, position, .. }) => (column, position),
            other => panic!("{positions:?} gave {other:?}"),
        }
    };
    assert_eq!(refused(&["2"]), ("c0".to_owned(), "2".to_owned()));
    assert_eq!(refused(&["1", "3"]), ("c1".to_owned(), "3".to_owned()));
    assert_eq!(refused(&["1", "2", "1"]), ("c2".to_owned(), "1".to_owned()));
    for position in ["0", "-1", "one", "", "01"] {
        assert_eq!(refused(&[position]).1, position);
    }
}

#[test]
fn a_nullable_nested_or_unsupported_column_is_no_key() {
    let nullable = at("a", DataType::Int8, "1").with_nullable(true);
    assert_eq!(key_of(vec![nullable]), Err(KeyError::Nullable { column: "a".to_owned() }));
    let inner = at("x", DataType::Int8, "1");
    let outer = Field::new("s", DataType::Struct(vec![inner.clone()].into()), false);
    assert_eq!(key_of(vec![outer]), Err(KeyError::Nested { column: "s.x".to_owned() }));
    let list = Field::new("l", DataType::List(Arc::new(inner.clone())), false);
    assert_eq!(key_of(vec![list]), Err(KeyError::Nested { column: "l.x".to_owned() }));
    let whole = at("s", DataType::Struct(vec![Field::new("x", DataType::Int8, false)].into()), "1");
    assert_eq!(key_of(vec![whole]), Err(KeyError::Nested { column: "s".to_owned() }));
    for data_type in [DataType::Float64, DataType::Date32, DataType::Utf8View, DataType::FixedSizeBinary(4)] {
        let found = key_of(vec![at("a", data_type.clone(), "1")]);
        assert_eq!(found, Err(KeyError::UnsupportedType { column: "a".to_owned(), data_type }));
    }
}

fn two_columns() -> (KeySchema, RecordBatch) {
    let fields = vec![
        at("n", DataType::UInt16, "2"),
        Field::new("v", DataType::Int32, true),
        at("t", DataType::Utf8, "1"),
    ];
    let schema = Arc::new(Schema::new(fields));
    let key = KeySchema::from_schema(&schema).unwrap().unwrap();
    let numbers = Arc::new(UInt16Array::from(vec![7, 65_535]));
    let values = Arc::new(Int32Array::from(vec![None, Some(1)]));
    let texts = Arc::new(StringArray::from(vec!["a\0b", ""]));
    (key, RecordBatch::try_new(schema, vec![numbers, values, texts]).unwrap())
}

#[test]
fn a_projection_has_the_key_alone_in_key_order() {
    let (key, batch) = two_columns();
    let projected = key.project(&batch).unwrap();
    assert_eq!(projected.schema(), *key.schema());
    assert_eq!(projected.column(0), batch.column(2));
    assert_eq!(projected.column(1), batch.column(0));
    assert_eq!(key.project(&projected).unwrap(), projected, "columns are found by name");
    assert_eq!(key.encode(&projected), key.encode(&batch));
    assert_eq!(key.hashes(&projected), key.hashes(&batch));
}

#[test]
fn encoded_bytes_are_those_of_the_format() {
    let (key, batch) = two_columns();
    let encoded = key.encode(&batch).unwrap();
    assert_eq!(encoded.value(0), b"\x01a\0\xffb\0\0\x01\0\0\0\0\0\0\0\x07");
    assert_eq!(encoded.value(1), b"\x01\0\0\x01\0\0\0\0\0\0\xff\xff");
}

#[test]
fn hashes_are_those_of_rusts_default_hasher_over_null_mark_and_value() {
    let (key, batch) = two_columns();
    let expected = [("a\0b", 7_u16), ("", 65_535)].map(|(text, number)| {
        let mut hasher = DefaultHasher::new();
        false.hash(&mut hasher);
        text.hash(&mut hasher);
        false.hash(&mut hasher);
        number.hash(&mut hasher);
        hasher.finish()
    });
    assert_eq!(key.hashes(&batch).unwrap(), expected);
    // The same as numbers, should Rust ever change its default.
    assert_eq!(expected, [10_589_708_267_626_725_908, 17_645_913_900_163_113_976]);
}

#[test]
fn a_batch_that_lacks_key_values_is_told_where() {
    let (key, batch) = two_columns();
    let missing = batch.project(&[0, 1]).unwrap();
    assert_eq!(key.encode(&missing), Err(KeyError::Missing { column: "t".to_owned() }));
    let schema = |data_type, nullable| {
        let text = Field::new("t", DataType::Utf8, true);
        Arc::new(Schema::new(vec![Field::new("n", data_type, nullable), text]))
    };
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]));
    let numbers: ArrayRef = Arc::new(UInt16Array::from(vec![1, 2, 3]));
    let null =
        RecordBatch::try_new(schema(DataType::UInt16, true), vec![numbers, Arc::clone(&texts)]).unwrap();
    let expected = KeyError::Null { column: "t".to_owned(), row: 2 };
    assert_eq!(key.encode(&null), Err(expected.clone()));
    assert_eq!(key.hashes(&null), Err(expected.clone()));
    assert_eq!(key.project(&null), Err(expected));
    assert!(key.project(&null.slice(0, 2)).is_ok(), "no null in the rows asked for");
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let wrong = RecordBatch::try_new(schema(DataType::Int64, false), vec![wide, texts.slice(0, 2)]).unwrap();
    let (expected, found) = (DataType::UInt16, DataType::Int64);
    assert_eq!(key.hashes(&wrong), Err(KeyError::WrongType { column: "n".to_owned(), expected, found }));
}

type Row = (i64, bool, Vec<u8>, String);

fn four_columns(rows: &[Row]) -> (KeySchema, RecordBatch) {
    let schema = Arc::new(Schema::new(vec![
        at("i", DataType::Int64, "1"),
        at("f", DataType::Boolean, "2"),
        at("b", DataType::LargeBinary, "3"),
        at("t", DataType::Utf8, "4"),
    ]));
    let key = KeySchema::from_schema(&schema).unwrap().unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.1)).collect::<BooleanArray>()),
        Arc::new(rows.iter().map(|row| Some(row.2.as_slice())).collect::<LargeBinaryArray>()),
        Arc::new(rows.iter().map(|row| Some(row.3.as_str())).collect::<StringArray>()),
    ];
    (key, RecordBatch::try_new(schema, columns).unwrap())
}

fn row() -> impl Strategy<Value = Row> {
    let int = prop_oneof![-2_i64..2, any::<i64>()];
    let bytes = prop::collection::vec(prop_oneof![Just(0), Just(1), Just(0xff), any::<u8>()], 0..4);
    (int, any::<bool>(), bytes, "[\\x00a-bé]{0,3}")
}

proptest! {
    #[test]
    fn encoded_keys_give_their_values_back(rows in prop::collection::vec(row(), 0..20)) {
        let (key, batch) = four_columns(&rows);
        let encoded = key.encode(&batch).unwrap();
        for (place, column) in batch.columns().iter().enumerate() {
            prop_assert_eq!(&key.decode(place, encoded.iter().flatten()).unwrap(), column);
        }
    }

    #[test]
    fn bytes_that_are_no_encoded_key_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..8)) {
        // Too short for four columns whatever they are.
        let (key, _) = four_columns(&[]);
        prop_assert!(key.decode(3, [bytes.as_slice()]).is_none());
    }

    #[test]
    fn encoded_keys_order_and_differ_as_the_keys_do(rows in prop::collection::vec(row(), 2..20)) {
        let (key, batch) = four_columns(&rows);
        let encoded: BinaryArray = key.encode(&batch).unwrap();
        for (n, one) in rows.iter().enumerate() {
            for (m, other) in rows.iter().enumerate() {
                prop_assert_eq!(encoded.value(n).cmp(encoded.value(m)), one.cmp(other));
            }
        }
    }

    #[test]
    fn equal_keys_hash_alike_wherever_they_stand(
        rows in prop::collection::vec(row(), 1..10),
        twice in 0_usize..10,
    ) {
        let mut rows = rows;
        let twice = twice % rows.len();
        rows.push(rows[twice].clone());
        let (key, batch) = four_columns(&rows);
        let hashes = key.hashes(&batch).unwrap();
        prop_assert_eq!(hashes[twice], hashes[rows.len() - 1]);
        prop_assert_eq!(&key.hashes(&batch.slice(twice, 1)).unwrap(), &hashes[twice..=twice]);
    }
}
