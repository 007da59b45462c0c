//! What is not HTTP, or only half of it.

use super::client::{say, say_and_end};
use super::dice::Dice;
use crate::support::{Server, pair, rows, upload};

fn address(server: &Server) -> String {
    server.url.strip_prefix("http://").unwrap().to_owned()
}

fn head(route: &str, more: &str) -> String {
    format!(
        "POST /v1/table/t/{route}/ HTTP/1.1\r\nhost: x\r\nx-lancedb-database: db\r\n\
         connection: close\r\n{more}\r\n"
    )
}

/// Sends what is wrong; the answer is a refusal or none.
async fn refused(server: &Server, bytes: &[u8]) {
    let got = say_and_end(&address(server), bytes).await;
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    assert!(
        got.status == 0 || (400..500).contains(&got.status),
        "{} {} to {start:?}",
        got.status,
        got.text()
    );
}

#[tokio::test]
async fn a_request_that_is_cut_anywhere_changes_nothing() {
    let server = Server::with_table(&[1]).await;
    let body = upload(&[rows(&[2], "b")]);
    let mut whole = head("insert", &format!("content-length: {}\r\n", body.len())).into_bytes();
    whole.extend_from_slice(&body);
    for cut in 0..whole.len() {
        refused(&server, &whole[..cut]).await;
    }
    assert_eq!(server.table().await, [pair(1, "a")]);
    assert_eq!(say(&address(&server), &whole).await.status, 200, "it was a good one");
}

#[tokio::test]
async fn what_is_not_http_is_refused_or_hung_up_on() {
    let server = Server::with_table(&[1]).await;
    let long = "x".repeat(300_000);
    let many: String = (0..2_000).map(|n| format!("x-{n}: {n}\r\n")).collect();
    let lines = [
        "\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        "GET  HTTP/1.1\r\n\r\n".to_owned(),
        "GET /v1/table HTTP/9.9\r\n\r\n".to_owned(),
        "GET /v1/table\r\n\r\n".to_owned(),
        "\u{0}\u{1}\u{2}\r\n\r\n".to_owned(),
        "G@T /v1/table HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        "GET /v1/ta ble HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        "GET /v1/table HTTP/1.1\r\nno colon\r\n\r\n".to_owned(),
        "GET /v1/table HTTP/1.1\r\na b: x\r\n\r\n".to_owned(),
        "GET /v1/table HTTP/1.1\r\n: x\r\n\r\n".to_owned(),
        "GET /v1/table HTTP/1.1\r\nx: a\u{0}b\r\n\r\n".to_owned(),
        format!("GET /v1/table?{long} HTTP/1.1\r\nhost: x\r\n\r\n"),
        format!("GET /v1/table HTTP/1.1\r\nx: {long}{long}\r\n\r\n"),
        format!("GET /v1/table HTTP/1.1\r\n{many}\r\n"),
        head("delete", "content-length: -1\r\n"),
        head("delete", "content-length: x\r\n"),
        head("delete", "content-length: 5\r\ncontent-length: 6\r\n"),
        head("delete", "content-length: 99999999999999999999999\r\n"),
        head("delete", "content-length: 50\r\n") + "{\"predicate\":",
        head("delete", "transfer-encoding: gzip\r\n") + "{}",
        head("delete", "transfer-encoding: chunked\r\n") + "zz\r\n{}\r\n0\r\n\r\n",
        head("delete", "transfer-encoding: chunked\r\n") + "-1\r\n{}\r\n0\r\n\r\n",
        head("delete", "transfer-encoding: chunked\r\n") + "ffffffffffffffffff\r\n{}",
        head("delete", "transfer-encoding: chunked\r\n") + "7fffffffffffffff\r\n{}",
        head("delete", "transfer-encoding: chunked\r\n") + "2\r\n{}xx\r\n0\r\n\r\n",
        head("delete", "transfer-encoding: chunked\r\n")
            + &format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(100_000)),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ];
    for line in lines {
        refused(&server, line.as_bytes()).await;
    }
    let dice = &mut Dice::of(7);
    for _ in 0..50 {
        let bytes = dice.bytes(400);
        refused(&server, &bytes).await;
        let good = head("query", "content-length: 2\r\n") + "{}";
        let mut damaged = good.into_bytes();
        let place = dice.below(damaged.len());
        damaged[place] = dice.byte();
        let got = say_and_end(&address(&server), &damaged).await;
        assert!(
            got.status < 500 || got.status == 501,
            "{} to {:?}",
            got.status,
            String::from_utf8_lossy(&damaged)
        );
    }
    assert_eq!(server.table().await, [pair(1, "a")]);
}
