//! Which path is which handler.
//!
//! Owns: [`router`]. Every route is there with a slash at its end and without; a path that begins with two
//! slashes is taken for one, for clients glue it to whatever address they were given. What is not there under
//! `/v1/` is 501: clients take 404 for a missing table. Every reply carries the version of the protocol. A
//! panic of a handler is a 500 and nothing worse. Does not own: what handlers do.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, StatusCode, Uri};
use tower::ServiceExt;
use tower_http::catch_panic::CatchPanicLayer;

use crate::error::{ApiError, Code, panicked};
use crate::routes::{columns, indexes, query, rows, rte, tables, versions};
use crate::service::Service;

/// The version of the protocol: from 0.3.0 on, text queries have structure; from 0.4.0 on, uploads come in
/// parts, which this server does not do.
const PROTOCOL: (HeaderName, HeaderValue) =
    (HeaderName::from_static("phalanx-version"), HeaderValue::from_static("0.3.0"));

type Route = MethodRouter<Arc<Service>>;

/// The protocol, served by `service`.
pub fn router(service: Arc<Service>) -> Router {
    let mut router = Router::new();
    for (path, route) in routes() {
        router = router.route(&format!("{path}/"), route.clone()).route(path, route);
    }
    let router = router.method_not_allowed_fallback(otherwise).fallback(missing).with_state(service);
    let outer = router.clone();
    // Only what matched nothing comes here; with one slash less it may.
    outer
        .fallback(move |request: Request| again(router, request))
        .layer(DefaultBodyLimit::disable())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(map_response(stamped))
}

fn routes() -> Vec<(&'static str, Route)> {
    vec![
        ("/v1/table", get(tables::list)),
        ("/v1/namespace/{namespace}/table/list", get(tables::list)),
        ("/v1/table/{id}/create", post(tables::create)),
        ("/v1/table/{id}/describe", post(tables::describe)),
        ("/v1/table/{id}/drop", post(tables::drop)),
        ("/v1/table/{id}/insert", post(rows::insert)),
        ("/v1/table/{id}/merge_insert", post(rows::merge)),
        ("/v1/table/{id}/update", post(rows::update)),
        ("/v1/table/{id}/delete", post(rows::delete)),
        ("/v1/table/{id}/query", post(query::query)),
        ("/v1/table/{id}/count_rows", post(query::count)),
        ("/v1/table/{id}/explain_plan", post(query::explain)),
        ("/v1/table/{id}/analyze_plan", post(query::analyze)),
        ("/v1/table/{id}/stats", post(versions::stats)),
        ("/v1/table/{id}/version/list", post(versions::list)),
        ("/v1/table/{id}/add_columns", post(columns::add)),
        ("/v1/table/{id}/alter_columns", post(columns::alter)),
        ("/v1/table/{id}/drop_columns", post(columns::drop)),
        ("/v1/table/{id}/update_field_metadata", post(columns::metadata)),
        ("/v1/table/{id}/create_index", post(indexes::create)),
        ("/v1/table/{id}/index/list", post(indexes::list)),
        ("/v1/table/{id}/index/{index}/stats", post(indexes::stats)),
        ("/v1/table/{id}/index/{index}/drop", post(indexes::drop)),
        ("/v1/table/{id}/flush", post(rte::flush)),
        ("/v1/table/{id}/enable_rte", post(rte::install)),
        ("/v1/table/{id}/disable_rte", post(rte::remove)),
        ("/v1/table/{id}/get_rte_spec", post(rte::read_rte)),
        ("/v1/table/{id}/flush_rte", post(rte::flush_quietly)),
        ("/v1/table/{id}/compact_rte", post(rte::compact)),
        ("/v1/table/{id}/get_rte_stats", post(rte::stats_rte)),
        ("/v1/table/{id}/set_lsm_write_spec", post(rte::install)),
        ("/v1/table/{id}/unset_lsm_write_spec", post(rte::remove)),
        ("/v1/table/{id}/get_lsm_write_spec", post(rte::read_lsm)),
        ("/v1/table/{id}/flush_lsm", post(rte::flush_quietly)),
        ("/v1/table/{id}/compact_lsm", post(rte::compact)),
        ("/v1/table/{id}/get_lsm_stats", post(rte::stats_lsm)),
    ]
}

/// The request with one slash less at its beginning, if it has two.
async fn again(router: Router, mut request: Request) -> Response {
    let Some(uri) = with_one_slash(request.uri()) else { return missing(request).await.into_response() };
    *request.uri_mut() = uri;
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn with_one_slash(uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query()?.as_str();
    let path = path.strip_prefix("//").map(|rest| format!("/{rest}"))?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

async fn missing(request: Request) -> ApiError {
    let path: String = request.uri().path().chars().take(200).collect();
    let text = format!("this server does not do {} {path}", request.method());
    match path.starts_with("/v1/") {
        true => ApiError::unsupported(text),
        false => ApiError::new(StatusCode::NOT_FOUND, Code::Unsupported, text),
    }
}

/// What is there, asked for with another method.
async fn otherwise(request: Request) -> ApiError {
    let path: String = request.uri().path().chars().take(200).collect();
    let text = format!("method {}: {path} takes another one, which header allow names", request.method());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, Code::Unsupported, text)
}

async fn stamped(mut response: Response) -> Response {
    let (name, value) = PROTOCOL;
    response.headers_mut().insert(name, value);
    response
}
