//! What is wrong is refused with 4xx that names it, and changes nothing.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Server, pair, rows, upload};

#[tokio::test]
async fn bodies_that_are_wrong_name_the_field() {
    let server = Server::with_table(&[1]).await;
    let cases: [(&str, Value, &str); 12] = [
        ("query", json!({ "k": "many" }), "field k"),
        ("query", json!({ "filter": "id >" }), "id >"),
        ("query", json!({ "filter": "nope = 1" }), "nope"),
        ("query", json!({ "columns": ["nope"] }), "nope"),
        ("query", json!({ "columns": 3 }), "field columns"),
        ("query", json!({ "full_text_query": 3 }), "field full_text_query"),
        ("query", json!({ "use_lsm": true }), "no write tier"),
        ("count_rows", json!({ "predicate": "x y z" }), ""),
        ("update", json!({ "updates": [["nope", "1"]] }), "nope"),
        ("update", json!({ "updates": [] }), "updates"),
        ("delete", json!({}), "predicate"),
        ("enable_rte", json!({ "sharding": { "mode": "sideways" } }), "sideways"),
    ];
    for (route, body, named) in cases {
        let (_, text) = server.post(&format!("/v1/table/t/{route}/"), body.clone()).await.refused(400);
        assert!(text.contains(named), "{route} {body}: {text}");
        assert!(!text.contains(server.dir.path().to_str().unwrap()), "{text}");
    }
    for route in ["query", "update", "delete", "count_rows", "create_index", "add_columns"] {
        server.send(&format!("/v1/table/t/{route}/"), &[], "{ no json").await.refused(400);
    }
    assert_eq!(server.table().await, [pair(1, "a")]);
}

#[tokio::test]
async fn uploads_that_are_cut_or_damaged_change_nothing() {
    let server = Server::with_table(&[1]).await;
    let whole = upload(&[rows(&[2, 3], "b"), rows(&[4], "b")]);
    for cut in (0..whole.len() - 1).step_by(7) {
        let reply = server.send("/v1/table/t/insert/", &[], &whole[..cut]).await;
        let (_, text) = reply.refused(400);
        assert!(text.contains("message"), "{text}");
    }
    for place in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0xff;
        let reply = server.send("/v1/table/t/insert/", &[], damaged).await;
        assert!(reply.status < 500, "byte {place}: {}", reply.text());
        if reply.status == 200 {
            // The damage was in values, or in padding.
            server.post("/v1/table/t/delete/", json!({ "predicate": "id != 1 or name != 'a1'" })).await.ok();
        }
    }
    let mut long = whole.clone();
    long.push(0);
    server.send("/v1/table/t/insert/", &[], long).await.refused(400);
    server.send("/v1/table/t/insert/", &[], "hello").await.refused(400);
    assert_eq!(server.table().await, [pair(1, "a")]);
}

#[tokio::test]
async fn a_claim_to_unpack_to_more_than_there_is_room_for_is_refused() {
    let server = Server::with_table(&[1]).await;
    let mut body = upload(&[rows(&(0..10_000).collect::<Vec<_>>(), "b")]);
    // The unpacked length of the buffer of ids.
    let claimed = 80_000_i64.to_le_bytes();
    let place = body.windows(8).position(|bytes| bytes == claimed).unwrap();
    body[place..place + 8].copy_from_slice(&(1_i64 << 50).to_le_bytes());
    let (_, text) = server.send("/v1/table/t/insert/", &[], body).await.refused(400);
    assert!(text.contains("unpacks"), "{text}");
}

#[tokio::test]
async fn rows_that_do_not_fit_name_the_column() {
    let server = Server::with_table(&[1]).await;
    let other = arrow_array::record_batch!(("id", Utf8, ["x"])).unwrap();
    let (_, text) = server.insert(other).await.refused(400);
    assert!(text.contains("id"), "{text}");
    assert_eq!(server.table().await, [pair(1, "a")]);
}

#[tokio::test]
async fn a_connection_that_breaks_in_an_upload_changes_nothing() {
    let server = Server::with_table(&[1]).await;
    let body = upload(&[rows(&[2], "b")]);
    let address = server.url.strip_prefix("http://").unwrap();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = "POST /v1/table/t/insert/ HTTP/1.1\r\nhost: x\r\nx-lancedb-database: db\r\n\
        transfer-encoding: chunked\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(format!("{:x}\r\n", body.len()).as_bytes()).await.unwrap();
    socket.write_all(&body).await.unwrap();
    // Without the chunk that says that it is all.
    socket.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // Whether there is an answer to a connection that is half closed does not matter.
    let _ = socket.read_to_end(&mut answer).await;
    assert_eq!(server.table().await, [pair(1, "a")]);
}
