//! What the storage schema is, and what counts as a difference from it.

use arrow_array::{Array, Int64Array, StringArray, StructArray};

use super::*;

fn with(field: Field, metadata: &[(&str, &str)]) -> Field {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    field.with_metadata(metadata)
}

fn base() -> Schema {
    let point = Fields::from(vec![
        with(Field::new("x", DataType::Float32, false), &[(FIELD_ID, "4")]),
        with(Field::new("y", DataType::Float32, true), &[(FIELD_ID, "5")]),
    ]);
    let item = Arc::new(with(Field::new("item", DataType::Int32, true), &[(FIELD_ID, "7")]));
    Schema::new_with_metadata(
        vec![
            with(Field::new("name", DataType::Utf8, false), &[(FIELD_ID, "1")]),
            with(Field::new("id", DataType::Int64, false), &[(FIELD_ID, "0"), (KEY_POSITION, "1")]),
            with(Field::new("score", DataType::Float64, true), &[(FIELD_ID, "2"), ("unit", "points")]),
            with(Field::new("at", DataType::Struct(point), false), &[(FIELD_ID, "3")]),
            with(Field::new("tags", DataType::List(item), true), &[(FIELD_ID, "6")]),
        ],
        HashMap::from([("owner".to_owned(), "tests".to_owned())]),
    )
}

fn edit(schema: &Schema, index: usize, change: impl FnOnce(Field) -> Field) -> Schema {
    let mut fields: Vec<FieldRef> = schema.fields().to_vec();
    fields[index] = Arc::new(change(fields[index].as_ref().clone()));
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

#[test]
fn storage_makes_room_for_deletes_and_changes_nothing_else() {
    let (base, storage) = (base(), storage_schema(&base()).unwrap());
    assert_eq!(storage.metadata(), base.metadata());
    let nullable: Vec<bool> = storage.fields().iter().map(|field| field.is_nullable()).collect();
    assert_eq!(nullable, [true, false, true, true, true, false]);
    for (one, other) in base.fields().iter().zip(storage.fields()) {
        let other = other.as_ref().clone().with_nullable(one.is_nullable());
        assert_eq!(one.as_ref(), &other, "children and metadata stay");
    }
    let tombstone = storage.field(5);
    assert_eq!((tombstone.name().as_str(), tombstone.data_type()), (TOMBSTONE, &DataType::Boolean));
    assert_eq!(tombstone.metadata().get(TOMBSTONE_MARK).map(String::as_str), Some("1"));
    assert_eq!(tombstone.metadata().get(REQUIRED).map(String::as_str), Some("0,3"));
}

#[test]
fn the_logical_schema_is_the_base_again() {
    assert_eq!(logical_schema(&storage_schema(&base()).unwrap()).as_ref(), &base());
    let all_nullable = Schema::new(vec![Field::new("line", DataType::Utf8, true)]);
    let storage = storage_schema(&all_nullable).unwrap();
    assert_eq!(storage.field(1).metadata().get(REQUIRED), None);
    assert_eq!(logical_schema(&storage).as_ref(), &all_nullable);
    let foreign = edit(&storage_schema(&base()).unwrap(), 5, |field| field.with_metadata(HashMap::new()));
    assert!(logical_schema(&foreign).field(0).is_nullable(), "what the reference wrote does not say");
    let senseless = edit(&foreign, 5, |field| with(field, &[(REQUIRED, "1,x,,99")]));
    assert_eq!(logical_schema(&senseless).fields().len(), 5);
}

#[test]
fn a_base_that_uses_our_names_is_refused() {
    let tombstone = Schema::new(vec![Field::new(TOMBSTONE, DataType::Boolean, false)]);
    assert_eq!(storage_schema(&tombstone), Err(SchemaError::ReservedColumn { column: TOMBSTONE.to_owned() }));
    let twice = Schema::new(["a", "b", "a"].map(|name| Field::new(name, DataType::Int8, true)).to_vec());
    assert_eq!(storage_schema(&twice), Err(SchemaError::DuplicateColumn { column: "a".to_owned() }));
    for key in wal_entry::RESERVED_METADATA {
        let metadata = HashMap::from([(key.to_owned(), "1".to_owned())]);
        let reserved = base().with_metadata(metadata);
        assert_eq!(storage_schema(&reserved), Err(SchemaError::ReservedMetadata { key: key.to_owned() }));
    }
    let bad_key = edit(&base(), 1, |field| field.with_nullable(true));
    assert_eq!(
        storage_schema(&bad_key),
        Err(SchemaError::Key(KeyError::Nullable { column: "id".to_owned() }))
    );
}

#[test]
fn field_and_schema_metadata_and_a_missing_tombstone_are_no_difference() {
    let storage = storage_schema(&base()).unwrap();
    assert_eq!(schema_difference(&storage, &storage), None);
    let other = edit(&storage, 2, |field| with(field, &[(FIELD_ID, "2"), ("unit", "metres")]));
    assert_eq!(schema_difference(&storage, &other), None);
    let without_ids = edit(&storage, 0, |field| field.with_metadata(HashMap::new()));
    assert_eq!(schema_difference(&storage, &without_ids), None);
    let own_id = edit(&storage, 5, |field| with(field, &[(FIELD_ID, "8")]));
    assert_eq!(schema_difference(&own_id, &edit(&own_id, 5, |field| with(field, &[(FIELD_ID, "9")]))), None);
    let fields: Vec<FieldRef> = storage.fields().iter().take(5).cloned().collect();
    assert_eq!(schema_difference(&storage, &Schema::new(fields)), None);
}

#[test]
fn the_first_difference_is_told() {
    let storage = storage_schema(&base()).unwrap();
    let told = |other: &Schema| schema_difference(&storage, other).unwrap();
    let renamed = edit(&storage, 0, |field| field.with_name("title"));
    assert_eq!(told(&renamed), "column title where the table has name");
    let retyped = edit(&storage, 2, |field| field.with_data_type(DataType::Float32));
    assert_eq!(told(&retyped), "column score has type Float32, in the table Float64");
    let required = edit(&storage, 2, |field| field.with_nullable(false));
    assert_eq!(told(&required), "column score is not null, in the table nullable");
    let moved = edit(&storage, 2, |field| with(field, &[(FIELD_ID, "9")]));
    assert_eq!(told(&moved), "column score has field id 9, in the table 2");
    let shorter = Schema::new(storage.fields().iter().take(3).cloned().collect::<Vec<_>>());
    assert_eq!(told(&shorter), "column at is missing");
    let mut fields: Vec<FieldRef> = storage.fields().to_vec();
    fields.push(Arc::new(Field::new("more", DataType::Int8, true)));
    assert_eq!(told(&Schema::new(fields)), "column more is not in the table");
}

#[test]
fn differences_inside_nested_columns_are_told() {
    let storage = storage_schema(&base()).unwrap();
    let told = |other: &Schema| schema_difference(&storage, other).unwrap();
    let one_child = Fields::from(vec![Field::new("x", DataType::Float32, false)]);
    let fewer = edit(&storage, 3, |field| field.with_data_type(DataType::Struct(one_child)));
    assert_eq!(told(&fewer), "column at.y is missing");
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let retyped = edit(&storage, 4, |field| field.with_data_type(DataType::List(item)));
    assert_eq!(told(&retyped), "column tags.item has type Int64, in the table Int32");
    let item = Arc::new(with(Field::new("item", DataType::Int32, true), &[(FIELD_ID, "70")]));
    let moved = edit(&storage, 4, |field| field.with_data_type(DataType::List(item)));
    assert_eq!(told(&moved), "column tags.item has field id 70, in the table 7");
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let without_ids = edit(&storage, 4, |field| field.with_data_type(DataType::List(item.clone())));
    assert_eq!(schema_difference(&storage, &without_ids), None);
    let large = edit(&storage, 4, |field| field.with_data_type(DataType::LargeList(item)));
    assert!(told(&large).starts_with("column tags has type LargeList"), "{}", told(&large));
}

#[test]
fn a_batch_without_tombstones_is_brought_to_storage() {
    let key = with(Field::new("id", DataType::Int64, false), &[(FIELD_ID, "0"), (KEY_POSITION, "1")]);
    let inner = with(Field::new("x", DataType::Utf8, true), &[(FIELD_ID, "2")]);
    let nested = Field::new("s", DataType::Struct(vec![inner].into()), true);
    let storage = storage_schema(&Schema::new(vec![key.clone(), nested])).unwrap();

    let plain = Field::new("x", DataType::Utf8, true);
    let texts = StringArray::from(vec![Some("a"), None]);
    let column = StructArray::new(vec![plain].into(), vec![Arc::new(texts)], None);
    let schema = Schema::new(vec![key, Field::new("s", column.data_type().clone(), true)]);
    let ids = Int64Array::from(vec![1, 2]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(column)]).unwrap();

    let stored = to_storage(&batch, &storage).unwrap();
    assert_eq!(stored.schema_ref(), &storage);
    let tombstones = stored.column(2).as_any().downcast_ref::<BooleanArray>().unwrap();
    assert_eq!((tombstones.len(), tombstones.true_count(), tombstones.null_count()), (2, 0, 0));
    assert_eq!(to_storage(&stored, &storage).unwrap(), stored, "nothing to do the second time");
    let short = batch.project(&[0]).unwrap();
    let error = to_storage(&short, &storage).unwrap_err();
    assert_eq!(error.to_string(), "schema differs: column s is missing");
}
