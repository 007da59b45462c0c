//! New tables, and keys for tables that have none.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatchIterator, StringArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_format::schema::{FIELD_ID, KEY_POSITION};
use headwater_lance::{LanceTable, Sharding};
use lance::Dataset;
use lance::dataset::WriteParams;

use crate::support::*;

#[tokio::test]
async fn a_new_table_has_its_key_marked_in_key_order_and_not_null() {
    let place = Place::new();
    let schema = Schema::new(vec![
        Field::new("a", DataType::Utf8, true),
        Field::new("b", DataType::Int32, true),
        Field::new("c", DataType::Float64, true),
    ]);
    let table = place.table(&schema, &["b", "a"]).await;
    let key: Vec<&str> = table.key().unwrap().columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(key, ["b", "a"]);
    let found = table.schema();
    let marks: Vec<Option<&String>> =
        found.fields().iter().map(|field| field.metadata().get(KEY_POSITION)).collect();
    assert_eq!(marks, [Some(&"2".to_owned()), Some(&"1".to_owned()), None]);
    let nullable: Vec<bool> = found.fields().iter().map(|field| field.is_nullable()).collect();
    assert_eq!(nullable, [false, false, true]);
    assert_eq!(found.field(2).metadata()[FIELD_ID], "2");
    let dataset = place.dataset().await;
    assert_eq!(dataset.count_rows(None).await.unwrap(), 0);
    assert_eq!(dataset.schema().unenforced_primary_key()[0].name, "b");
    assert!(table.mem_wal().await.unwrap().is_none());
}

#[tokio::test]
async fn creating_over_an_existing_table_is_refused() {
    let place = Place::new();
    place.table(&id_value_schema(), &["id"]).await;
    let again =
        LanceTable::create(&place.uri(), &id_value_schema(), &names(&["id"]), &options(), env()).await;
    let reason = invalid(again);
    assert!(reason.contains("already"), "{reason}");
}

#[tokio::test]
async fn a_schema_that_cannot_have_a_write_tier_is_refused_and_nothing_is_created() {
    let place = Place::new();
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    let blob = field("blob", DataType::LargeBinary)
        .with_metadata([("lance-encoding:blob".to_owned(), "true".to_owned())].into());
    let cases: Vec<(Vec<Field>, &[&str], &str)> = vec![
        (vec![field("a", DataType::Int64)], &["b"], "\"b\" is not in the table"),
        (vec![field("a", DataType::Int64)], &["a", "a"], "named twice"),
        (vec![field("a", DataType::Float64)], &["a"], "Float64"),
        (vec![field("a", DataType::Int64), field("_tombstone", DataType::Boolean)], &["a"], "_tombstone"),
        (vec![field("a", DataType::Int64), field("_rowid", DataType::UInt64)], &["a"], "_rowid"),
        (vec![field("a", DataType::Int64), blob], &["a"], "blob"),
    ];
    for (fields, key, expected) in cases {
        let created =
            LanceTable::create(&place.uri(), &Schema::new(fields), &names(key), &options(), env()).await;
        let reason = invalid(created);
        assert!(reason.contains(expected), "{reason}");
    }
    assert!(std::fs::read_dir(place.dir.path()).unwrap().next().is_none());
}

/// An ordinary table as any tool would have written it: all columns nullable, no key.
async fn ordinary_table(place: &Place, ids: Vec<Option<i64>>) {
    let id: ArrayRef = Arc::new(Int64Array::from(ids));
    let value: ArrayRef = Arc::new(StringArray::from(vec!["x"; id.len()]));
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("value", DataType::Utf8, true),
    ]));
    let rows = arrow_array::RecordBatch::try_new(Arc::clone(&schema), vec![id, value]).unwrap();
    Dataset::write(RecordBatchIterator::new([Ok(rows)], schema), &place.uri(), None::<WriteParams>)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_existing_table_gets_a_key_and_then_a_write_tier() {
    let place = Place::new();
    ordinary_table(&place, vec![Some(1), Some(2), Some(2)]).await;
    let table = LanceTable::set_key(&place.uri(), &names(&["id"]), &options(), env()).await.unwrap();
    assert_eq!(table.key().unwrap().columns()[0].name, "id");
    assert!(!table.schema().field(0).is_nullable());
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let dataset = place.dataset().await;
    assert_eq!(dataset.count_rows(None).await.unwrap(), 3, "rows that share a key stay");
    dataset.validate().await.unwrap();

    let again = LanceTable::set_key(&place.uri(), &names(&["id"]), &options(), env()).await.unwrap();
    assert_eq!(again.key(), table.key());
    assert_eq!(place.dataset().await.version_id(), dataset.version_id(), "the same key changes nothing");
    let reason = invalid(LanceTable::set_key(&place.uri(), &names(&["value"]), &options(), env()).await);
    assert!(reason.contains("has the key (id) already"), "{reason}");
}

#[tokio::test]
async fn a_key_column_with_nulls_is_refused_with_the_row() {
    let place = Place::new();
    ordinary_table(&place, vec![Some(1), Some(2), None]).await;
    let version = place.dataset().await.version_id();
    let reason = invalid(LanceTable::set_key(&place.uri(), &names(&["id"]), &options(), env()).await);
    assert!(reason.contains("\"id\" is null in row 2"), "{reason}");
    let reason = invalid(LanceTable::set_key(&place.uri(), &names(&["nope"]), &options(), env()).await);
    assert!(reason.contains("\"nope\" is not in the table"), "{reason}");
    assert_eq!(place.dataset().await.version_id(), version);
}

#[tokio::test]
async fn a_table_with_an_append_only_write_tier_gets_no_key_any_more() {
    let place = Place::new();
    ordinary_table(&place, vec![Some(1)]).await;
    place.open().await.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let reason = invalid(LanceTable::set_key(&place.uri(), &names(&["id"]), &options(), env()).await);
    assert!(reason.contains("append-only"), "{reason}");
}
