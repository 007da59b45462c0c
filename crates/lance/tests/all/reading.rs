//! Reading generations back, and what is said of damaged ones.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::{Generation, RowOffset};
use headwater_format::path::sstable_dir;
use headwater_lance::Sharding;

use crate::support::*;

fn offsets(offsets: &[u32]) -> Vec<RowOffset> {
    offsets.iter().map(|offset| RowOffset::new(*offset)).collect()
}

#[tokio::test]
async fn rows_are_read_by_offset_in_the_order_asked_for_replaced_ones_included() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let steps = vec![Step::Rows(id_value_rows(&[(1, "a"), (2, "b"), (1, "c")])), Step::Deletes(ids(&[2]))];
    let frozen = frozen(&table, steps);
    write(&table, &frozen).await.unwrap();
    let reader = table.open_sstable(shard(), &sstable()).await.unwrap();
    let rows = reader.read_rows(&offsets(&[3, 0, 2, 0])).await.unwrap();
    assert_eq!(&rows.schema(), frozen.schema());
    let expected = [["2", "", "true"], ["1", "a", "false"], ["1", "c", "false"], ["1", "a", "false"]];
    assert_eq!(cells(&[rows], &["id", "value", "_tombstone"]), expected.map(|cells| row(&cells)));
    let none = reader.read_rows(&[]).await.unwrap();
    assert_eq!((none.num_rows(), &none.schema()), (0, frozen.schema()));
    let reason = invalid(reader.read_rows(&offsets(&[4])).await);
    assert!(reason.contains("out of range"), "{reason}");
    assert_eq!(reader.find_keys(&ids(&[])).await.unwrap(), Vec::<Vec<RowOffset>>::new());
    for batch in reader.scan().await.unwrap() {
        assert_eq!(&batch.schema(), frozen.schema());
    }
}

#[tokio::test]
async fn nested_columns_come_back_in_the_storage_schema() {
    let place = Place::new();
    let inner = Field::new("text", DataType::Utf8, true);
    let list =
        Field::new("numbers", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))), false);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("nested", DataType::Struct(vec![inner.clone()].into()), false),
        list,
    ]);
    let table = place.table(&schema, &["id"]).await;
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let nested: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(inner), texts)]));
    let numbers: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
        Some(vec![Some(1), Some(2)]),
        Some(vec![]),
    ]));
    let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let rows: RecordBatch = batch(vec![("id", id), ("nested", nested), ("numbers", numbers)]);
    let frozen = frozen(&table, vec![Step::Rows(rows), Step::Deletes(ids(&[2]))]);
    write(&table, &frozen).await.unwrap();
    plain_dataset(&place).await.validate().await.unwrap();

    let reader = table.open_sstable(shard(), &sstable()).await.unwrap();
    let batches = reader.scan().await.unwrap();
    for batch in &batches {
        assert_eq!(&batch.schema(), frozen.schema());
        for (column, field) in batch.columns().iter().zip(batch.schema().fields()) {
            assert_eq!(column.data_type(), field.data_type());
        }
    }
    let shown = cells(&batches, &["id", "nested", "numbers", "_tombstone"]);
    assert_eq!(shown, [row(&["1", "{text: x}", "[1, 2]", "false"]), row(&["2", "", "", "true"])]);
}

#[tokio::test]
async fn a_missing_generation_is_not_found_and_a_wrong_name_is_corrupt() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let missing = table.open_sstable(shard(), &sstable()).await;
    assert!(matches!(missing, Err(TableError::NotFound { .. })), "{missing:?}");
    let mut named_wrong = sstable();
    named_wrong.generation = Generation::new(2);
    let corrupt = table.open_sstable(shard(), &named_wrong).await;
    assert!(matches!(corrupt, Err(TableError::Corrupt { .. })), "{corrupt:?}");
}

#[tokio::test]
async fn a_damaged_file_is_named_with_what_is_wrong() {
    for (directory, cut) in
        [("data", true), ("_versions", true), ("_pk_index", true), ("data", false), ("_pk_index", false)]
    {
        let place = Place::new();
        let table = place.id_value_table().await;
        write(&table, &frozen(&table, vec![Step::Rows(id_value_rows(&[(1, "a"), (2, "b")]))])).await.unwrap();
        let root = PathBuf::from(format!("{}/{}/{directory}", place.uri(), sstable_dir(shard(), &name())));
        for file in std::fs::read_dir(&root).unwrap() {
            let file = file.unwrap().path();
            let bytes = std::fs::read(&file).unwrap();
            if cut {
                std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
            } else {
                std::fs::remove_file(&file).unwrap();
            }
        }
        let opened = place.open().await.open_sstable(shard(), &sstable()).await;
        match opened {
            Err(TableError::Corrupt { path, .. }) if cut => assert!(path.contains(directory), "{path}"),
            Err(TableError::NotFound { path }) if !cut => assert!(path.contains(directory), "{path}"),
            other => panic!("{directory}, cut {cut}: {other:?}"),
        }
    }
}
