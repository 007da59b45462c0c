//! An app that stands for the protocol, and a server around it on a free port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use headwater::{EnvRef, TokioEnv};
use headwater_server::app::{App, AppError, OpenTable};
use headwater_server::auth::{Auth, Identity};
use headwater_server::config::Config;
use headwater_server::error::ApiError;
use headwater_server::serve::{Ended, ServeError, Server};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::client::Connection;

/// What the app has seen.
#[derive(Debug)]
pub struct Toy {
    /// Writes whose body came whole.
    pub written: AtomicU64,
    /// Requests in their route now.
    pub active: AtomicU64,
    /// What was active when the app was drained, once for each time.
    pub drained: Mutex<Vec<u64>>,
    /// Requests to `slow` and pieces of `stream` go on by one for each permit.
    pub gate: Semaphore,
    pub tables: Vec<OpenTable>,
    /// What storage says; nothing when it does not answer.
    pub storage: Mutex<Option<Result<(), ApiError>>>,
    /// How often it was asked.
    pub asked: AtomicU64,
}

impl Default for Toy {
    fn default() -> Self {
        Self {
            written: AtomicU64::default(),
            active: AtomicU64::default(),
            drained: Mutex::default(),
            gate: Semaphore::new(0),
            tables: Vec::new(),
            storage: Mutex::new(Some(Ok(()))),
            asked: AtomicU64::default(),
        }
    }
}

type Shared = State<Arc<Toy>>;

async fn insert(State(toy): Shared, body: Bytes) -> String {
    toy.active.fetch_add(1, Ordering::SeqCst);
    tokio::task::yield_now().await;
    toy.written.fetch_add(1, Ordering::SeqCst);
    toy.active.fetch_sub(1, Ordering::SeqCst);
    body.len().to_string()
}

async fn slow(State(toy): Shared, body: Bytes) -> String {
    toy.active.fetch_add(1, Ordering::SeqCst);
    toy.gate.acquire().await.unwrap().forget();
    toy.written.fetch_add(1, Ordering::SeqCst);
    toy.active.fetch_sub(1, Ordering::SeqCst);
    body.len().to_string()
}

async fn stream(State(toy): Shared) -> Response {
    let pieces = futures::stream::unfold(toy, |toy| async move {
        toy.gate.acquire().await.unwrap().forget();
        None::<(Result<Bytes, std::io::Error>, _)>
    });
    let first = futures::stream::iter([Ok(Bytes::from_static(b"first"))]);
    Response::new(Body::from_stream(first.chain(pieces)))
}

async fn flood() -> Response {
    let pieces = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![0; 64 << 10])));
    Response::new(Body::from_stream(pieces))
}

/// Answers when it has seen the beginning of the body.
async fn impatient(body: Body) -> StatusCode {
    body.into_data_stream().next().await.unwrap().unwrap();
    StatusCode::PAYLOAD_TOO_LARGE
}

async fn who(identity: Option<Extension<Identity>>, headers: HeaderMap) -> String {
    format!("{:?} {headers:?}", identity.map(|Extension(identity)| identity))
}

async fn panics() -> String {
    panic!("the toy panics: a text for the log only")
}

/// The toy as an app.
pub struct ToyApp(pub Arc<Toy>);

impl App for ToyApp {
    fn router(&self) -> Router {
        Router::new()
            .route("/v1/table/", get(|| async { "tables" }))
            .route("/v1/table/{id}/insert/", post(insert))
            .route("/v1/table/{id}/insert", post(insert))
            .route("/v1/table/{id}/slow/", post(slow))
            .route("/v1/table/{id}/query/", post(stream))
            .route("/v1/table/{id}/explain_plan/", post(flood))
            .route("/v1/table/{id}/update/", post(impatient))
            .route("/v1/table/{id}/describe/", post(who))
            .route("/v1/table/{id}/panic/", post(panics))
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&self.0))
    }

    fn tables(&self) -> Vec<OpenTable> {
        self.0.tables.clone()
    }

    fn open_tables(&self) -> usize {
        self.0.tables.len()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        match self.0.storage.lock().clone() {
            Some(told) => Box::pin(std::future::ready(told)),
            None => Box::pin(std::future::pending()),
        }
    }

    fn drain(&self, _deadline: Duration) -> BoxFuture<'_, Result<(), AppError>> {
        self.0.drained.lock().push(self.0.active.load(Ordering::SeqCst));
        Box::pin(async { Ok(()) })
    }
}

/// A server that runs.
pub struct Running {
    pub address: SocketAddr,
    pub toy: Arc<Toy>,
    stops: mpsc::UnboundedSender<()>,
    end: JoinHandle<Result<Ended, ServeError>>,
}

pub fn env() -> EnvRef {
    Arc::new(TokioEnv::new())
}

/// With the defaults, on any free port, and `change`.
pub fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config { port: 0, no_auth: true, ..Config::default() };
    change(&mut config);
    config
}

impl Running {
    pub async fn start(config: Config, auth: Auth) -> Self {
        Self::with(config, auth, Toy::default()).await
    }

    pub async fn with(config: Config, auth: Auth, toy: Toy) -> Self {
        let toy = Arc::new(toy);
        let server = Server::bind(&config, auth, Arc::new(ToyApp(Arc::clone(&toy))), env()).await.unwrap();
        let address = server.url().split("://").nth(1).unwrap().parse().unwrap();
        let (stops, stopped) = mpsc::unbounded();
        let end = tokio::spawn(server.run(stopped));
        Self { address, toy, stops, end }
    }

    pub async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// As a signal does.
    pub fn stop(&self) {
        self.stops.unbounded_send(()).unwrap();
    }

    pub async fn ended(self) -> Ended {
        // Without this sender the stream of stops would end, which is another way to stop.
        let Self { stops, end, .. } = self;
        let ended = end.await.unwrap().unwrap();
        drop(stops);
        ended
    }

    /// Waits until so many requests are in their route.
    pub async fn active(&self, count: u64) {
        while self.toy.active.load(Ordering::SeqCst) != count {
            tokio::task::yield_now().await;
        }
    }
}
