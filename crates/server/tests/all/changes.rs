//! Updates, deletes, columns and indexes of tables without a write tier.

use serde_json::json;

use crate::support::{Server, pair, rows};

#[tokio::test]
async fn rows_are_updated_and_deleted_by_predicate() {
    let server = Server::with_table(&[1, 2, 3]).await;
    let update = json!({ "updates": [["name", "'z' || cast(id as string)"]], "predicate": "id >= 2" });
    let done = server.post("/v1/table/t/update/", update).await.json();
    assert_eq!(done, json!({ "version": 2, "rows_updated": 2 }));
    assert_eq!(server.table().await, [pair(1, "a"), pair(2, "z"), pair(3, "z")]);
    let done = server.post("/v1/table/t/delete/", json!({ "predicate": "id = 2" })).await.json();
    assert_eq!(done, json!({ "version": 3, "num_deleted_rows": 1 }));
    assert_eq!(server.table().await, [pair(1, "a"), pair(3, "z")]);
}

#[tokio::test]
async fn columns_come_change_and_go() {
    let server = Server::with_table(&[1, 2]).await;
    let post = |path: &'static str, body| server.post(path, body);
    let added = json!({ "new_columns": [{ "name": "twice", "expression": "id * 2" }] });
    assert_eq!(post("/v1/table/t/add_columns/", added).await.json()["version"], 2);
    let altered =
        json!({ "alterations": [{ "path": "twice", "rename": "double", "data_type": { "type": "int32" } }] });
    post("/v1/table/t/alter_columns/", altered).await.ok();
    let metadata = json!({ "updates": [{ "path": "double", "metadata": { "unit": "rows", "gone": null } }] });
    post("/v1/table/t/update_field_metadata/", metadata).await.ok();
    let told = post("/v1/table/t/describe/", json!({})).await.json();
    let field = &told["schema"]["fields"][2];
    assert_eq!((&field["name"], &field["type"]["type"]), (&json!("double"), &json!("int32")));
    assert_eq!(field["metadata"], json!({ "unit": "rows" }));
    post("/v1/table/t/drop_columns/", json!({ "columns": ["double"] })).await.ok();
    let told = post("/v1/table/t/describe/", json!({})).await.json();
    assert_eq!(told["schema"]["fields"].as_array().unwrap().len(), 2);
    for (path, body) in [
        ("/v1/table/t/drop_columns/", json!({ "columns": ["none"] })),
        ("/v1/table/t/add_columns/", json!({ "new_columns": [{ "name": "x", "expression": "nope +" }] })),
        (
            "/v1/table/t/alter_columns/",
            json!({ "alterations": [{ "path": "id", "data_type": { "type": "tree" } }] }),
        ),
    ] {
        post(path, body).await.refused(400);
    }
}

#[tokio::test]
async fn indexes_are_made_listed_and_dropped() {
    let server = Server::with_table(&(0..100).collect::<Vec<_>>()).await;
    server.post("/v1/table/t/create_index/", json!({ "column": "id", "index_type": "BTREE" })).await.ok();
    server.insert(rows(&[1000], "a")).await.ok();
    let listed = server.post("/v1/table/t/index/list/", json!({ "version": null })).await.json();
    let index = &listed["indexes"][0];
    assert_eq!((&index["index_name"], &index["index_type"]), (&json!("id_idx"), &json!("BTREE")));
    assert_eq!(index["columns"], json!(["id"]));
    let stats = server.post("/v1/table/t/index/id_idx/stats/", json!({})).await.json();
    assert_eq!((&stats["num_indexed_rows"], &stats["num_unindexed_rows"]), (&json!(100), &json!(1)));
    assert_eq!(stats["index_type"], "BTREE");
    assert_eq!(server.post("/v1/table/t/index/none/stats/", json!({})).await.refused(404).0, 6);
    assert_eq!(server.send("/v1/table/t/index/none/drop/", &[], "").await.refused(404).0, 6);
    server.send("/v1/table/t/index/id_idx/drop/", &[], "").await.ok();
    assert_eq!(server.post("/v1/table/t/index/list/", json!({})).await.json(), json!({ "indexes": [] }));
    for body in
        [json!({ "column": "id", "index_type": "TREE" }), json!({ "column": "no", "index_type": "BTREE" })]
    {
        server.post("/v1/table/t/create_index/", body).await.refused(400);
    }
}
