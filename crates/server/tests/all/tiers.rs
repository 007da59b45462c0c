//! Tables with a write tier.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Server, ids, pair, rows, upload, vectors};

fn unsharded() -> Value {
    json!({ "mode": "unsharded" })
}

fn buckets() -> Value {
    json!({ "mode": "bucket", "column": "id", "num_buckets": 4 })
}

#[tokio::test]
async fn rows_go_through_the_wal_and_are_read_at_once() {
    for sharding in [unsharded(), buckets()] {
        let server = Server::with_tier(&[1, 2, 3], sharding).await;
        let told = server.upsert(rows(&[3, 4], "b"), "").await.json();
        assert_eq!((&told["version"], &told["num_rows"]), (&json!(0), &json!(2)));
        assert_eq!(server.insert(rows(&[5, 1], "c")).await.json()["version"], 0);
        assert_eq!(server.count().await, 5);
        assert_eq!(
            server.table().await,
            [pair(1, "c"), pair(2, "a"), pair(3, "b"), pair(4, "b"), pair(5, "c")]
        );
        let base = json!({ "use_rte": false });
        assert_eq!(server.post("/v1/table/t/count_rows/", base).await.json(), 3, "the base is as it was");
        let found = json!({ "k": 1, "filter": "id > 3", "columns": ["id"], "vector": [], "use_lsm": true });
        assert_eq!(server.post("/v1/table/t/query/", found).await.rows()[0].num_rows(), 1);
    }
}

#[tokio::test]
async fn a_flush_answers_when_what_was_acknowledged_is_in_sstables() {
    let server = Server::with_tier(&[1], buckets()).await;
    server.insert(rows(&(10..60).collect::<Vec<_>>(), "b")).await.ok();
    let sealed = server.send("/v1/table/t/flush", &[], "").await.json();
    let sealed = sealed["generations"].as_array().unwrap().len();
    assert!(sealed > 1, "rows of several shards");
    for (stats, shards, tables) in
        [("get_rte_stats", "table_shards", "sstables"), ("get_lsm_stats", "buckets", "generations")]
    {
        let body = json!({ "include_sstable_rows": true, "include_generation_rows": true });
        let told = server.post(&format!("/v1/table/t/{stats}/"), body).await.json();
        let shards = told[stats.strip_prefix("get_").unwrap()][shards].as_array().unwrap().clone();
        let rows: u64 = shards.iter().map(|shard| shard[tables][0]["rows"].as_u64().unwrap()).sum();
        assert_eq!((shards.len(), rows), (sealed, 50));
    }
    let nothing = server.send("/v1/table/t/flush", &[], "").await.json();
    assert_eq!(nothing, json!({ "generations": [] }));
    for route in ["flush_rte", "flush_lsm"] {
        let reply = server.send(&format!("/v1/table/t/{route}/"), &[], "").await;
        assert_eq!((reply.status, reply.body.len()), (202, 0));
    }
    server.send("/v1/table/t/compact_rte/", &[], "").await.refused(501);
}

#[tokio::test]
async fn specs_are_told_as_each_client_reads_them() {
    let server = Server::with_table(&[1]).await;
    assert_eq!(server.send("/v1/table/t/get_rte_spec/", &[], "").await.json(), json!({ "rte_spec": null }));
    assert_eq!(server.send("/v1/table/t/get_lsm_stats/", &[], "").await.json(), json!({ "lsm_stats": null }));
    let spec = json!({ "sharding": buckets(), "maintained_indexes": null,
        "writer_config_defaults": { "max_memtable_rows": "5000" } });
    server.post("/v1/table/t/set_lsm_write_spec/", spec.clone()).await.ok();
    let told = server.send("/v1/table/t/get_rte_spec/", &[], "").await.json();
    assert_eq!(told["rte_spec"], spec);
    let told = server.send("/v1/table/t/get_lsm_write_spec/", &[], "").await.json();
    assert!(told["lsm_write_spec"]["maintained_indexes"].is_array(), "{told}");
    let (code, text) = server.post("/v1/table/t/enable_rte/", spec).await.refused(400);
    assert!(code == 19 && text.contains("already"), "{text}");
    let indexes = server.post("/v1/table/t/index/list/", json!({})).await.json();
    let names: Vec<&Value> =
        indexes["indexes"].as_array().unwrap().iter().map(|index| &index["index_name"]).collect();
    assert!(!names.contains(&&json!("__lance_mem_wal")), "{names:?}");
}

#[tokio::test]
async fn a_spec_that_cannot_be_is_refused() {
    let server = Server::with_table(&[1]).await;
    for spec in [
        json!({ "sharding": { "mode": "bucket", "column": "name", "num_buckets": 4 } }),
        json!({ "sharding": { "mode": "bucket", "column": "id", "num_buckets": 0 } }),
        json!({ "sharding": { "mode": "identity", "column": "nope" } }),
        json!({ "sharding": unsharded(), "maintained_indexes": ["nope"] }),
        json!({ "sharding": unsharded(), "writer_config_defaults": { "max_memtable_rows": "many" } }),
        json!({}),
    ] {
        server.post("/v1/table/t/enable_rte/", spec).await.refused(400);
    }
    assert_eq!(server.send("/v1/table/t/get_rte_spec/", &[], "").await.json(), json!({ "rte_spec": null }));
}

#[tokio::test]
async fn what_a_tier_does_not_do_is_refused_with_what_helps() {
    let server = Server::with_tier(&[1], unsharded()).await;
    let merge = "/v1/table/t/merge_insert/?on=id&when_not_matched_insert_all=true";
    for path in [merge.to_owned(), merge.replace("on=id", "on=name")] {
        let (_, text) = server.send(&path, &[], upload(&[rows(&[1], "b")])).await.refused(400);
        assert!(text.contains("use_rte(false)") && text.contains("use_lsm(false)"), "{text}");
    }
    for id in 2..5 {
        server.send(&format!("{merge}&use_lsm=false"), &[], upload(&[rows(&[id], "b")])).await.ok();
        assert_eq!(server.count().await, id, "what is merged into the base is read at once");
    }
    let query = json!({ "k": 10, "vector": [], "with_row_id": true });
    let (_, text) = server.post("/v1/table/t/query/", query).await.refused(400);
    assert!(text.contains("does not support with_row_id"), "{text}");
    let text = json!({ "query": "a", "columns": ["name"] });
    server.post("/v1/table/t/query/", json!({ "k": 10, "full_text_query": text })).await.refused(400);
    server.post("/v1/table/t/query/", json!({ "k": 10, "version": 1 })).await.refused(400);
    server.post("/v1/table/t/count_rows/", json!({ "version": 1 })).await.refused(400);
    server.post("/v1/table/t/drop_columns/", json!({ "columns": ["name"] })).await.refused(400);
    server.send("/v1/table/t/insert/?mode=overwrite", &[], upload(&[rows(&[1], "b")])).await.refused(400);
    server.send("/v1/table/t/index/id_idx/drop/", &[], "").await;
}

#[tokio::test]
async fn orders_expressions_and_vectors_are_read_over_all_tiers() {
    let server = Server::start().await;
    server.send("/v1/table/t/create/", &[], upload(&[vectors(0..10)])).await.ok();
    server.post("/v1/table/t/enable_rte/", json!({ "sharding": buckets() })).await.ok();
    server.insert(vectors(10..20)).await.ok();
    server.send("/v1/table/t/flush/", &[], "").await.ok();
    server.insert(vectors(20..30)).await.ok();
    let body = r#"{"k": 3, "offset": 1, "prefilter": true, "vector": [], "filter": "id > 5",
        "columns": {"z": "id * 10", "id": "id"},
        "order_by": [{"column_name": "id", "ascending": false, "nulls_first": false}]}"#;
    let found = server.send("/v1/table/t/query/", &[], body).await.rows();
    assert_eq!(ids(&found), [28, 27, 26]);
    assert_eq!(found[0].schema().field(0).name(), "z");
    let near = json!({ "vector": [14.2, 0.0], "k": 3, "ef": null, "refine_factor": null, "lower_bound": null,
        "upper_bound": null, "nprobes": 20, "minimum_nprobes": 20, "maximum_nprobes": 20 });
    assert_eq!(ids(&server.post("/v1/table/t/query/", near.clone()).await.rows()), [14, 15, 13]);
    let several = json!({ "vector": [[0.1, 0.0], [29.0, 0.0]], "k": 1 });
    let found = server.post("/v1/table/t/query/", several).await.rows();
    assert_eq!((ids(&found), found[0].column_by_name("query_index").is_some()), (vec![0, 29], true));
    let asked = json!({ "verbose": false, "query": near.clone() });
    assert!(server.post("/v1/table/t/explain_plan/", asked).await.json().is_string());
    assert!(server.post("/v1/table/t/analyze_plan/", near).await.json().is_string());
    for (wrong, named) in [
        (json!({ "vector": [1.0], "k": 1 }), "vector"),
        (json!({ "vector": [1.0, 2.0], "k": 1, "distance_type": "manhattan" }), "distance_type"),
        (json!({ "filter": "_rowid = 1" }), "with_row_id"),
        (json!({ "columns": ["nope"] }), "nope"),
    ] {
        let (_, text) = server.post("/v1/table/t/query/", wrong).await.refused(400);
        assert!(text.contains(named), "{text}");
    }
}

#[tokio::test]
async fn rows_that_do_not_fit_a_tier_are_refused() {
    let server = Server::with_tier(&[1], buckets()).await;
    let other = arrow_array::record_batch!(("id", Int64, [7]), ("other", Int64, [7])).unwrap();
    let (_, text) = server.insert(other).await.refused(400);
    assert!(text.contains("other"), "{text}");
    let part = arrow_array::record_batch!(("id", Int64, [1, 8])).unwrap();
    assert_eq!(server.upsert(part, "").await.json()["num_rows"], 2);
    assert_eq!(server.count().await, 2);
    let query = json!({ "k": 10, "filter": "name = 'a1'", "vector": [] });
    assert_eq!(
        server.post("/v1/table/t/query/", query).await.rows()[0].num_rows(),
        1,
        "what was not sent stays"
    );
}

#[tokio::test]
async fn a_tier_goes_only_while_no_row_would_go_with_it() {
    let server = Server::with_tier(&[1], unsharded()).await;
    server.send("/v1/table/t/disable_rte/", &[], "").await.ok();
    let (_, text) = server.send("/v1/table/t/disable_rte/", &[], "").await.refused(400);
    assert!(text.contains("no write tier"), "{text}");
    server.post("/v1/table/t/enable_rte/", json!({ "sharding": unsharded() })).await.ok();
    server.insert(rows(&[2], "b")).await.ok();
    for _ in 0..2 {
        let (_, text) = server.send("/v1/table/t/unset_lsm_write_spec/", &[], "").await.refused(400);
        assert!(text.contains("1 rows"), "{text}");
        server.send("/v1/table/t/flush/", &[], "").await.ok();
    }
    assert_eq!(server.table().await, [pair(1, "a"), pair(2, "b")]);
    server.insert(rows(&[3], "b")).await.ok();
    server.send("/v1/table/t/create/?mode=overwrite", &[], upload(&[rows(&[9], "z")])).await.ok();
    assert_eq!(server.table().await, [pair(9, "z")], "overwritten, with every row of the tier");
}

#[tokio::test]
async fn a_server_that_stops_flushes_and_the_next_one_reads_everything() {
    let server = Server::with_tier(&[1], buckets()).await;
    server.upsert(rows(&[1, 2, 3], "b"), "").await.ok();
    assert!(server.service.drain(Duration::from_secs(30)).await);
    let (_, text) = server.upsert(rows(&[4], "c"), "").await.refused(503);
    assert!(text.contains("about to stop"), "{text}");
    let next = Server::start_in(server.dir.clone()).await;
    assert_eq!(next.table().await, [pair(1, "b"), pair(2, "b"), pair(3, "b")]);
    let stats = next.post("/v1/table/t/get_rte_stats/", json!({})).await.json();
    let shards = stats["rte_stats"]["table_shards"].as_array().unwrap().clone();
    assert!(shards.iter().all(|shard| shard["sstables"].as_array().unwrap().len() == 1), "{stats}");
}

#[tokio::test]
async fn a_table_made_anew_under_an_old_name_has_nothing_of_the_old_one() {
    let server = Server::with_tier(&[1, 2], unsharded()).await;
    server.post("/v1/table/t/create_index/", json!({ "column": "name", "index_type": "BTREE" })).await.ok();
    server.insert(rows(&[3], "b")).await.ok();
    server.send("/v1/table/t/flush/", &[], "").await.ok();
    for round in 0..2 {
        server.send("/v1/table/t/drop/", &[], "").await.ok();
        server.send("/v1/table/t/create/", &[], upload(&[rows(&[7], "x")])).await.ok();
        for id in 8..12 {
            // Version by version as the old one had them, and more.
            let spec = server.send("/v1/table/t/get_rte_spec/", &[], "").await.json();
            assert_eq!(spec, json!({ "rte_spec": null }), "round {round}, before {id}");
            let indexes = server.post("/v1/table/t/index/list/", json!({})).await.json();
            assert_eq!(indexes, json!({ "indexes": [] }), "round {round}, before {id}");
            assert_eq!(server.insert(rows(&[id], "x")).await.json()["version"], id - 6);
        }
        let all: Vec<_> = (7..12).map(|id| pair(id, "x")).collect();
        assert_eq!(server.table().await, all);
    }
}
