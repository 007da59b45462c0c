//! Reads of tables without a write tier.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type, UInt64Type};
use serde_json::{Value, json};

use crate::support::{Server, ids, pair, pairs, upload, vectors};

fn query(more: Value) -> Value {
    let mut query = json!({ "k": i64::MAX, "prefilter": true, "version": null, "vector": [] });
    query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    query
}

async fn asked(server: &Server, more: Value) -> Vec<RecordBatch> {
    server.post("/v1/table/t/query/", query(more)).await.rows()
}

#[tokio::test]
async fn filters_orders_limits_and_columns() {
    let server = Server::with_table(&[5, 3, 1, 4, 2]).await;
    let order = json!([{ "column_name": "id", "ascending": false, "nulls_first": false }]);
    let found = asked(&server, json!({ "filter": "id > 1", "order_by": order, "k": 2, "offset": 1 })).await;
    assert_eq!(pairs(&found), [pair(4, "a"), pair(3, "a")]);
    let found = asked(&server, json!({ "columns": ["name"], "filter": "`id` = 3" })).await;
    assert_eq!(found[0].schema().fields().len(), 1);
    let body = r#"{"k": 10, "prefilter": true, "vector": [], "filter": "id = 2",
        "columns": {"z": "id * 10", "a": "upper(name)", "id": "id"}}"#;
    let found = server.send("/v1/table/t/query/", &[], body).await.rows();
    let schema = found[0].schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["z", "a", "id"], "the order is the client's");
    assert_eq!(found[0]["z"].as_primitive::<Int64Type>().values(), &[20]);
    let found = asked(&server, json!({ "with_row_id": true, "filter": "id = 1" })).await;
    let row_id = found[0]["_rowid"].as_primitive::<UInt64Type>().value(0);
    let found = asked(&server, json!({ "filter": format!("_rowid IN ({row_id})") })).await;
    assert_eq!(ids(&found), [1]);
    let found =
        asked(&server, json!({ "filter": "_rowoffset IN (1, 3)", "columns": ["id", "_rowoffset"] })).await;
    assert_eq!(ids(&found), [3, 4]);
    let nothing = server.post("/v1/table/t/query/", query(json!({ "filter": "id > 100" }))).await.rows();
    assert_eq!(nothing.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
}

#[tokio::test]
async fn versions_are_read_as_they_were() {
    let server = Server::with_table(&[1]).await;
    server.insert(crate::support::rows(&[2], "a")).await.ok();
    assert_eq!(ids(&asked(&server, json!({ "version": 1 })).await), [1]);
    assert_eq!(server.post("/v1/table/t/count_rows/", json!({ "version": 1 })).await.json(), 1);
    let (code, _) = server.post("/v1/table/t/query/", query(json!({ "version": 9 }))).await.refused(400);
    assert_eq!(code, 11);
    let versions = server.send("/v1/table/t/version/list/", &[], "").await.json();
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2);
    let stats = server.send("/v1/table/t/stats/", &[], "").await.json();
    assert_eq!((&stats["num_rows"], &stats["fragment_stats"]["num_fragments"]), (&json!(2), &json!(2)));
}

#[tokio::test]
async fn plans_are_told() {
    let server = Server::with_table(&[1]).await;
    let asked = json!({ "verbose": true, "query": query(json!({ "filter": "id = 1" })) });
    let plan = server.post("/v1/table/t/explain_plan/", asked).await.json();
    assert!(plan.as_str().unwrap().contains("LanceRead"), "{plan}");
    let plan = server.post("/v1/table/t/analyze_plan/", query(json!({}))).await.json();
    assert!(plan.as_str().unwrap().contains("output_rows"), "{plan}");
}

#[tokio::test]
async fn the_nearest_are_found() {
    let server = Server::start().await;
    server.send("/v1/table/t/create/", &[], upload(&[vectors(0..20)])).await.ok();
    let near = json!({ "vector": [4.2, 0.0], "k": 3, "ef": null, "refine_factor": null,
        "lower_bound": null, "upper_bound": null, "nprobes": 20,
        "minimum_nprobes": 20, "maximum_nprobes": 20 });
    let found = asked(&server, near.clone()).await;
    assert_eq!(ids(&found), [4, 5, 3]);
    let distances = found[0]["_distance"].as_primitive::<Float32Type>();
    assert!((distances.value(0) - 0.04).abs() < 1e-4);
    let with = |more: Value| {
        let mut near = near.clone();
        near.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        near
    };
    assert_eq!(ids(&asked(&server, with(json!({ "filter": "id < 4" }))).await), [3, 2, 1]);
    assert_eq!(ids(&asked(&server, with(json!({ "filter": "id < 4", "prefilter": false }))).await), [3]);
    assert_eq!(ids(&asked(&server, with(json!({ "offset": 1, "k": 2 }))).await), [5, 3]);
    assert_eq!(ids(&asked(&server, with(json!({ "upper_bound": 1.0 }))).await), [4, 5]);
    assert_eq!(
        asked(&server, with(json!({ "k": i64::MAX }))).await.iter().map(RecordBatch::num_rows).sum::<usize>(),
        20
    );
    let several = asked(&server, with(json!({ "vector": [[0.0, 0.0], [9.0, 0.0]], "k": 2 }))).await;
    assert!(several[0].column_by_name("query_index").is_some());
    assert_eq!(ids(&several).len(), 4);
    for (wrong, named) in [
        (json!({ "vector": [1.0] }), "dim"),
        (json!({ "vector": [[1.0, 2.0], [1.0]] }), "vector 1"),
        (json!({ "vector_column": "id" }), "vector_column: table \"t\" has no vectors in column \"id\""),
        (json!({ "vector_column": "nope" }), "vector_column: table \"t\" has no column \"nope\""),
        (json!({ "distance_type": "manhattan" }), "distance_type"),
        (json!({ "k": 0 }), "field k"),
    ] {
        let (_, text) = server.post("/v1/table/t/query/", query(with(wrong))).await.refused(400);
        assert!(text.contains(named), "{text}");
    }
}

#[tokio::test]
async fn text_is_found_through_an_index() {
    let server = Server::with_table(&[1, 2, 3]).await;
    let index =
        json!({ "column": "name", "index_type": "FTS", "with_position": false, "base_tokenizer": "simple" });
    server.post("/v1/table/t/create_index/", index).await.ok();
    let text = json!({ "query": { "match": { "column": "name", "terms": "a2", "boost": 1.0, "fuzziness": 0,
        "max_expansions": 50, "operator": "Or", "prefix_length": 0 } } });
    let found = asked(&server, json!({ "full_text_query": text, "k": 10 })).await;
    assert_eq!(ids(&found), [2]);
    assert!(found[0].column_by_name("_score").is_some());
    let found =
        asked(&server, json!({ "full_text_query": { "columns": ["name"], "query": "a3" }, "k": 10 })).await;
    assert_eq!(ids(&found), [3]);
}
