//! Looks at the key of each request.
//!
//! Owns: where a key stands in a request, 401 and 403, and the [`Identity`] that goes on with the request.
//! The key itself goes no further: its headers are taken off. Does not own: what a route needs beyond
//! database and class. Both are checked here, before any route, so that no route can forget to.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::auth::identity::{Databases, Identity};
use crate::auth::watched::Keys;
use crate::class::Class;
use crate::error::ApiError;

/// Where LanceDB's clients put the key.
const API_KEY_HEADER: &str = "x-api-key";
/// The other way to send one.
const BEARER: &str = "Bearer ";
/// Names the database of a request.
pub const DATABASE_HEADER: &str = "x-lancedb-database";
/// A path that tells of all databases.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// Whether a server needs keys, and which.
#[derive(Clone, Debug)]
pub enum Auth {
    /// Anybody may do everything. On loopback addresses only.
    Open,
    /// One of these keys is needed.
    Keys(Arc<Keys>),
}

impl Auth {
    /// Whose request it is: nobody's in particular on an open server.
    ///
    /// # Errors
    /// 401 without a known key, 403 for what it may not do.
    fn identify(&self, request: &Request) -> Result<Option<Identity>, ApiError> {
        let Self::Keys(keys) = self else { return Ok(None) };
        let headers = request.headers();
        let key = key_in(headers).ok_or_else(|| {
            ApiError::unauthenticated("an API key is needed: send it in the header x-api-key")
        })?;
        let known = keys.now().identify(key);
        let identity = known.ok_or_else(|| ApiError::unauthenticated("the API key is not known here"))?;
        if request.uri().path() == METRICS_PATH {
            may_see_metrics(&identity)?;
        } else {
            may_use(&identity, headers)?;
        }
        if !identity.may_write && Class::of(request.method(), request.uri().path()) == Class::Write {
            return Err(ApiError::forbidden(format!(
                "the key {} may read only: this request changes something, or is none that reads",
                identity.name
            )));
        }
        Ok(Some(identity))
    }
}

/// Lets a request go on with its [`Identity`], or answers it.
pub async fn check(State(auth): State<Auth>, mut request: Request, next: Next) -> Response {
    let identity = match auth.identify(&request) {
        Ok(identity) => identity,
        Err(refusal) => return refusal.into_response(),
    };
    request.headers_mut().remove(API_KEY_HEADER);
    request.headers_mut().remove(AUTHORIZATION);
    if let Some(identity) = identity {
        tracing::Span::current().record("key", identity.name.as_str());
        request.extensions_mut().insert(identity);
    }
    next.run(request).await
}

fn key_in(headers: &HeaderMap) -> Option<&[u8]> {
    let given = headers.get(API_KEY_HEADER).map(|key| key.as_bytes());
    given.or_else(|| headers.get(AUTHORIZATION)?.as_bytes().strip_prefix(BEARER.as_bytes()))
}

fn may_see_metrics(identity: &Identity) -> Result<(), ApiError> {
    match identity.databases {
        Databases::All => Ok(()),
        Databases::List(_) => Err(ApiError::forbidden(format!(
            "the key {} is for some databases, and metrics tell of all: use a key for all databases",
            identity.name
        ))),
    }
}

fn may_use(identity: &Identity, headers: &HeaderMap) -> Result<(), ApiError> {
    if identity.databases == Databases::All {
        return Ok(());
    }
    // A name that is no text is nobody's.
    let named = headers.get(DATABASE_HEADER).map(|name| name.to_str().unwrap_or_default());
    match named {
        Some(name) if identity.databases.contains(name) => Ok(()),
        Some(_) => Err(ApiError::forbidden(format!("the key {} is not for this database", identity.name))),
        None => Err(ApiError::forbidden(format!(
            "the key {} is for some databases: name one in the header {DATABASE_HEADER}",
            identity.name
        ))),
    }
}
