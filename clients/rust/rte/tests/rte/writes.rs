//! Writes: merges, adds, updates, deletes, flushes.

use lancedb::table::RTEWriteSpec;

use crate::support::{Server, merge, read, refused, row, rows, upsert};

fn specs() -> [RTEWriteSpec; 3] {
    [RTEWriteSpec::unsharded(), RTEWriteSpec::bucket("id", 4), RTEWriteSpec::identity("id")]
}

#[tokio::test]
async fn rows_go_through_the_wal_and_are_read_at_once() {
    for spec in specs() {
        let server = Server::start().await;
        let table = server.tiered(&[1, 2, 3], spec).await;
        let told = merge(upsert(&table), rows(&[3, 4], "b")).await.unwrap();
        assert_eq!((told.version, told.num_rows, told.num_inserted_rows), (0, 2, 0));
        let mut explicit = upsert(&table);
        explicit.use_rte(true);
        assert_eq!(merge(explicit, rows(&[4, 5], "c")).await.unwrap().version, 0);
        assert_eq!(table.add(rows(&[6], "d")).execute().await.unwrap().version, 0);
        let all = [row(1, "a1"), row(2, "a2"), row(3, "b3"), row(4, "c4"), row(5, "c5"), row(6, "d6")];
        assert_eq!(read(&table, "true").await, all);
        assert_eq!(table.count_rows(Some("id > 3".to_owned())).await.unwrap(), 3);
        table.flush_rte().await.unwrap();
        assert_eq!(read(&table, "true").await, all);
    }
}

#[tokio::test]
async fn merges_into_the_base_are_those_that_say_so() {
    let server = Server::start().await;
    let table = server.tiered(&[1], RTEWriteSpec::bucket("id", 2)).await;
    assert_eq!(read(&table, "true").await, [row(1, "a1")]);
    let mut inserts = table.merge_insert(&["id"]);
    inserts.when_not_matched_insert_all();
    refused(merge(inserts.clone(), rows(&[1, 2], "b")).await, 400, &["use_rte(false)"]);
    inserts.use_rte(false);
    let told = merge(inserts, rows(&[1, 2], "b")).await.unwrap();
    assert_eq!((told.num_inserted_rows, told.num_rows), (1, 1));
    assert!(told.version > 0, "a commit of the base");
    assert_eq!(read(&table, "true").await, [row(1, "a1"), row(2, "b2")], "read at once");
    let plain = server.db.create_table("plain", rows(&[1], "a")).execute().await.unwrap();
    let mut fresh = upsert(&plain);
    fresh.use_rte(true);
    refused(merge(fresh, rows(&[1], "b")).await, 400, &["no write tier"]);
    assert_eq!(merge(upsert(&plain), rows(&[1, 2], "b")).await.unwrap().num_updated_rows, 1);
}

#[tokio::test]
async fn updates_and_deletes_are_of_every_tier() {
    for spec in specs() {
        let server = Server::start().await;
        let table = server.tiered(&[1, 2], spec).await;
        merge(upsert(&table), rows(&[2, 3], "b")).await.unwrap();
        table.flush_rte().await.unwrap();
        merge(upsert(&table), rows(&[4], "c")).await.unwrap();
        let update = table.update().only_if("id IN (1, 3, 4, 77)").column("name", "upper(name)");
        let told = update.execute().await.unwrap();
        assert_eq!((told.rows_updated, told.version), (3, 0));
        let told = table.delete("name = 'a2' OR name = 'b2'").await.unwrap();
        assert_eq!((told.num_deleted_rows, told.version), (1, 0), "the older row of 2 is hidden");
        assert_eq!(read(&table, "true").await, [row(1, "A1"), row(3, "B3"), row(4, "C4")]);
        let update = table.update().only_if("nope = 1").column("name", "'x'");
        refused(update.execute().await, 400, &["nope"]);
        refused(table.update().column("nope", "1").execute().await, 400, &["nope"]);
        refused(table.delete("nope = 1").await, 400, &["nope"]);
    }
}

#[tokio::test]
async fn flushed_rows_are_told_and_not_folded_yet() {
    let server = Server::start().await;
    let table = server.tiered(&[1], RTEWriteSpec::bucket("id", 4)).await;
    // Nothing to fold: a checkpoint converges without a pass.
    table.checkpoint_rte().await.unwrap();
    let many: Vec<i64> = (10..60).collect();
    merge(upsert(&table), rows(&many, "b")).await.unwrap();
    let stats = table.get_rte_stats(true).await.unwrap().unwrap();
    let waiting: u64 =
        stats.table_shards.iter().flat_map(|shard| shard.memtables.iter().flatten()).map(|m| m.rows).sum();
    assert_eq!(waiting, 50, "{stats:?}");
    table.flush_rte().await.unwrap();
    let stats = table.get_rte_stats(true).await.unwrap().unwrap();
    assert_eq!(stats.table_shards.len(), 4, "{stats:?}");
    assert!(
        stats.table_shards.iter().all(|shard| shard.status == "Active" && !shard.compacting),
        "{stats:?}"
    );
    let flushed: u64 =
        stats.table_shards.iter().flat_map(|shard| &shard.sstables).filter_map(|s| s.rows).sum();
    assert_eq!(flushed, 50, "{stats:?}");
    // Until there is compaction: refused at once, and nothing is lost.
    refused(table.compact_rte().await, 501, &["not there yet"]);
    refused(table.checkpoint_rte().await, 501, &["not there yet"]);
    assert_eq!(table.count_rows(None).await.unwrap(), 51);
    let plain = server.db.create_table("plain", rows(&[1], "a")).execute().await.unwrap();
    refused(plain.flush_rte().await, 400, &["no write tier"]);
    refused(plain.compact_rte().await, 400, &["no write tier"]);
}

#[tokio::test]
async fn clients_write_at_once() {
    let server = Server::start().await;
    let table = server.tiered(&[], RTEWriteSpec::bucket("id", 4)).await;
    let writes = (0..16).map(|n| merge(upsert(&table), rows(&[n, 5000], &format!("w{n}-"))));
    for told in futures::future::join_all(writes).await {
        assert_eq!(told.unwrap().num_rows, 2);
    }
    assert_eq!(table.count_rows(None).await.unwrap(), 17);
}
