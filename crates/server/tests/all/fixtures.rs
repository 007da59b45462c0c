//! The data of a released server stays readable: tables, namespaces, write tiers, keys.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use headwater::TokioEnv;
use headwater_server::auth::{self, Databases};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Server, ids, pair, rows, upload, vectors};

/// A key of `fixtures/0.4/data/headwater-keys.toml`. It opens nothing else.
const KEY: &str = include_str!("../../../../fixtures/0.4/reader.key");
const NESTED: &str = "/v1/table/ns$nested";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/0.4")
}

/// As `fixtures/0.4` was made, once, by version 0.4.0.
#[tokio::test]
#[ignore = "writes fixtures/0.4: run once a version"]
async fn make_the_data_of_version_0_4() {
    let data = fixture().join("data");
    std::fs::create_dir_all(&data).unwrap();
    let env = Arc::new(TokioEnv::new());
    let keys = data.join(headwater_server::config::KEYS_FILE);
    let key = auth::add(&keys, "reader", Databases::List(["db".to_owned()].into()), false, &(env as _));
    std::fs::write(fixture().join("reader.key"), key.unwrap().reveal()).unwrap();
    let server = Server::start_of(&data).await;

    server.send("/v1/table/t/create/", &[], upload(&[rows(&[1, 2, 3], "a")])).await.ok();
    server.insert(rows(&[4], "b")).await.ok();
    let update = json!({ "updates": [["name", "'c2'"]], "predicate": "id = 2" }).to_string();
    let id = [("x-request-id", "6fa459ea-ee8a-4ca4-894e-db77e160355e")];
    server.send("/v1/table/t/update/", &id, update).await.ok();
    server.post("/v1/table/t/create_index/", json!({ "column": "id", "index_type": "BTREE" })).await.ok();

    server.send(&format!("{NESTED}/create/"), &[], upload(&[vectors(0..6)])).await.ok();
    let spec = json!({ "sharding": { "mode": "bucket", "column": "id", "num_buckets": 2 },
        "maintained_indexes": [], "writer_config_defaults": { "max_memtable_rows": "5000" } });
    server.post(&format!("{NESTED}/enable_rte/"), spec).await.ok();
    server.send(&format!("{NESTED}/insert/"), &[], upload(&[vectors(4..9)])).await.ok();
    server.send(&format!("{NESTED}/flush/"), &[], "").await.ok();
    server.send(&format!("{NESTED}/insert/"), &[], upload(&[vectors(9..12)])).await.ok();
    server.post(&format!("{NESTED}/delete/"), json!({ "predicate": "id = 0" })).await.ok();
}

#[tokio::test]
async fn the_data_of_a_server_of_version_0_4_is_read_and_written_on() {
    let dir = Arc::new(TempDir::new().unwrap());
    let copied = Command::new("cp").arg("-r").arg(fixture().join("data/.")).arg(dir.path()).status().unwrap();
    assert!(copied.success());
    let keyring = auth::list(&dir.path().join(headwater_server::config::KEYS_FILE)).unwrap();
    let reader = keyring.identify(KEY.trim().as_bytes()).unwrap();
    assert_eq!((reader.name.as_str(), reader.may_write), ("reader", false));
    assert!(reader.databases.contains("db") && !reader.databases.contains("other"));

    let server = Server::start_in(dir).await;
    assert_eq!(server.get("/v1/table/").await.json()["tables"], json!(["t"]));
    assert_eq!(server.get("/v1/namespace/ns/table/list").await.json()["tables"], json!(["nested"]));
    assert_eq!(server.table().await, [pair(1, "a"), pair(2, "c"), pair(3, "a"), pair(4, "b")]);
    server.insert(rows(&[5], "d")).await.ok();
    assert_eq!(server.count().await, 5);
    let indexes = server.post("/v1/table/t/index/list/", json!({})).await.json();
    assert_eq!(indexes["indexes"][0]["index_name"], "id_idx");

    let spec = server.send(&format!("{NESTED}/get_rte_spec/"), &[], "").await.json();
    assert_eq!(spec["rte_spec"]["writer_config_defaults"]["max_memtable_rows"], "5000");
    server.send(&format!("{NESTED}/insert/"), &[], upload(&[vectors(12..13)])).await.ok();
    let all = json!({ "k": 100, "vector": [], "prefilter": true, "columns": ["id"] });
    let mut found = ids(&server.post(&format!("{NESTED}/query/"), all).await.rows());
    found.sort_unstable();
    assert_eq!(found, (1..13).collect::<Vec<i64>>());
    let near = json!({ "k": 1, "vector": [10.2, 0.0], "vector_column": "v", "prefilter": true });
    assert_eq!(ids(&server.post(&format!("{NESTED}/query/"), near).await.rows()), [10]);
}
