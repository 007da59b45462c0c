//! What is counted as requests come.
//!
//! Owns: [`Http`]: requests, their time, errors by kind, connections. Counted by `observe` and `serve`.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

/// Upper limits of the sizes of request times, in seconds.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 10.0, 60.0];
/// Methods with a label of their own; any text can be one.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"];

/// Counters of requests.
#[derive(Clone, Debug)]
pub struct Http {
    pub(super) requests: Family<RequestLabels, Counter>,
    pub(super) duration: Family<RouteLabel, Histogram, fn() -> Histogram>,
    pub(super) errors: Family<KindLabel, Counter>,
    pub(super) connections: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RequestLabels {
    method: &'static str,
    route: Arc<str>,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RouteLabel {
    route: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct KindLabel {
    kind: &'static str,
}

/// Counts an open connection until it is dropped.
#[derive(Debug)]
pub struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            errors: Family::default(),
            connections: Gauge::default(),
        }
    }
}

impl Http {
    /// A request was answered.
    pub fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let method = METHODS.into_iter().find(|known| known == &method.as_str()).unwrap_or("other");
        let route: Arc<str> = route.into();
        let labels = RequestLabels { method, route: Arc::clone(&route), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.duration.get_or_create(&RouteLabel { route }).observe(took.as_secs_f64());
        if let Some(kind) = kind_of(status) {
            self.errors.get_or_create(&KindLabel { kind }).inc();
        }
    }

    /// A connection was opened.
    pub fn connected(&self) -> OpenConnection {
        self.connections.inc();
        OpenConnection(self.connections.clone())
    }
}

/// What an error says; none for what is no error.
fn kind_of(status: StatusCode) -> Option<&'static str> {
    Some(match status.as_u16() {
        ..400 => return None,
        401 => "unauthenticated",
        403 => "forbidden",
        404 => "not_found",
        409 => "conflict",
        429 => "throttled",
        503 => "unavailable",
        501 => "unsupported",
        400..=499 => "invalid",
        _ => "internal",
    })
}
