//! What every request goes through before its route, and the routes every server has.
//!
//! Owns: [`Door`] and the order of its layers: seen (`observe`), caught when it panics, known (`auth`), let
//! in (`limits`), answered. `/healthz`, which looks at nothing but the process, and `/readyz` (`ready`) need
//! no key and count against no limit; `/metrics` needs one.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use headwater::EnvRef;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::auth::{self, Auth};
use crate::config::Limits;
use crate::error::{ApiError, panicked};
use crate::limits::{self, Limiter};
use crate::metrics::{self, Metrics};
use crate::observe::{Observer, observe};
use crate::ready::Ready;

/// What stands before an app.
#[derive(Clone, Debug)]
pub struct Door {
    /// Lets requests in.
    pub limiter: Arc<Limiter>,
    /// Counts them.
    pub metrics: Arc<Metrics>,
    router: Router,
}

impl Door {
    /// Before `app`.
    pub fn new(app: &Arc<dyn App>, auth: Auth, limits: &Limits, env: EnvRef) -> Self {
        let limiter = Limiter::new(limits.clone(), Arc::clone(&env));
        let ready_to = Ready::new(Arc::clone(app), Arc::clone(&limiter), Arc::clone(&env));
        let metrics = Metrics::new(Arc::clone(&limiter), Arc::clone(app));
        let observer = Observer { metrics: Arc::clone(&metrics), env };
        // Routes are added one by one: with a merge, what is answered where there is no route would lose its
        // layers, and with them the question for a key.
        let router = app
            .router()
            .layer(from_fn_with_state(Arc::clone(&limiter), limits::admit))
            .route(auth::METRICS_PATH, get(scrape).with_state(Arc::clone(&metrics)))
            .layer(from_fn_with_state(auth, auth::check))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready).with_state(ready_to))
            .layer(CatchPanicLayer::custom(panicked))
            .layer(from_fn_with_state(observer, observe));
        Self { limiter, metrics, router }
    }

    /// All routes behind it.
    pub fn router(&self) -> Router {
        self.router.clone()
    }
}

/// A `host_override` that ends in a slash makes clients ask for `//v1/…`: one slash is meant.
pub fn collapse_leading_slashes<B>(request: &mut Request<B>) {
    let Some(target) = request.uri().path_and_query().map(|target| target.as_str()) else { return };
    if !target.starts_with("//") {
        return;
    }
    // Without scheme and host the rest is a target by itself. One that is none goes on as it came, and finds
    // no route.
    if let Ok(uri) = format!("/{}", target.trim_start_matches('/')).parse::<Uri>() {
        *request.uri_mut() = uri;
    }
}

async fn ready(State(ready): State<Arc<Ready>>) -> Result<&'static str, ApiError> {
    ready.check().await.map(|()| "ready\n")
}

async fn scrape(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
