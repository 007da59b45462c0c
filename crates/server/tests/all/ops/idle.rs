//! Tables that nobody uses are flushed and closed, and nobody notices.

use std::time::Duration;

use futures::future::join_all;
use headwater_server::idle::Keep;
use serde_json::{Value, json};

use super::client::Connection;
use super::wait::eventually;
use crate::support::{Server, pair, rows, upload};

const QUERY: &str = "/v1/table/t/query/";

fn buckets() -> Value {
    json!({ "mode": "bucket", "column": "id", "num_buckets": 2 })
}

async fn open(server: &Server) -> u64 {
    let page = server.get("/metrics").await.ok().text();
    let line = page.lines().find(|line| line.starts_with("headwater_open_tables ")).unwrap().to_owned();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn make(server: &Server, name: &str) {
    server.send(&format!("/v1/table/{name}/create/"), &[], upload(&[rows(&[0], "a")])).await.ok();
    let spec = json!({ "sharding": buckets() });
    server.post(&format!("/v1/table/{name}/enable_rte/"), spec).await.ok();
}

async fn upsert(server: &Server, name: &str, id: i64) {
    let path = format!(
        "/v1/table/{name}/merge_insert/?on=id&when_matched_update_all=true&when_not_matched_insert_all=true"
    );
    server.send(&path, &[], upload(&[rows(&[id], "b")])).await.ok();
}

async fn shards(server: &Server, name: &str) -> Vec<Value> {
    let told = server.post(&format!("/v1/table/{name}/get_rte_stats/"), json!({})).await.json();
    told["rte_stats"]["table_shards"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_table_that_nobody_uses_is_flushed_and_closed_until_somebody_comes() {
    let server = Server::with_tier(&[1, 2], buckets()).await;
    server.upsert(rows(&[2, 3, 4], "b"), "").await.ok();
    assert_eq!(open(&server).await, 1);
    server.service.keep_open(Keep { idle: Duration::from_millis(40), most: 100 });
    eventually("the table is closed", async || open(&server).await == 0).await;
    assert!(!server.get("/metrics").await.text().contains("headwater_memtables_bytes"), "nothing is held");
    // Opened again by each of these.
    for shard in shards(&server, "t").await {
        assert_eq!(shard["sstables"].as_array().unwrap().len(), 1, "flushed: {shard}");
        assert_eq!(shard.get("memtables"), None, "no writer: {shard}");
    }
    assert_eq!(server.table().await, [pair(1, "a"), pair(2, "b"), pair(3, "b"), pair(4, "b")]);
    server.upsert(rows(&[4, 5], "c"), "").await.ok();
    eventually("it is closed again", async || open(&server).await == 0).await;
    assert_eq!(server.table().await.last(), Some(&pair(5, "c")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_come_while_tables_are_closed_never_fail() {
    const TABLES: usize = 3;
    const ROUNDS: i64 = 25;
    let server = Server::start().await;
    let names: Vec<String> = (0..TABLES).map(|table| format!("t{table}")).collect();
    for name in &names {
        make(&server, name).await;
    }
    server.service.keep_open(Keep { idle: Duration::from_millis(1), most: 1 });
    let server = &server;
    join_all(names.iter().map(async |name| {
        for id in 1..=ROUNDS {
            upsert(server, name, id).await;
            let path = format!("/v1/table/{name}/count_rows/");
            assert_eq!(server.post(&path, json!({})).await.json(), id + 1, "{name}");
        }
    }))
    .await;
    let mut opened = 0;
    for name in &names {
        for shard in shards(server, name).await {
            opened += shard["writer_epoch"].as_u64().unwrap();
        }
    }
    assert!(opened > 4 * TABLES as u64, "they were closed and opened again all the time: {opened}");
}

#[tokio::test]
async fn of_too_many_open_tables_those_are_closed_that_were_not_used_for_longest() {
    let server = Server::start().await;
    server.service.keep_open(Keep { idle: Duration::from_secs(3600), most: 2 });
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        make(&server, name).await;
        upsert(&server, name, 1).await;
    }
    eventually("two are left", async || open(&server).await == 2).await;
    let left = server.service.tiers();
    let left: Vec<&str> = left.iter().map(|(id, _)| id.name()).collect();
    assert_eq!(left, ["d", "e"]);
    for name in names {
        let path = format!("/v1/table/{name}/count_rows/");
        assert_eq!(server.post(&path, json!({})).await.json(), 2, "{name}");
    }
}

#[tokio::test]
async fn a_table_whose_rows_are_still_being_sent_is_in_use() {
    let server = Server::start().await;
    make(&server, "other").await;
    // More than fits into all buffers on the way.
    let ids: Vec<i64> = (0..1_500_000).collect();
    server.send("/v1/table/t/create/", &[], upload(&[rows(&ids, "a")])).await.ok();
    server.post("/v1/table/t/enable_rte/", json!({ "sharding": buckets() })).await.ok();
    server.upsert(rows(&[1], "b"), "").await.ok();
    let address = server.url.split("://").nth(1).unwrap().parse().unwrap();
    let mut reader = Connection::open(address).await;
    let query = json!({ "k": i64::MAX, "vector": [] }).to_string();
    reader.begin("POST", QUERY, &[("x-lancedb-database", "db")], query.len()).await.unwrap();
    reader.write(query.as_bytes()).await.unwrap();
    assert_eq!(reader.head().await.unwrap().status, 200);
    server.service.keep_open(Keep { idle: Duration::from_millis(20), most: 100 });
    eventually("the other one is closed", async || open(&server).await == 1).await;
    let left = server.service.tiers();
    assert_eq!(left.iter().map(|(id, _)| id.name()).collect::<Vec<_>>(), ["t"]);
    drop(reader);
    eventually("and this one when nobody reads", async || open(&server).await == 0).await;
}
