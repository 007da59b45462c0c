//! Columns are known by field id, and another schema than the base's is refused.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_engine::table::{TableError, TableIo};
use headwater_format::schema::FIELD_ID;
use headwater_lance::Sharding;
use lance::dataset::NewColumnTransform;

use crate::hurdles::Hurdles;
use crate::support::*;

fn three_columns() -> Schema {
    Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Utf8, true),
    ])
}

fn a_and_c() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let c: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    batch(vec![("a", a), ("c", c)])
}

/// Regression: lance#9143.
#[tokio::test]
async fn a_generation_keeps_the_field_ids_of_the_base_after_a_column_was_dropped() {
    let place = Place::new();
    place.table(&three_columns(), &["a"]).await;
    place.dataset().await.drop_columns(&["b"]).await.unwrap();
    let table = place.open().await;
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let field_ids = |schema: &Schema| -> Vec<String> {
        schema.fields().iter().map(|field| field.metadata()[FIELD_ID].clone()).collect()
    };
    assert_eq!(field_ids(&table.schema()), ["0", "2"]);

    write(&table, &frozen(&table, vec![Step::Rows(a_and_c())])).await.unwrap();
    let dataset = plain_dataset(&place).await;
    assert_eq!(dataset.schema().field_ids(), [0, 2, 3], "_tombstone has the id after the largest");
    dataset.validate().await.unwrap();
    let rows = cells(&scan_plain(&dataset).await, &["a", "c"]);
    assert_eq!(rows, [row(&["1", "x"]), row(&["2", "y"])]);
    let reader = table.open_sstable(shard(), &sstable()).await.unwrap();
    assert_eq!(cells(&reader.scan().await.unwrap(), &["a", "c"]), [row(&["1", "x"]), row(&["2", "y"])]);
}

#[tokio::test]
async fn nested_fields_carry_their_ids_too() {
    let place = Place::new();
    let inner = Field::new("text", DataType::Utf8, true);
    let item = Field::new("item", DataType::Struct(vec![inner].into()), true);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("list", DataType::List(Arc::new(item)), true),
        Field::new("last", DataType::Int64, true),
    ]);
    let table = place.table(&schema, &["id"]).await;
    let schema = table.schema();
    let DataType::List(item) = schema.field(1).data_type() else { panic!("a list") };
    let DataType::Struct(children) = item.data_type() else { panic!("a struct") };
    let ids = [schema.field(0), schema.field(1), item, &children[0], schema.field(2)]
        .map(|field| field.metadata()[FIELD_ID].clone());
    assert_eq!(ids, ["0", "1", "2", "3", "4"]);
}

#[tokio::test]
async fn a_generation_frozen_before_a_column_was_added_is_refused() {
    let place = Place::new();
    let table = place.table(&three_columns(), &["a"]).await;
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let frozen = frozen(&table, vec![Step::Rows(a_and_c())]);
    write(&table, &frozen).await.unwrap();

    add_column_d(&place).await;
    let base = table.base().await.unwrap();
    assert_eq!(base.schema.fields().len(), 4);
    let refused = table.write_sstable(shard(), "00000001_gen_1", &frozen).await;
    assert!(
        refused.as_ref().is_err_and(|error| !error.is_retryable()),
        "trying again is no use: {refused:?}"
    );
    let reason = refused.unwrap_err();
    assert!(matches!(reason, TableError::SchemaChanged { .. }), "{reason}");
    let reason = reason.to_string();
    assert!(reason.contains("has not the schema") && reason.contains('d'), "{reason}");
    assert_eq!(table.list_generations(shard()).await.unwrap(), [name()]);
    let reason = schema_changed(place.open().await.open_sstable(shard(), &sstable()).await);
    assert!(reason.contains("has not the schema") && reason.contains('d'), "{reason}");
}

async fn add_column_d(place: &Place) {
    let new = Arc::new(Schema::new(vec![Field::new("d", DataType::Int64, true)]));
    place.dataset().await.add_columns(NewColumnTransform::AllNulls(new), None, None).await.unwrap();
}

#[tokio::test]
async fn a_generation_of_a_newer_schema_than_the_one_held_is_written() {
    let place = Place::new();
    let holds_the_old_one = place.table(&three_columns(), &["a"]).await;
    holds_the_old_one.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    add_column_d(&place).await;
    let newer = place.open().await;
    let frozen = frozen(&newer, vec![Step::Rows(a_and_c())]);
    write(&holds_the_old_one, &frozen).await.unwrap();
    let reader = holds_the_old_one.open_sstable(shard(), &sstable()).await.unwrap();
    assert_eq!(cells(&reader.scan().await.unwrap(), &["a", "d"]), [row(&["1", ""]), row(&["2", ""])]);
}

#[tokio::test]
async fn a_version_that_was_read_late_does_not_take_the_place_of_a_newer_one() {
    let place = Place::new();
    place.table(&three_columns(), &["a"]).await.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let hurdles = Hurdles::default();
    let table = hurdles.table(&place).await;
    let frozen = frozen(&table, vec![Step::Rows(a_and_c())]);
    let of_the_old_schema = place.open().await;
    place.dataset().await.update_config([("a", "version in between")]).await.unwrap();

    hurdles.hold_read(".manifest");
    let meanwhile = async {
        hurdles.reached().await;
        add_column_d(&place).await;
        table.mem_wal().await.unwrap();
        hurdles.release();
    };
    let (late, ()) = futures::join!(table.mem_wal(), meanwhile);
    late.unwrap();

    write(&of_the_old_schema, &frozen).await.unwrap();
    let reason = schema_changed(table.open_sstable(shard(), &sstable()).await);
    assert!(reason.contains("has not the schema") && reason.contains('d'), "{reason}");
}

#[tokio::test]
async fn schema_metadata_of_the_base_is_the_shards_schema_metadata() {
    let place = Place::new();
    let metadata = [("embedding_functions".to_owned(), "[]".to_owned())].into();
    let schema = three_columns().with_metadata(metadata);
    let table = place.table(&schema, &["a"]).await;
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    assert_eq!(table.base().await.unwrap().schema.metadata(), schema.metadata());
    write(&table, &frozen(&table, vec![Step::Rows(a_and_c())])).await.unwrap();
    assert_eq!(&plain_dataset(&place).await.schema().metadata, schema.metadata());
}
