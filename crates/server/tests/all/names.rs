//! Paths and names as clients send them.

use serde_json::json;

use crate::support::{Server, rows, upload};

#[tokio::test]
async fn slashes_at_both_ends_are_as_the_client_likes() {
    let server = Server::with_table(&[1]).await;
    for path in ["/v1/table", "/v1/table/", "//v1/table/?limit=10", "//v1/table"] {
        assert_eq!(server.get(path).await.json(), json!({ "tables": ["t"] }), "{path}");
    }
    for path in ["/v1/table/t/count_rows", "/v1/table/t/count_rows/", "//v1/table/t/count_rows/"] {
        assert_eq!(server.send(path, &[], "").await.json(), 1, "{path}");
    }
}

#[tokio::test]
async fn what_is_not_done_is_501_and_never_a_missing_table() {
    let server = Server::with_table(&[1]).await;
    for path in [
        "/v1/table/t/multipart_write/create",
        "/v1/table/t/tags/list/",
        "/v1/table/t/branches/list/",
        "/v1/table/t/compact/",
        "/v1/jobs/list",
        "/v1/namespace/n/create",
        "/v1/",
    ] {
        let reply = server.post(path, json!({})).await;
        assert_eq!(reply.headers["phalanx-version"], "0.3.0");
        assert_eq!(reply.refused(501).0, 0, "{path}");
    }
    server.post("/v2/table", json!({})).await.refused(404);
}

#[tokio::test]
async fn no_name_reaches_outside_of_its_database() {
    let server = Server::start().await;
    let body = upload(&[rows(&[1], "a")]);
    for id in ["..%2Fx", "x%2F..", "a%2Fb", "..%5Cx", "a%00", "%C3%BC", ".hidden", "x%0a", &"y".repeat(300)] {
        let (code, _) = server.send(&format!("/v1/table/{id}/create/"), &[], body.clone()).await.refused(400);
        assert_eq!(code, 13, "{id}");
    }
    for database in ["..", "../x", "a/b", "a%2fb", "$x"] {
        let headers = [("x-lancedb-database-prefix", database)];
        if database.starts_with("..") || database.contains(['%', '$']) {
            server.send("/v1/table/t/create/", &headers, body.clone()).await.refused(400);
        }
    }
    assert_eq!(std::fs::read_dir(server.dir.path()).unwrap().count(), 0, "nothing was made");
}
