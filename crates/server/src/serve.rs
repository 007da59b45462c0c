//! Listening, connections, and the way down.
//!
//! Owns: [`Server`]: binding, one task a connection, TLS handshakes, and going down in order: accept no more,
//! let what is under way end within half of the deadline, drain the app within the rest, cut what is left. A
//! second signal ends it at once. Does not own: which signals (the caller), routes, what a drained app does.
//!
//! What was acknowledged before, or is acknowledged on the way, is durable (P1); what comes too late is
//! refused with a status upon which clients try again, or its connection is closed before anything was read
//! of it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use futures::future::{Either, select};
use futures::{FutureExt, Stream, StreamExt};
use headwater::EnvRef;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::app::{App, AppError};
use crate::auth::Auth;
use crate::config::Config;
use crate::stack::{Door, collapse_leading_slashes};
use crate::stall::Unstalled;
use crate::tls::{self, TlsError};

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The pause after a connection could not be accepted: most often the process has too many files open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often an HTTP/2 connection is asked whether it still is there.
const PING: Duration = Duration::from_secs(60);

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// No HTTPS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Not everything could be flushed in time. What was acknowledged is durable all the same.
    #[error("the way down was not finished: {source}")]
    Drain {
        /// What the app said.
        source: AppError,
    },
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// In order.
    Drained,
    /// By a second signal, in the middle of going down.
    AtOnce,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    app: Arc<dyn App>,
    door: Door,
    keep_alive: Duration,
    reply_stall: Duration,
    drain: Duration,
    places: Arc<Semaphore>,
    env: EnvRef,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Begins to listen; connections wait until [`Server::run`].
    ///
    /// # Errors
    /// [`ServeError::Bind`], [`ServeError::Tls`].
    pub async fn bind(
        config: &Config,
        auth: Auth,
        app: Arc<dyn App>,
        env: EnvRef,
    ) -> Result<Self, ServeError> {
        let tls = match (&config.tls.cert, &config.tls.key) {
            (Some(cert), Some(key)) => Some(tls::acceptor(cert, key)?),
            _ => None,
        };
        let asked = SocketAddr::new(config.listen, config.port);
        let failed = |source| ServeError::Bind { address: asked, source };
        let listener = TcpListener::bind(asked).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let door = Door::new(&app, auth, &config.limits, Arc::clone(&env));
        Ok(Self {
            listener,
            address,
            tls,
            app,
            door,
            keep_alive: config.keep_alive(),
            reply_stall: config.limits.reply_stall(),
            drain: config.drain(),
            places: Arc::new(Semaphore::new(config.limits.connections.min(Semaphore::MAX_PERMITS))),
            env,
        })
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Serves until `stops` yields or ends, then goes down in order; at once when it yields again.
    ///
    /// # Errors
    /// [`ServeError::Drain`].
    pub async fn run(self, stops: impl Stream<Item = ()> + Unpin) -> Result<Ended, ServeError> {
        let Self { listener, tls, app, door, keep_alive, reply_stall, drain, places, env, .. } = self;
        let mut stops = stops;
        let graceful = GracefulShutdown::new();
        // Dropped when this function ends, which cuts what is left.
        let (_uncut, cut) = watch::channel(());
        let connections =
            Connections { router: door.router(), door: door.clone(), tls, keep_alive, reply_stall, env, cut };
        accept(&listener, &connections, &places, &graceful, &mut stops).await;
        drop(listener);
        door.limiter.drain();
        tracing::info!(target: "headwater::server", deadline_s = drain.as_secs(), "going down");
        let down = go_down(&connections.env, graceful, app.as_ref(), drain);
        match select(Box::pin(down), stops.next()).await {
            Either::Left((end, _)) => end.map(|()| Ended::Drained),
            // A caller without a second signal waits for the end all the same.
            Either::Right((None, down)) => down.await.map(|()| Ended::Drained),
            Either::Right((Some(()), _)) => Ok(Ended::AtOnce),
        }
    }
}

async fn go_down(
    env: &EnvRef,
    graceful: GracefulShutdown,
    app: &dyn App,
    deadline: Duration,
) -> Result<(), ServeError> {
    let began = env.now();
    let under_way = graceful.count();
    let ended = select(Box::pin(graceful.shutdown()), env.sleep(deadline / 2)).await;
    if matches!(ended, Either::Right(_)) {
        tracing::warn!(target: "headwater::server", under_way, "requests are still under way; flushing now");
    }
    let left = deadline.saturating_sub(env.now().saturating_sub(began));
    app.drain(left).await.map_err(|source| ServeError::Drain { source })?;
    let left = deadline.saturating_sub(env.now().saturating_sub(began));
    if let Either::Right((_, ending)) = ended {
        // Replies that are still being read have what is left of the time.
        select(ending, env.sleep(left)).await;
    }
    Ok(())
}

/// Accepts connections until `stops` yields or ends.
async fn accept(
    listener: &TcpListener,
    connections: &Connections,
    places: &Arc<Semaphore>,
    graceful: &GracefulShutdown,
    stops: &mut (impl Stream<Item = ()> + Unpin),
) {
    let mut stop = stops.next();
    loop {
        let next = Box::pin(async {
            let place = Arc::clone(places).acquire_owned().await;
            (place, listener.accept().await)
        });
        let (place, accepted) = match select(stop, next).await {
            Either::Left(_) => return,
            Either::Right((accepted, waiting)) => {
                stop = waiting;
                accepted
            }
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connections.clone().serve(stream, graceful.watcher());
                let held = async move {
                    connection.await;
                    drop(place);
                };
                connections.env.spawn("connection", held.boxed()).detach();
            }
            Err(error) => {
                tracing::warn!(target: "headwater::server", %error, "a connection was not accepted");
                connections.env.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What each connection is served with.
#[derive(Clone)]
struct Connections {
    router: Router,
    door: Door,
    tls: Option<TlsAcceptor>,
    keep_alive: Duration,
    reply_stall: Duration,
    env: EnvRef,
    cut: watch::Receiver<()>,
}

impl Connections {
    async fn serve(self, stream: TcpStream, watcher: Watcher) {
        let _open = self.door.metrics.http.connected();
        // A small reply goes out at once; a stream that refuses the option works without.
        let _ = stream.set_nodelay(true);
        let stream = Unstalled::new(stream, self.reply_stall, Arc::clone(&self.env));
        let Some(tls) = &self.tls else { return self.speak(stream, false, watcher).await };
        match select(Box::pin(tls.accept(stream)), self.env.sleep(HANDSHAKE)).await {
            Either::Left((Ok(stream), _)) => {
                let is_h2 = stream.get_ref().1.alpn_protocol() == Some(tls::H2);
                self.speak(stream, is_h2, watcher).await;
            }
            Either::Left((Err(error), _)) => {
                tracing::debug!(target: "headwater::server", %error, "a TLS handshake failed");
            }
            Either::Right(_) => tracing::debug!(target: "headwater::server", "a TLS handshake took too long"),
        }
    }

    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        is_h2: bool,
        watcher: Watcher,
    ) {
        let router = self.router.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            collapse_leading_slashes(&mut request);
            router.clone().oneshot(request)
        });
        let mut http = auto::Builder::new(TokioExecutor::new());
        http = if is_h2 { http.http2_only() } else { http.http1_only() };
        // The time for the head of a request begins with the last reply, so it bounds idle connections too.
        http.http1().timer(TokioTimer::new()).header_read_timeout(self.keep_alive);
        http.http2().timer(TokioTimer::new()).keep_alive_interval(PING);
        let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
        let mut cut = self.cut.clone();
        let end = select(Box::pin(watcher.watch(connection)), Box::pin(cut.changed())).await;
        if let Either::Left((Err(error), _)) = end {
            tracing::debug!(target: "headwater::server", %error, "a connection ended");
        }
    }
}
