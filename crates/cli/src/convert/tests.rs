#![allow(clippy::unwrap_used)]

use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder};
use arrow_array::{Int32Array, Int64Array, StringArray, TimestampSecondArray};
use arrow_schema::TimeUnit::{Millisecond, Nanosecond, Second};

use super::*;

#[test]
fn integers_fit_where_every_value_has_a_place() {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let fitting = [(Int32, Int64), (UInt8, UInt64), (UInt32, Int64), (Int16, Float32), (UInt32, Float64)];
    for (from, to) in fitting {
        assert!(fits(&from, &to), "{from} fits {to}");
    }
    let losing = [
        (Int64, Int32),
        (Int8, UInt64),
        (UInt64, Int64),
        (Int32, Float32),
        (Int64, Float64),
        (UInt16, Int16),
    ];
    for (from, to) in losing {
        assert!(!fits(&from, &to), "{from} does not fit {to}");
    }
}

#[test]
fn text_and_numbers_never_fit_each_other() {
    assert!(!fits(&DataType::Utf8, &DataType::Int64));
    assert!(!fits(&DataType::Int64, &DataType::Utf8));
    assert!(!fits(&DataType::Float64, &DataType::Int64));
}

#[test]
fn timestamps_fit_finer_units_of_the_same_zone_only() {
    let of = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
    assert!(fits(&of(Second, None), &of(Nanosecond, None)));
    assert!(!fits(&of(Nanosecond, None), &of(Millisecond, None)));
    assert!(!fits(&of(Second, Some("UTC")), &of(Second, None)));
}

#[test]
fn lists_fit_by_their_elements() {
    let list = |item: DataType| DataType::List(Arc::new(Field::new("element", item, true)));
    let vector = DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), 4);
    assert!(fits(&list(DataType::Float32), &vector));
    assert!(!fits(&list(DataType::Float64), &vector));
}

fn map(keys: &str, value: DataType, id: Option<&str>) -> DataType {
    let field = |name: &str, to, nullable| {
        let metadata = id.map(|id| ("lance:field_id".to_owned(), id.to_owned()));
        Field::new(name, to, nullable).with_metadata(metadata.into_iter().collect())
    };
    let entry = vec![field(keys, DataType::Utf8, false), field("value", value, true)];
    DataType::Map(Arc::new(field("entries", DataType::Struct(entry.into()), false)), false)
}

#[test]
fn maps_fit_by_their_keys_and_values_whatever_names_and_metadata_their_fields_have() {
    let plain = map("key", DataType::Int64, None);
    assert!(fits(&plain, &map("key", DataType::Int64, Some("7"))));
    assert!(fits(&map("keys", DataType::Int32, None), &map("key", DataType::Int64, Some("7"))));
    assert!(!fits(&plain, &map("key", DataType::Int32, None)));
}

#[test]
fn a_map_arrives_as_the_tables_type() {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    builder.keys().append_value("a");
    builder.values().append_value(1);
    builder.append(true).unwrap();
    builder.append(false).unwrap();
    let column: ArrayRef = Arc::new(builder.finish());
    let to = map("key", DataType::Int64, Some("7"));
    let table = Schema::new(vec![Field::new("tags", to.clone(), true)]);
    let batch = RecordBatch::try_from_iter([("tags", column)]).unwrap();
    let fit = Fit::new(&"rows.parquet".into(), &batch.schema(), &table).unwrap();
    let rows = fit.apply(&batch, 0).unwrap();
    assert_eq!(rows.column(0).data_type(), &to);
    assert_eq!((rows.column(0).len(), rows.column(0).null_count()), (2, 1));
}

fn table() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("at", DataType::Timestamp(Nanosecond, None), true),
    ])
}

fn fit(columns: Vec<Field>) -> Result<Fit, InputError> {
    Fit::new(&"flights.parquet".into(), &Schema::new(columns), &table())
}

#[test]
fn a_narrower_integer_column_arrives_as_the_tables_type() {
    let columns = vec![Field::new("name", DataType::Utf8, true), Field::new("id", DataType::Int32, true)];
    let batch = RecordBatch::try_new(
        Arc::new(Schema::new(columns.clone())),
        vec![Arc::new(StringArray::from(vec![Some("a"), None])), Arc::new(Int32Array::from(vec![1, 2]))],
    );
    let rows = fit(columns).unwrap().apply(&batch.unwrap(), 0).unwrap();
    assert_eq!(rows.schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["id", "name"]);
    assert_eq!(rows.column(0).as_ref(), &Int64Array::from(vec![1, 2]));
}

#[test]
fn a_null_in_a_column_that_takes_none_is_named_by_row_and_column() {
    let columns = vec![Field::new("id", DataType::Int64, true)];
    let batch = RecordBatch::try_new(
        Arc::new(Schema::new(columns.clone())),
        vec![Arc::new(Int64Array::from(vec![Some(1), None]))],
    );
    let error = fit(columns).unwrap().apply(&batch.unwrap(), 1000).unwrap_err();
    assert_eq!((error.row, error.column.as_deref()), (Some(1001), Some("id")));
    assert_eq!(error.to_string(), "flights.parquet, row 1002, column id: null, where the table takes none");
}

#[test]
fn a_lossy_type_is_refused_naming_file_column_and_both_types() {
    let error = fit(vec![Field::new("id", DataType::Float64, false)]).unwrap_err().to_string();
    for part in ["flights.parquet", "column id", "Float64", "Int64"] {
        assert!(error.contains(part), "{error} names {part}");
    }
}

#[test]
fn unknown_and_missing_columns_are_refused_by_name() {
    let unknown =
        fit(vec![Field::new("id", DataType::Int64, false), Field::new("nmae", DataType::Utf8, true)]);
    assert_eq!(unknown.unwrap_err().column.as_deref(), Some("nmae"));
    let missing = fit(vec![Field::new("name", DataType::Utf8, true)]);
    assert_eq!(missing.unwrap_err().column.as_deref(), Some("id"));
}

#[test]
fn a_time_out_of_range_in_a_finer_unit_is_an_error_of_its_row() {
    let columns = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("at", DataType::Timestamp(Second, None), true),
    ];
    let batch = RecordBatch::try_new(
        Arc::new(Schema::new(columns.clone())),
        vec![
            Arc::new(Int64Array::from(vec![1, 2])),
            Arc::new(TimestampSecondArray::from(vec![1, i64::MAX / 10])),
        ],
    );
    let error = fit(columns).unwrap().apply(&batch.unwrap(), 0).unwrap_err();
    assert_eq!((error.row, error.column.as_deref()), (Some(1), Some("at")));
}
