//! A client that takes nothing of its reply is not waited for.

use headwater_server::auth::Auth;

use super::certificate::Certificate;
use super::client::Connection;
use super::tls::handshake;
use super::toy::{Running, config};
use super::wait::eventually;

const QUERY: &str = "/v1/table/t/query/";
/// A reply without an end.
const FLOOD: &str = "/v1/table/t/explain_plan/";

/// A server with a place for one reader, which may take nothing for a second.
async fn one_reader(certificate: Option<&Certificate>) -> Running {
    let limited = config(|config| {
        config.limits.reads = 1;
        config.limits.reply_stall_seconds = 1;
        config.tls.cert = certificate.map(Certificate::cert);
        config.tls.key = certificate.map(Certificate::key);
    });
    Running::start(limited, Auth::Open).await
}

#[tokio::test]
async fn a_reader_that_stops_is_cut_off_and_its_place_is_given_back() {
    let running = one_reader(None).await;
    let (mut stopped, mut second) = (running.connect().await, running.connect().await);
    stopped.begin("POST", FLOOD, &[], 0).await.unwrap();
    assert_eq!(stopped.head().await.unwrap().status, 200);
    assert_eq!(second.send("GET", "/v1/table/", &[], b"").await.status, 503, "its place is taken");
    eventually("the place is free", async || second.send("GET", "/v1/table/", &[], b"").await.status == 200)
        .await;
    // What was on its way still comes, and then nothing.
    stopped.closed().await;
}

#[tokio::test]
async fn over_tls_too() {
    let certificate = Certificate::new();
    let running = one_reader(Some(&certificate)).await;
    let connect = async || Connection::over(handshake(&running, &certificate, &[b"http/1.1"]).await);
    let (mut stopped, mut second) = (connect().await, connect().await);
    stopped.begin("POST", FLOOD, &[], 0).await.unwrap();
    assert_eq!(stopped.head().await.unwrap().status, 200);
    eventually("the place is free", async || {
        second.send("POST", "/v1/table/t/count_rows/", &[], b"").await.status == 404
    })
    .await;
    stopped.closed().await;
}

#[tokio::test]
async fn a_stream_of_http_2_that_takes_nothing_gives_its_place_back_and_leaves_the_others_alone() {
    let certificate = Certificate::new();
    let running = one_reader(Some(&certificate)).await;
    let mut client = super::tls::h2(&running, &certificate).await;
    let stopped = super::tls::post(&mut client, FLOOD, 0).await.unwrap();
    assert_eq!(stopped.status(), 200);
    // The same connection, whose other streams go on.
    let refused = super::tls::post(&mut client, QUERY, 0).await.unwrap();
    assert_eq!(refused.status(), 503, "its place is taken");
    eventually("the place is free", async || {
        super::tls::post(&mut client, QUERY, 0).await.unwrap().status() == 200
    })
    .await;
    let end = http_body_util::BodyExt::collect(stopped.into_body()).await;
    assert!(end.is_err(), "a reply that was broken off is no whole one");
}
