//! What is never written as an SSTable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use headwater_engine::index::{IndexDescription, IndexError, MemIndex};
use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::RowOffset;

use crate::support::*;

#[tokio::test]
async fn a_generation_without_rows_is_refused() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let reason = invalid(write(&table, &frozen(&table, Vec::new())).await);
    assert!(reason.contains("no rows"), "{reason}");
    assert!(table.list_generations(shard()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_generation_with_rows_that_are_not_durable_is_refused() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let frozen = frozen_not_durable(&table, vec![Step::Rows(id_value_rows(&[(1, "a")]))]);
    let reason = invalid(write(&table, &frozen).await);
    assert!(reason.contains("durable"), "{reason}");
    assert!(table.list_generations(shard()).await.unwrap().is_empty());
    frozen.set_durable_through(frozen.end_seq());
    write(&table, &frozen).await.unwrap();
}

#[tokio::test]
async fn a_directory_name_of_another_generation_is_refused() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let frozen = frozen(&table, vec![Step::Rows(id_value_rows(&[(1, "a")]))]);
    for name in ["00000001_gen_2", "gen_1", "../00000001_gen_1", ""] {
        let reason = invalid(table.write_sstable(shard(), name, &frozen).await);
        assert!(reason.contains("not the name of an SSTable"), "{reason}");
    }
}

#[tokio::test]
async fn a_generation_of_another_table_is_refused() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let other_place = Place::new();
    let schema =
        arrow_schema::Schema::new(vec![arrow_schema::Field::new("id", arrow_schema::DataType::Int64, false)]);
    let other = other_place.table(&schema, &["id"]).await;
    let frozen = frozen(&other, vec![Step::Rows(ids(&[1]))]);
    let refused = write(&table, &frozen).await.unwrap_err();
    assert!(matches!(refused, TableError::SchemaChanged { .. }), "{refused}");
    let reason = refused.to_string();
    assert!(reason.contains("schema") && reason.contains("value"), "{reason}");
}

/// An index that applies rows when it is told to.
#[derive(Debug, Default)]
struct HeldIndex {
    applied: AtomicU32,
}

#[async_trait]
impl MemIndex for HeldIndex {
    fn describe(&self) -> IndexDescription {
        IndexDescription { name: "held".to_owned(), kind: "model".to_owned(), columns: Vec::new() }
    }

    async fn apply(&self, first: RowOffset, batch: &RecordBatch) -> Result<(), IndexError> {
        self.applied.store(first.get() + u32::try_from(batch.num_rows()).unwrap(), Ordering::Release);
        Ok(())
    }

    fn applied(&self) -> RowOffset {
        RowOffset::new(self.applied.load(Ordering::Acquire))
    }

    fn memory(&self) -> usize {
        0
    }
}

/// Regression: lance#9035.
#[tokio::test]
async fn a_generation_with_rows_that_are_not_applied_to_an_index_is_refused() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let index = Arc::new(HeldIndex::default());
    let rows = id_value_rows(&[(1, "a"), (2, "b")]);
    let frozen = frozen_with(&table, vec![Step::Rows(rows.clone())], vec![index.clone()]);
    frozen.set_durable_through(frozen.end_seq());
    for applied in [0, 1] {
        index.apply(RowOffset::new(0), &rows.slice(0, applied)).await.unwrap();
        let reason = invalid(write(&table, &frozen).await);
        assert!(reason.contains("held"), "{reason}");
        assert!(table.list_generations(shard()).await.unwrap().is_empty());
    }
    index.apply(RowOffset::new(0), &rows).await.unwrap();
    write(&table, &frozen).await.unwrap();
}
