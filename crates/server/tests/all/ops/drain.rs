//! Going down: what was accepted is answered, what comes too late is not done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::Request;
use headwater_server::app::App;
use headwater_server::auth::Auth;
use headwater_server::serve::Ended;
use headwater_server::stack::Door;
use tokio::net::TcpStream;
use tower::ServiceExt;

use super::toy::{Running, Toy, ToyApp, config, env};

const INSERT: &str = "/v1/table/t/insert/";
const SLOW: &str = "/v1/table/t/slow/";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn going_down_under_load_loses_no_request_that_was_done() {
    let running = Running::start(config(|_| {}), Auth::Open).await;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (address, seen) = (running.address, Arc::clone(&acknowledged));
    let writer = move || {
        let seen = Arc::clone(&seen);
        async move {
            let Ok(stream) = TcpStream::connect(address).await else { return };
            let mut connection = super::client::Connection::over(stream);
            loop {
                match connection.try_send("POST", INSERT, &[], b"rows").await {
                    Some(reply) if reply.status == 200 => seen.fetch_add(1, Ordering::SeqCst),
                    Some(reply) => {
                        assert_eq!((reply.status, reply.code()), (503, 17), "{}", reply.text());
                        return;
                    }
                    None => return,
                };
            }
        }
    };
    let writers: Vec<_> = (0..16).map(|_| tokio::spawn(writer())).collect();
    while acknowledged.load(Ordering::SeqCst) < 500 {
        tokio::task::yield_now().await;
    }
    running.stop();
    let toy = Arc::clone(&running.toy);
    assert_eq!(running.ended().await, Ended::Drained);
    for writer in writers {
        writer.await.unwrap();
    }
    let done = toy.written.load(Ordering::SeqCst);
    assert_eq!(acknowledged.load(Ordering::SeqCst), done, "what was done was acknowledged, and nothing else");
    assert!(done >= 500);
    assert_eq!(*toy.drained.lock(), [0], "the app was drained once, with nothing under way");
}

#[tokio::test]
async fn a_request_under_way_is_waited_for_and_no_new_one_is_taken() {
    let running = Running::start(config(|_| {}), Auth::Open).await;
    let (mut under_way, mut idle) = (running.connect().await, running.connect().await);
    assert_eq!(idle.send("GET", "/healthz", &[], b"").await.status, 200);
    under_way.begin("POST", SLOW, &[], 0).await.unwrap();
    running.active(1).await;
    running.stop();
    // Closed because the server goes down: it was idle.
    idle.closed().await;
    assert!(TcpStream::connect(running.address).await.is_err(), "nobody listens any more");
    assert!(running.toy.drained.lock().is_empty(), "not before the request has ended");
    running.toy.gate.add_permits(1);
    assert_eq!(under_way.reply().await.unwrap().status, 200);
    let toy = Arc::clone(&running.toy);
    assert_eq!(running.ended().await, Ended::Drained);
    assert_eq!(*toy.drained.lock(), [0]);
}

#[tokio::test]
async fn a_request_that_never_ends_keeps_the_server_no_longer_than_the_deadline() {
    let running = Running::start(config(|config| config.drain_seconds = 1), Auth::Open).await;
    let mut under_way = running.connect().await;
    under_way.begin("POST", SLOW, &[], 0).await.unwrap();
    running.active(1).await;
    running.stop();
    let toy = Arc::clone(&running.toy);
    assert_eq!(running.ended().await, Ended::Drained);
    assert_eq!(*toy.drained.lock(), [1], "drained all the same, within the deadline");
    under_way.closed().await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let running = Running::start(config(|config| config.drain_seconds = 3600), Auth::Open).await;
    let mut under_way = running.connect().await;
    under_way.begin("POST", SLOW, &[], 0).await.unwrap();
    running.active(1).await;
    running.stop();
    running.stop();
    let toy = Arc::clone(&running.toy);
    assert_eq!(running.ended().await, Ended::AtOnce);
    assert!(toy.drained.lock().is_empty());
    under_way.closed().await;
}

#[tokio::test]
async fn what_comes_while_it_goes_down_is_to_be_sent_again() {
    let app: Arc<dyn App> = Arc::new(ToyApp(Arc::new(Toy::default())));
    let door = Door::new(&app, Auth::Open, &config(|_| {}).limits, env());
    let status = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        door.router().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!((status("GET", "/readyz").await, status("POST", INSERT).await), (200, 200));
    door.limiter.drain();
    for (method, path) in [("GET", "/readyz"), ("POST", INSERT), ("GET", "/v1/table/")] {
        assert_eq!(status(method, path).await, 503, "{path}");
    }
    for path in ["/healthz", "/metrics"] {
        assert_eq!(status("GET", path).await, 200, "{path}");
    }
}
