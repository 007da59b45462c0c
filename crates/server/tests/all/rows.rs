//! Tables without a write tier: create, list, describe, insert, merge, drop.

use serde_json::json;

use crate::support::{Server, pair, rows, upload};

#[tokio::test]
async fn a_table_is_made_listed_described_filled_and_dropped() {
    let server = Server::with_table(&[1, 2]).await;
    assert_eq!(server.get("/v1/table/?limit=10").await.json(), json!({ "tables": ["t"] }));
    let told = server.send("/v1/table/t/describe/", &[], "").await;
    assert_eq!(told.headers["phalanx-version"], "0.3.0");
    let told = told.json();
    assert_eq!(told["version"], 1);
    assert_eq!(told["schema"]["fields"][0]["name"], "id");
    assert_eq!(told["schema"]["fields"][0]["type"]["type"], "int64");
    assert_eq!(told["schema"]["fields"][0]["nullable"], false, "a key column");
    assert_eq!(server.insert(rows(&[3], "a")).await.json()["version"], 2);
    assert_eq!(server.table().await, [pair(1, "a"), pair(2, "a"), pair(3, "a")]);
    assert_eq!(server.count().await, 3);
    server.send("/v1/table/t/drop/", &[], "").await.ok();
    assert_eq!(server.get("/v1/table/").await.json(), json!({ "tables": [] }));
    let (code, text) = server.post("/v1/table/t/describe/", json!({})).await.refused(404);
    assert!(code == 4 && text.contains("\"t\""), "{text}");
    server.send("/v1/table/t/drop/", &[], "").await.ok();
    assert_eq!(std::fs::read_dir(server.dir.path().join("db")).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn names_come_page_by_page_in_their_order() {
    let server = Server::start().await;
    for name in ["b", "a", "d", "c"] {
        server.send(&format!("/v1/table/{name}/create/"), &[], upload(&[rows(&[1], "a")])).await.ok();
    }
    let page = server.get("/v1/table/?limit=3").await.json();
    assert_eq!(page, json!({ "tables": ["a", "b", "c"], "page_token": "c" }));
    assert_eq!(server.get("/v1/table/?limit=3&page_token=c").await.json(), json!({ "tables": ["d"] }));
    let page = server.get("/v1/namespace/%24/table/list?limit=2").await.json();
    assert_eq!(page["tables"], json!(["a", "b"]));
    assert_eq!(server.get("/v1/namespace/none/table/list").await.json(), json!({ "tables": [] }));
}

#[tokio::test]
async fn a_mode_says_what_becomes_of_a_table_that_is_there() {
    let server = Server::with_table(&[1]).await;
    let create = |mode: &str| format!("/v1/table/t/create/?mode={mode}");
    let body = upload(&[rows(&[7, 8], "b")]);
    let (code, text) = server.send(&create("create"), &[], body.clone()).await.refused(400);
    assert!(code == 5 && text.contains("already exists"), "{text}");
    server.send(&create("exist_ok"), &[], body.clone()).await.ok();
    assert_eq!(server.table().await, [pair(1, "a")]);
    server.send(&create("overwrite"), &[], body.clone()).await.ok();
    assert_eq!(server.table().await, [pair(7, "b"), pair(8, "b")]);
    server.send("/v1/table/t/insert/?mode=overwrite", &[], upload(&[rows(&[9], "c")])).await.ok();
    assert_eq!(server.table().await, [pair(9, "c")]);
    server.send(&create("often"), &[], body).await.refused(400);
}

#[tokio::test]
async fn rows_merge_in_every_form() {
    let server = Server::with_table(&[1, 2, 3]).await;
    let merged = server.upsert(rows(&[3, 4], "b"), "").await.json();
    assert_eq!((&merged["num_updated_rows"], &merged["num_inserted_rows"]), (&json!(1), &json!(1)));
    assert_eq!(server.table().await, [pair(1, "a"), pair(2, "a"), pair(3, "b"), pair(4, "b")]);
    let merge = |flags: &str| format!("/v1/table/t/merge_insert/?on=id&{flags}");
    let known = "when_matched_update_all=true&when_matched_update_all_filt=target.id%20%3E%201";
    server.send(&merge(known), &[], upload(&[rows(&[1, 2, 9], "c")])).await.ok();
    assert_eq!(server.table().await, [pair(1, "a"), pair(2, "c"), pair(3, "b"), pair(4, "b")]);
    server.send(&merge("when_not_matched_insert_all=true"), &[], upload(&[rows(&[4, 5], "d")])).await.ok();
    assert_eq!(server.table().await[3..], [pair(4, "b"), pair(5, "d")]);
    let gone = "when_not_matched_by_source_delete=true&when_not_matched_by_source_delete_filt=id%20%3C%203";
    server.send(&merge(gone), &[], upload(&[rows(&[2], "e")])).await.ok();
    assert_eq!(server.table().await, [pair(2, "c"), pair(3, "b"), pair(4, "b"), pair(5, "d")]);
    let (_, text) = server.upsert(rows(&[1], "f"), "&use_rte=true").await.refused(400);
    assert!(text.contains("no write tier"), "{text}");
    server.upsert(rows(&[1], "f"), "&use_rte=true&use_lsm=false").await.refused(400);
}

#[tokio::test]
async fn databases_prefixes_and_namespaces_keep_their_tables_apart() {
    let server = Server::with_table(&[1]).await;
    let body = upload(&[rows(&[1, 2], "a")]);
    let elsewhere: [(&str, &[(&str, &str)]); 2] =
        [("/v1/table/n$t/", &[]), ("/v1/table/t/", &[("x-lancedb-database-prefix", "p/q")])];
    for (path, headers) in elsewhere {
        server.send(&format!("{path}create/"), headers, body.clone()).await.ok();
        let counted = server.send(&format!("{path}count_rows/"), headers, "{}").await.json();
        assert_eq!(counted, 2, "{path}");
    }
    assert_eq!(server.count().await, 1);
    assert_eq!(server.get("/v1/table/").await.json(), json!({ "tables": ["t"] }));
    assert_eq!(server.get("/v1/namespace/n/table/list").await.json(), json!({ "tables": ["t"] }));
    server.send("/v1/table/n%24t/count_rows", &[], "").await.ok();
}

#[tokio::test]
async fn many_batches_come_and_go_in_streams() {
    let server = Server::start().await;
    let batches: Vec<_> =
        (0..40).map(|n| rows(&(n * 1000..(n + 1) * 1000).collect::<Vec<_>>(), "a")).collect();
    server.send("/v1/table/t/create", &[], upload(&batches)).await.ok();
    assert_eq!(server.count().await, 40_000);
    assert_eq!(server.table().await.len(), 40_000);
}
