//! Reads of base, SSTables and memtables together.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, Int64Type};
use lancedb::query::{ColumnOrdering, ExecutableQuery, QueryBase, Select};
use lancedb::table::RTEWriteSpec;
use lancedb::{DistanceType, Table};

use crate::support::{Server, batches, ids, merge, read, refused, row, rows, upsert};

/// Ids 0..30 without 5, a third in the base, one in SSTables, one in memtables; 3 and 13 written twice.
async fn over_all_tiers(server: &Server) -> Table {
    let table = server.tiered(&(0..10).collect::<Vec<_>>(), RTEWriteSpec::bucket("id", 4)).await;
    let second: Vec<i64> = (10..20).chain([3]).collect();
    merge(upsert(&table), rows(&second, "b")).await.unwrap();
    table.flush_rte().await.unwrap();
    let third: Vec<i64> = (20..30).chain([13]).collect();
    merge(upsert(&table), rows(&third, "c")).await.unwrap();
    table.delete("id = 5").await.unwrap();
    table
}

#[tokio::test]
async fn filters_columns_orders_and_limits() {
    let server = Server::start().await;
    let table = over_all_tiers(&server).await;
    assert_eq!(read(&table, "id IN (3, 5, 13) OR name = 'b13'").await, [row(3, "b3"), row(13, "c13")]);
    let order = || Some(vec![ColumnOrdering::desc_nulls_last("id".to_owned())]);
    assert_eq!(ids(table.query().order_by(order()).limit(3).offset(2)).await, [27, 26, 25]);
    let doubled = Select::dynamic(&[("z", "id * 2"), ("id", "id")]);
    let found = batches(table.query().only_if("id = 13").select(doubled)).await;
    assert_eq!(found[0].schema().field(0).name(), "z");
    assert_eq!(found[0]["z"].as_primitive::<Int64Type>().values(), &[26]);
    assert_eq!(ids(table.query().use_rte(false).limit(100)).await.len(), 10, "the base alone");
    assert_eq!(ids(table.query().use_rte(true)).await.len(), 29);
    assert_eq!(table.count_rows(None).await.unwrap(), 29);
    assert!(!table.query().only_if("id = 1").explain_plan(true).await.unwrap().is_empty());
    assert!(!table.query().only_if("id = 1").analyze_plan().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_nearest_are_found_in_every_tier() {
    let server = Server::start().await;
    let table = over_all_tiers(&server).await;
    let near = |x: f32| table.vector_search(vec![x, 0.0]).unwrap();
    assert_eq!(ids(near(5.2).limit(3)).await, [6, 4, 7]);
    assert_eq!(ids(near(13.2).only_if("id != 13").limit(2)).await, [14, 12]);
    assert_eq!(ids(near(13.2).only_if("id != 13").postfilter().limit(2)).await, [14]);
    assert_eq!(ids(near(20.1).distance_range(None, Some(0.5)).limit(9)).await, [20]);
    let cosine = batches(near(1.0).distance_type(DistanceType::Cosine).limit(1)).await;
    assert_eq!(cosine[0]["_distance"].as_primitive::<Float32Type>().values(), &[0.0]);
    let several = near(1.1).add_query_vector(vec![29.1, 0.0]).unwrap().limit(1);
    let mut found: Vec<(i32, i64)> = Vec::new();
    for batch in batches(several).await {
        let queries = batch["query_index"].as_primitive::<Int32Type>().values().to_vec();
        found.extend(queries.into_iter().zip(batch["id"].as_primitive::<Int64Type>().values().to_vec()));
    }
    found.sort_unstable();
    assert_eq!(found, [(0, 1), (1, 29)]);
}

#[tokio::test]
async fn what_a_tier_does_not_read_is_refused() {
    let server = Server::start().await;
    let table = over_all_tiers(&server).await;
    let told = table.query().with_row_id().execute().await;
    refused(told.map(|_| ()), 400, &["does not support with_row_id"]);
    refused(table.query().only_if("nope = 1").execute().await.map(|_| ()), 400, &["nope"]);
    let short = table.vector_search(vec![1.0, 2.0, 3.0]).unwrap();
    refused(short.execute().await.map(|_| ()), 400, &["vector"]);
    let plain = server.db.create_table("plain", rows(&[1], "a")).execute().await.unwrap();
    refused(plain.query().use_rte(true).execute().await.map(|_| ()), 400, &["no write tier"]);
    table.checkout(1).await.unwrap();
    refused(table.query().execute().await.map(|_| ()), 400, &["use_rte(false)"]);
    assert_eq!(ids(table.query().use_rte(false).limit(100)).await.len(), 10);
}
