//! Requests that come again are answered with what the first one did.

use std::sync::Arc;

use serde_json::json;

use crate::support::Server;

const ID: &str = "6fa459ea-ee8a-4ca4-894e-db77e160355e";

fn increment() -> String {
    json!({ "updates": [["id", "id + 100"]], "predicate": "id > 1" }).to_string()
}

#[tokio::test]
async fn an_update_is_made_once_however_often_it_is_asked_for() {
    let server = Server::with_table(&[1, 2, 3]).await;
    let again = [("x-request-id", ID)];
    let first = server.send("/v1/table/t/update/", &again, increment()).await.json();
    assert_eq!(first["rows_updated"], 2);
    for _ in 0..3 {
        assert_eq!(server.send("/v1/table/t/update/", &again, increment()).await.json(), first);
    }
    let (one, other) = (
        server.send("/v1/table/t/update/", &again, increment()),
        server.send("/v1/table/t/update/", &again, increment()),
    );
    let (one, other) = futures::join!(one, other);
    assert_eq!((one.json(), other.json()), (first.clone(), first));
    let ids: Vec<i64> = server.table().await.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [1, 102, 103]);
    // Another body, another id, or an id that says nothing is another request.
    let other = json!({ "updates": [["id", "id + 1000"]], "predicate": "id > 1" }).to_string();
    server.send("/v1/table/t/update/", &again, other).await.ok();
    server.send("/v1/table/t/update/", &[("x-request-id", "1")], increment()).await.ok();
    server.send("/v1/table/t/update/", &[("x-request-id", "1")], increment()).await.ok();
    let ids: Vec<i64> = server.table().await.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [1, 1302, 1303]);
}

#[tokio::test]
async fn a_request_that_comes_again_after_a_crash_is_known_by_its_commit() {
    let server = Server::with_table(&[1, 2, 3]).await;
    let update = server.send("/v1/table/t/update/", &[("x-request-id", ID)], increment()).await.json();
    let delete_id = "11111111-ee8a-4ca4-894e-db77e160355e";
    let delete = json!({ "predicate": "id > 102" }).to_string();
    let deleted =
        server.send("/v1/table/t/delete/", &[("x-request-id", delete_id)], delete.clone()).await.json();
    // Another process, which remembers nothing.
    let other = Server::start_in(Arc::clone(&server.dir)).await;
    assert_eq!(
        other.send("/v1/table/t/delete/", &[("x-request-id", delete_id)], delete).await.json(),
        deleted
    );
    assert_eq!(other.send("/v1/table/t/update/", &[("x-request-id", ID)], increment()).await.json(), update);
    assert_eq!(update["rows_updated"], 2);
    assert_eq!(deleted["num_deleted_rows"], 1);
    let ids: Vec<i64> = other.table().await.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [1, 102]);
}

#[tokio::test]
async fn changes_of_columns_and_indexes_may_come_again_too() {
    let server = Server::with_table(&[1]).await;
    let again = [("x-request-id", ID)];
    for (path, body) in [
        ("/v1/table/t/add_columns/", json!({ "new_columns": [{ "name": "x", "expression": "id" }] })),
        ("/v1/table/t/drop_columns/", json!({ "columns": ["x"] })),
        ("/v1/table/t/create_index/", json!({ "column": "id", "index_type": "BTREE" })),
    ] {
        let first = server.send(path, &again, body.to_string()).await.json();
        assert_eq!(server.send(path, &again, body.to_string()).await.json(), first, "{path}");
        let other = Server::start_in(Arc::clone(&server.dir)).await;
        assert_eq!(other.send(path, &again, body.to_string()).await.json(), first, "{path}");
    }
}
