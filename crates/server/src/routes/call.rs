//! What a request is about.
//!
//! Owns: [`Call`] with the table it names, its query parameters and headers, and its two forms: [`Reading`]
//! and [`Writing`], which is refused while the server stops. Does not own: what a key may do (`auth`),
//! bodies.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams};
use http::HeaderValue;
use http::header::CONTENT_ENCODING;
use http::request::Parts;
use url::form_urlencoded;

use crate::error::ApiError;
use crate::names::{DatabaseId, TableId};
use crate::service::Service;
use crate::tables::OpenTable;

/// How long a client waits at most.
const TIMEOUT: &str = "x-request-timeout-ms";
/// Nothing waits longer: a day.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest id of a request that is looked at.
const MAX_REQUEST_ID: usize = 64;

/// A request about a table.
#[derive(Clone, Debug)]
pub struct Call {
    /// The table.
    pub id: TableId,
    /// Query parameters.
    pub params: Params,
    /// What the path names besides the table: an index.
    pub index: Option<String>,
    /// `x-request-id`: clients that ask again repeat it.
    pub request_id: Option<String>,
    /// `x-request-timeout-ms`.
    pub timeout: Option<Duration>,
    service: Arc<Service>,
}

/// A request that changes nothing.
#[derive(Clone, Debug)]
pub struct Reading(pub Call);

/// A request that changes something.
#[derive(Clone, Debug)]
pub struct Writing(pub Call);

/// A request about the tables of a database.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The database, and where in it.
    pub database: DatabaseId,
    /// Query parameters.
    pub params: Params,
}

impl Call {
    async fn of(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, ApiError> {
        let database = database(parts)?;
        let path = path(parts, service).await?;
        let part = |name: &str| path.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let id = database.table(&part("id").unwrap_or_default())?;
        let timeout = timeout(parts)?;
        Ok(Self {
            id,
            params: Params::of(parts),
            index: part("index"),
            request_id: header(parts, "x-request-id")
                .filter(|id| id.len() <= MAX_REQUEST_ID)
                .map(str::to_owned),
            timeout,
            service: Arc::clone(service),
        })
    }

    /// What serves it.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// The table it is about.
    ///
    /// # Errors
    /// 404 when there is none; otherwise what storage says.
    pub async fn table(&self) -> Result<Arc<OpenTable>, ApiError> {
        self.service.table(&self.id).await
    }
}

impl FromRequestParts<Arc<Service>> for Reading {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, ApiError> {
        Call::of(parts, service).await.map(Self)
    }
}

impl FromRequestParts<Arc<Service>> for Writing {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, ApiError> {
        let call = Call::of(parts, service).await?;
        if service.is_draining() { Err(ApiError::draining()) } else { Ok(Self(call)) }
    }
}

impl FromRequestParts<Arc<Service>> for Listing {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, ApiError> {
        let mut database = database(parts)?;
        timeout(parts)?;
        let path = path(parts, service).await?;
        if let Some((_, namespace)) = path.iter().find(|(key, _)| key == "namespace") {
            database = database.namespace(namespace)?;
        }
        Ok(Self { database, params: Params::of(parts) })
    }
}

fn database(parts: &Parts) -> Result<DatabaseId, ApiError> {
    let text = |name: &str| match parts.headers.get(name).map(|value| value.to_str()) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) => Err(ApiError::invalid(format!("header {name}: it has other characters than ASCII"))),
    };
    unpacked(parts)?;
    DatabaseId::parse(text("x-lancedb-database")?, text("x-lancedb-database-prefix")?)
}

/// Refuses a body that would have to be unpacked first: what is in it would be taken for something else.
fn unpacked(parts: &Parts) -> Result<(), ApiError> {
    match parts.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"" | b"identity") => Ok(()),
        Some(_) => Err(ApiError::invalid(
            "header content-encoding: bodies are not unpacked here, send them as they are; batches of an \
             Arrow stream may be packed with LZ4 or Zstandard",
        )),
    }
}

fn timeout(parts: &Parts) -> Result<Option<Duration>, ApiError> {
    let Some(value) = parts.headers.get(TIMEOUT) else { return Ok(None) };
    match value.to_str().ok().and_then(|ms| ms.parse().ok()) {
        Some(ms) => Ok(Some(Duration::from_millis(ms).min(MAX_TIMEOUT))),
        None => Err(ApiError::invalid(format!("header {TIMEOUT}: a number of milliseconds is needed"))),
    }
}

fn header<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    parts.headers.get(name)?.to_str().ok()
}

async fn path(parts: &mut Parts, service: &Arc<Service>) -> Result<Vec<(String, String)>, ApiError> {
    let params = RawPathParams::from_request_parts(parts, service).await;
    let params = params.map_err(|error| ApiError::invalid(format!("path of the request: {error}")))?;
    Ok(params.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// Parameters behind the `?` of a request.
#[derive(Clone, Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    fn of(parts: &Parts) -> Self {
        let pairs = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        Self(pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }

    /// The last value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    /// A parameter that is `true` or `false`.
    ///
    /// # Errors
    /// 400 when it is neither.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(other) => {
                Err(ApiError::invalid(format!("parameter {name}: {other:?} is neither true nor false")))
            }
        }
    }

    /// A parameter that is a number.
    ///
    /// # Errors
    /// 400 when it is none.
    pub fn number(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let number = self.get(name).map(str::parse).transpose();
        number.map_err(|_| ApiError::invalid(format!("parameter {name}: a number is needed")))
    }

    /// Refuses a branch: none are kept.
    ///
    /// # Errors
    /// 501 when one is named.
    pub fn no_branch(&self) -> Result<(), ApiError> {
        no_branch(self.get("branch"))
    }
}

/// Refuses a branch: none are kept.
///
/// # Errors
/// 501 when one is named.
pub fn no_branch(branch: Option<&str>) -> Result<(), ApiError> {
    match branch {
        None | Some("" | "main") => Ok(()),
        Some(branch) => {
            Err(ApiError::unsupported(format!("branch {branch:?}: this server keeps no branches")))
        }
    }
}
