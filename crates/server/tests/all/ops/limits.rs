//! Too much at once is refused early, with statuses upon which clients try again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use headwater_server::auth::Auth;
use serde_json::json;

use super::client::Connection;
use super::toy::{Running, config};
use crate::support::{Server, rows, upload};

const INSERT: &str = "/v1/table/t/insert/";
const SLOW: &str = "/v1/table/t/slow/";
const QUERY: &str = "/v1/table/t/query/";

#[tokio::test]
async fn one_write_too_many_is_refused_with_429_and_reads_go_on() {
    let running = Running::start(config(|config| config.limits.writes = 1), Auth::Open).await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    first.begin("POST", SLOW, &[], 0).await.unwrap();
    running.active(1).await;
    let refused = second.send("POST", INSERT, &[], b"rows").await;
    assert_eq!((refused.status, refused.code()), (429, 21));
    assert_eq!(refused.json()["error"], "Too many concurrent writes");
    assert_eq!(second.send("GET", "/v1/table/", &[], b"").await.status, 200);
    running.toy.gate.add_permits(1);
    assert_eq!(first.reply().await.unwrap().status, 200);
    assert_eq!(second.send("POST", INSERT, &[], b"rows").await.text(), "4");
    assert_eq!(running.toy.written.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_reply_that_is_still_being_sent_is_under_way() {
    let running = Running::start(config(|config| config.limits.reads = 1), Auth::Open).await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    first.begin("POST", QUERY, &[], 0).await.unwrap();
    assert_eq!(first.head().await.unwrap().status, 200);
    let refused = second.send("POST", QUERY, &[], b"").await;
    assert_eq!((refused.status, refused.code()), (503, 17));
    assert_eq!(second.send("POST", INSERT, &[], b"").await.status, 200, "writes go on");
    // A reader that goes away gives its place back.
    drop(first);
    while second.send("GET", "/v1/table/", &[], b"").await.status != 200 {}
}

#[tokio::test]
async fn a_body_that_pauses_for_too_long_is_given_up() {
    let running = Running::start(config(|config| config.limits.body_pause_seconds = 1), Auth::Open).await;
    let mut connection = running.connect().await;
    connection.begin("POST", INSERT, &[], 10).await.unwrap();
    connection.write(b"half").await.unwrap();
    let reply = connection.reply().await.unwrap();
    assert_eq!((reply.status, reply.code()), (503, 17));
    assert!(reply.text().contains("paused for 1 s"), "{}", reply.text());
    assert_eq!(running.toy.written.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_stopped_upload_part_of_which_is_written_is_not_to_be_sent_again_where_that_doubles_it() {
    for (key, expected) in [(false, 422), (true, 503)] {
        let server = Server::with_limits(|limits| limits.body_pause_seconds = 1).await;
        let batch = |name: &str| if key { rows(&[1], name) } else { without_key(&rows(&[1], name)) };
        server.send("/v1/table/t/create/", &[], upload(&[batch("a")])).await.ok();
        let spec = json!({ "sharding": { "mode": "unsharded" } });
        server.post("/v1/table/t/enable_rte/", spec).await.ok();
        // The first 16 MiB are read before anything of them is written.
        let body = upload(&vec![batch(&"x".repeat(1 << 20)); 24]);
        let mut connection = Connection::open(server.url.split("://").nth(1).unwrap().parse().unwrap()).await;
        connection.begin("POST", INSERT, &[("x-lancedb-database", "db")], body.len()).await.unwrap();
        connection.write(&body[..body.len() - 20]).await.unwrap();
        let reply = connection.reply().await.unwrap();
        assert_eq!(reply.status, expected, "{}", reply.text());
        assert_eq!(server.count().await, if key { 1 } else { 1 + durable(reply.text()) });
    }
}

/// How many rows a refusal says are durable.
fn durable(text: &str) -> i64 {
    let (before, _) = text.split_once(" rows of the request are durable").unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

fn without_key(rows: &RecordBatch) -> RecordBatch {
    let fields = rows
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_metadata(HashMap::new()))
        .collect::<Vec<_>>();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), rows.columns().to_vec()).unwrap()
}

#[tokio::test]
async fn a_body_that_trickles_for_ever_is_given_up() {
    let changed = config(|config| config.limits.body_seconds = 1);
    let running = Running::start(changed, Auth::Open).await;
    let mut connection = running.connect().await;
    connection.begin("POST", INSERT, &[], 1 << 40).await.unwrap();
    // As fast as it goes, which is never fast enough for a terabyte.
    let reply = loop {
        if connection.write(&[0; 64]).await.is_err() {
            break connection.reply().await;
        }
        tokio::select! {
            biased;
            reply = connection.reply() => break reply,
            () = tokio::task::yield_now() => {}
        }
    };
    let reply = reply.expect("a reply");
    assert_eq!((reply.status, reply.code()), (503, 17));
    assert!(reply.text().contains("longer than 1 s"), "{}", reply.text());
}

/// Sends the head of a write and all of its body but one byte.
async fn almost(running: &Running, bytes: usize) -> Connection {
    let mut connection = running.connect().await;
    connection.begin("POST", INSERT, &[], bytes).await.unwrap();
    connection.write(&vec![0; bytes - 1]).await.unwrap();
    connection
}

#[tokio::test]
async fn memory_of_bodies_is_bounded_and_given_back() {
    const ALL: usize = 64 << 10;
    let limited = config(|config| {
        config.limits.body_bytes = ALL as u64;
        config.limits.body_bytes_each = ALL as u64;
    });
    let running = Running::start(limited, Auth::Open).await;
    let mut first = almost(&running, ALL).await;
    let mut second = running.connect().await;
    let used = async |connection: &mut Connection| {
        let page = connection.send("GET", "/metrics", &[], b"").await;
        let line = page.text().lines().find(|line| line.starts_with("headwater_http_bodies_bytes "));
        line.unwrap().split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    while used(&mut second).await != ALL {}
    for (path, expected) in [(INSERT, (429, 21)), (QUERY, (503, 17))] {
        let refused = second.send("POST", path, &[], b"rows").await;
        assert_eq!((refused.status, refused.code()), expected, "{path}");
    }
    first.write(b"!").await.unwrap();
    assert_eq!(first.reply().await.unwrap().text(), ALL.to_string());
    assert_eq!(second.send("POST", INSERT, &[], b"rows").await.status, 200);
    assert_eq!(used(&mut second).await, 0);
}

#[tokio::test]
async fn of_a_long_body_no_more_is_counted_than_is_kept_of_it() {
    let limited = config(|config| {
        config.limits.body_bytes = 64 << 10;
        config.limits.body_bytes_each = 16 << 10;
    });
    let running = Running::start(limited, Auth::Open).await;
    let mut connection = running.connect().await;
    // Longer than all memory for bodies together.
    let reply = connection.send("POST", INSERT, &[], &vec![0; 1 << 20]).await;
    assert_eq!(reply.text(), (1 << 20).to_string());
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    let running = Running::start(config(|config| config.limits.connections = 1), Auth::Open).await;
    let mut first = running.connect().await;
    assert_eq!(first.send("GET", "/healthz", &[], b"").await.status, 200);
    let mut second = running.connect().await;
    second.begin("GET", "/healthz", &[], 0).await.unwrap();
    assert_eq!(first.send("GET", "/healthz", &[], b"").await.status, 200);
    drop(first);
    assert_eq!(second.reply().await.unwrap().status, 200);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time_and_not_before() {
    let running = Running::start(config(|config| config.keep_alive_seconds = 1), Auth::Open).await;
    let mut connection = running.connect().await;
    assert_eq!(connection.send("GET", "/healthz", &[], b"").await.status, 200);
    assert_eq!(connection.send("GET", "/healthz", &[], b"").await.status, 200, "kept between requests");
    connection.closed().await;
}

#[tokio::test]
async fn a_panic_fails_one_request_and_tells_nothing() {
    let running = Running::start(config(|_| {}), Auth::Open).await;
    let mut connection = running.connect().await;
    let reply = connection.send("POST", "/v1/table/t/panic/", &[], b"").await;
    assert_eq!((reply.status, reply.code()), (500, 18));
    assert!(!reply.text().contains("toy"), "{}", reply.text());
    assert_eq!(connection.send("GET", "/v1/table/", &[], b"").await.status, 200);
}

#[tokio::test]
async fn a_doubled_slash_at_the_front_is_one() {
    let running = Running::start(config(|_| {}), Auth::Open).await;
    let mut connection = running.connect().await;
    assert_eq!(connection.send("GET", "//v1/table/?limit=10", &[], b"").await.text(), "tables");
    assert_eq!(connection.send("GET", "///healthz", &[], b"").await.status, 200);
}

#[tokio::test]
async fn a_client_that_still_sends_is_told_why_it_is_refused() {
    let running = Running::start(config(|config| config.limits.writes = 1), Auth::Open).await;
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    first.begin("POST", SLOW, &[], 0).await.unwrap();
    running.active(1).await;
    // More than fits into any buffer on the way, all of it sent before the reply is looked at.
    let refused = second.send("POST", INSERT, &[], &vec![0; 32 << 20]).await;
    assert_eq!((refused.status, refused.code()), (429, 21));
    assert_eq!(second.send("GET", "/v1/table/", &[], b"").await.status, 200, "on the same connection");
}
