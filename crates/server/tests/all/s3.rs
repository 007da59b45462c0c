//! A server whose data is on a real S3 server.

use headwater::{OpenOptions, TableOptions};
use serde_json::{Value, json};

use crate::clients;
use crate::python::python;
use crate::s3_server::{BUCKET, KEY, REGION, S3Server};
use crate::support::{Server, ids, pair, rows, upload, vectors};

async fn serve(s3: &S3Server, data: &str) -> Server {
    let endpoint = s3.endpoint();
    let credentials = [("access_key_id", KEY), ("secret_access_key", KEY)];
    let place = [("endpoint", endpoint.as_str()), ("allow_http", "true"), ("region", REGION)];
    let storage_options = place.into_iter().chain(credentials);
    let storage_options = storage_options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let table = TableOptions { storage_options, ..TableOptions::default() };
    let options = OpenOptions { table, ..OpenOptions::default() };
    Server::start_at(&format!("s3://{BUCKET}/{data}"), options, |_| {}).await
}

async fn names(server: &Server) -> Value {
    server.get("/v1/table/?limit=10").await.json()["tables"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_on_s3_are_made_written_read_and_dropped_and_outlive_the_server() {
    let s3 = S3Server::start();
    let server = serve(&s3, "data").await;
    assert_eq!(names(&server).await, json!([]));
    server.send("/v1/table/t/create/?mode=create", &[], upload(&[rows(&[1, 2, 3], "a")])).await.ok();
    server.send("/v1/table/t/create/", &[], upload(&[rows(&[1], "a")])).await.refused(400);
    server.insert(rows(&[4], "b")).await.ok();
    assert_eq!(server.table().await, [pair(1, "a"), pair(2, "a"), pair(3, "a"), pair(4, "b")]);

    let buckets = json!({ "mode": "bucket", "column": "id", "num_buckets": 2 });
    server.post("/v1/table/t/enable_rte/", json!({ "sharding": buckets })).await.ok();
    server.upsert(rows(&[3, 5, 6], "c"), "").await.ok();
    server.send("/v1/table/t/flush/", &[], "").await.ok();
    server.upsert(rows(&[6, 7], "d"), "").await.ok();
    let updates = json!({ "updates": [["name", "'e1'"]], "predicate": "id = 1" });
    assert_eq!(server.post("/v1/table/t/update/", updates).await.json()["rows_updated"], 1);
    let delete = json!({ "predicate": "id = 2" });
    assert_eq!(server.post("/v1/table/t/delete/", delete).await.json()["num_deleted_rows"], 1);
    let expected = [pair(1, "e"), pair(3, "c"), pair(4, "b"), pair(5, "c"), pair(6, "d"), pair(7, "d")];
    assert_eq!(server.table().await, expected);

    // As after a crash: another server takes over what is in the WAL.
    let other = serve(&s3, "data").await;
    assert_eq!(other.table().await, expected);
    other.upsert(rows(&[8], "f"), "").await.ok();
    assert_eq!(other.count().await, 7);
    let (_, text) = server.upsert(rows(&[9], "g"), "").await.refused(503);
    assert!(text.contains("writer"), "the first one lost its shards: {text}");
    assert_eq!(names(&other).await, json!(["t"]));
    other.send("/v1/table/t/drop/", &[], "").await.ok();
    assert_eq!(names(&other).await, json!([]));
    other.post("/v1/table/t/count_rows/", json!({})).await.refused(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_on_s3_are_searched_over_all_tiers() {
    let s3 = S3Server::start();
    let server = serve(&s3, "data").await;
    server.send("/v1/table/t/create/", &[], upload(&[vectors(0..10)])).await.ok();
    server.post("/v1/table/t/enable_rte/", json!({ "sharding": { "mode": "unsharded" } })).await.ok();
    server.insert(vectors(10..20)).await.ok();
    server.send("/v1/table/t/flush/", &[], "").await.ok();
    server.insert(vectors(20..30)).await.ok();
    for (near, expected) in [(3.1, [3, 4]), (12.9, [13, 12]), (22.1, [22, 23])] {
        let query = json!({ "k": 2, "vector": [near, 0.0], "vector_column": "v", "prefilter": true });
        assert_eq!(ids(&server.post("/v1/table/t/query/", query).await.rows()), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_work_with_tables_on_s3() {
    let s3 = S3Server::start();
    for script in ["python/plain.py", "python/tier.py"] {
        let server = serve(&s3, script).await;
        clients::run_on(&server, python().into(), script).await;
    }
}
