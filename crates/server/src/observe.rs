//! What is seen of each request: its id, its log line, its place in the metrics.
//!
//! Owns: [`observe`], the outermost layer. The id is the client's `x-request-id`, or one of ours where that
//! is missing or no id; it goes on with the request, back with the reply, and stands in every line logged on
//! the way. Logged of a request: method, path without query, database, status, time, name of its key. Nothing
//! else, so no key and no body ever is.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::HeaderName;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use headwater::EnvRef;
use tracing::Instrument;

use crate::auth::DATABASE_HEADER;
use crate::linger::Lingering;
use crate::metrics::Metrics;

/// Names a request; a client uses it again when it sends the request again.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is taken over.
const LONGEST_ID: usize = 128;
/// Characters of a path or database name that are logged.
const LOGGED: usize = 200;
/// The label of requests without a route.
const UNMATCHED: &str = "unmatched";

/// What observing needs.
#[derive(Clone, Debug)]
pub struct Observer {
    /// Where requests are counted.
    pub metrics: Arc<Metrics>,
    /// Clock and ids.
    pub env: EnvRef,
}

/// Sees a request through.
pub async fn observe(State(observer): State<Observer>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers(), &observer.env);
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let method = request.method().clone();
    let route = route_of(&request);
    let began = observer.env.now();
    let database = request.headers().get(DATABASE_HEADER).and_then(|name| name.to_str().ok());
    let database = database.unwrap_or_default();
    let span = tracing::info_span!(
        target: "headwater::http",
        "request",
        id = id.to_str().unwrap_or_default(),
        %method,
        path = ?shortened(request.uri().path()),
        database = ?shortened(database),
        key = tracing::field::Empty,
    );
    let request = request.map(|body| Body::new(Lingering::new(body, Arc::clone(&observer.env))));
    let mut response = next.run(request).instrument(span.clone()).await;
    let took = observer.env.now().saturating_sub(began);
    observer.metrics.http.answered(&method, &route, response.status(), took);
    span.in_scope(|| log(&method, &route, response.status(), took));
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

fn log(method: &Method, route: &str, status: StatusCode, took: Duration) {
    let (status, ms) = (status.as_u16(), took.as_secs_f64() * 1e3);
    match status {
        500.. => tracing::warn!(target: "headwater::http", %method, route, status, ms, "answered"),
        // Asked for every few seconds by whatever runs the server.
        _ if route == "/healthz" || route == "/readyz" || route == "/metrics" => {
            tracing::debug!(target: "headwater::http", %method, route, status, ms, "answered");
        }
        _ => tracing::info!(target: "headwater::http", %method, route, status, ms, "answered"),
    }
}

/// The pattern of its route; with and without the slash at the end is one route.
fn route_of(request: &Request) -> String {
    let Some(matched) = request.extensions().get::<MatchedPath>() else { return UNMATCHED.to_owned() };
    let pattern = matched.as_str();
    match pattern.trim_end_matches('/') {
        "" => pattern.to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

fn request_id(headers: &HeaderMap, env: &EnvRef) -> HeaderValue {
    let is_part_of_an_id =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    let is_id = |id: &&HeaderValue| {
        let bytes = id.as_bytes();
        !bytes.is_empty() && bytes.len() <= LONGEST_ID && bytes.iter().copied().all(is_part_of_an_id)
    };
    headers.get(REQUEST_ID).filter(is_id).cloned().unwrap_or_else(|| {
        HeaderValue::from_str(&env.uuid().to_string()).unwrap_or(HeaderValue::from_static("none"))
    })
}

fn shortened(text: &str) -> &str {
    let end = text.char_indices().nth(LOGGED).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or(text)
}
