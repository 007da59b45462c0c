//! Ready is who can reach storage; whoever asks often does not make it ask often.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures::FutureExt;
use futures::future::join_all;
use headwater_server::app::App;
use headwater_server::auth::Auth;
use headwater_server::error::{Again, ApiError};
use headwater_server::stack::Door;
use headwater_store::env::SeededEnv;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::toy::{Toy, ToyApp, config};
use crate::support::Server;

async fn get(door: &Door, path: &str) -> (u16, String) {
    let request = Request::builder().uri(path).body(Body::empty()).unwrap();
    let reply = door.router().oneshot(request).await.unwrap();
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn a_server_is_ready_while_storage_answers_and_storage_is_asked_seldom() {
    let machine = SeededEnv::new(1);
    let toy = Arc::new(Toy::default());
    let app: Arc<dyn App> = Arc::new(ToyApp(Arc::clone(&toy)));
    let door = Door::new(&app, Auth::Open, &config(|_| {}).limits, machine.env());
    let asked = || toy.asked.load(Ordering::SeqCst);
    machine.block_on(async {
        let together = join_all((0..50).map(|_| get(&door, "/readyz"))).await;
        assert!(together.iter().all(|reply| *reply == (200, "ready\n".to_owned())), "{together:?}");
        assert_eq!(asked(), 1);
        *toy.storage.lock() = Some(Err(ApiError::unavailable("storage: it is away", Again::Harmless)));
        assert_eq!((get(&door, "/readyz").await.0, asked()), (200, 1), "the answer is kept for a moment");
        machine.env().sleep(Duration::from_secs(6)).await;
        let (status, text) = get(&door, "/readyz").await;
        assert!(status == 503 && text.contains("storage: it is away"), "{status} {text}");
        assert_eq!(get(&door, "/healthz").await, (200, "ok\n".to_owned()), "the process lives");
        assert_eq!((get(&door, "/readyz").await.0, asked()), (503, 2), "and so is that one");
        *toy.storage.lock() = Some(Ok(()));
        machine.env().sleep(Duration::from_secs(6)).await;
        assert_eq!((get(&door, "/readyz").await.0, asked()), (200, 3));
    });
}

#[test]
fn storage_that_does_not_answer_is_not_waited_for() {
    let machine = SeededEnv::new(1);
    let toy = Arc::new(Toy::default());
    *toy.storage.lock() = None;
    let app: Arc<dyn App> = Arc::new(ToyApp(Arc::clone(&toy)));
    let door = Door::new(&app, Auth::Open, &config(|_| {}).limits, machine.env());
    machine.block_on(async {
        let before = machine.env().now();
        let (status, text) = get(&door, "/readyz").await;
        assert!(status == 503 && text.contains("no answer within 3 s"), "{status} {text}");
        assert_eq!(machine.env().now() - before, Duration::from_secs(3), "simulated time");
        assert!(get(&door, "/healthz").now_or_never().is_some());
    });
}

#[tokio::test]
async fn a_data_directory_that_is_gone_is_told() {
    let server = Server::start().await;
    std::fs::remove_dir_all(server.dir.path()).unwrap();
    let (code, text) = server.get("/readyz").await.refused(503);
    assert_eq!((code, text.as_str()), (17, "storage: the data directory or bucket is not there"));
    assert_eq!(server.get("/healthz").await.status, 200);
}
