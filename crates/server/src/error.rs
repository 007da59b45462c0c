//! The one error of the protocol, and how every error below becomes it.
//!
//! Owns: [`ApiError`], its codes, and which status a client gets. The rules clients live by: 409, 429 and 5xx
//! are asked again, with the same body, so they are for what may succeed later and harms nobody when it is
//! done twice; 404 means that the table is missing, and nothing else; everything permanent is another 4xx.
//! Texts say what, where and what to do, and name no path of storage. Refusals at the door are of it too.
//! Does not own: what went wrong.

use std::any::Any;

use crate::json::Json;
use axum::response::{IntoResponse, Response};
use headwater::{Error, QueryError, ShardError, TableError};
use http::StatusCode;
use serde_json::json;

/// Characters of a text that a client is sent.
const MAX_TEXT: usize = 4_000;

/// What an error is about, as the LanceDB namespace protocol numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    /// This server does not do it.
    Unsupported = 0,
    /// There is no such table.
    TableNotFound = 4,
    /// There is a table of this name.
    TableExists = 5,
    /// There is no such index.
    IndexNotFound = 6,
    /// There is no such version.
    VersionNotFound = 11,
    /// The request is wrong.
    InvalidInput = 13,
    /// The key does not allow it.
    Forbidden = 15,
    /// There is no key, or none that is known.
    Unauthenticated = 16,
    /// It cannot be done now.
    Unavailable = 17,
    /// A fault of this server.
    Internal = 18,
    /// The table is not in a state for it.
    InvalidState = 19,
    /// Columns that do not fit.
    Schema = 20,
    /// Too much at once.
    Throttled = 21,
}

/// Whether a client that gets no definite answer may ask the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Doing it twice is doing it once: reads, upserts by key, and what carries a request id that is
    /// remembered.
    Harmless,
    /// It could have been done, and would be done twice.
    Doubles,
}

/// What a client is told when something fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// What it is about.
    pub code: Code,
    /// For people: what, where, what to do.
    pub text: String,
}

impl ApiError {
    /// An error with this status.
    pub fn new(status: StatusCode, code: Code, text: impl Into<String>) -> Self {
        Self { status, code, text: text.into() }
    }

    /// 400: the request is wrong, and stays so.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidInput, text)
    }

    /// 400: the table is not in a state for it.
    pub fn state(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidState, text)
    }

    /// 401: no key, or none that is known.
    pub fn unauthenticated(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Code::Unauthenticated, text)
    }

    /// 403: the key does not reach that far.
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, Code::Forbidden, text)
    }

    /// 429: too much at once. Nothing was done.
    pub fn throttled(text: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, Code::Throttled, text)
    }

    /// 501: not done by this server.
    pub fn unsupported(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, Code::Unsupported, text)
    }

    /// 404: no such table.
    pub fn no_table(name: &str) -> Self {
        let text = format!("there is no table {name:?} in this database: create it, or check the name");
        Self::new(StatusCode::NOT_FOUND, Code::TableNotFound, text)
    }

    /// 400: what was asked for needs a write tier.
    pub fn no_tier(name: &str) -> Self {
        Self::state(format!(
            "table {name:?} has no write tier: install one, or leave use_rte and use_lsm out"
        ))
    }

    /// 400: a write tier has no versions.
    pub fn at_version(name: &str) -> Self {
        Self::invalid(format!(
            "table {name:?} has a write tier, which is read as it is now, not at a version: leave it out, or \
             ask the base alone with use_rte(false), or use_lsm(false)"
        ))
    }

    /// 503 when asking again is harmless; else 422, which no client asks again.
    pub fn unavailable(text: impl Into<String>, again: Again) -> Self {
        match again {
            Again::Harmless => Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, text),
            Again::Doubles => {
                let text = format!(
                    "{}; it is not known whether it was done: read the table before doing it again",
                    text.into()
                );
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, Code::Unavailable, text)
            }
        }
    }

    /// 500: a fault of this server. What it is goes to the log.
    pub fn internal(what: &str, error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, what, "internal error");
        let text = format!("an internal error while {what}: the log of the server has more");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, text)
    }

    /// 400: a value that Lance refuses, of the field or parameter `what`.
    pub fn value(what: &str, error: lance::Error) -> Self {
        Self::invalid(format!("{what}: {}", Self::lance(what, error, Again::Harmless).text))
    }

    /// What Lance says of the table called `name`.
    pub fn lance(name: &str, error: lance::Error, again: Again) -> Self {
        use lance::Error as E;
        match &error {
            E::VersionNotFound { message } => {
                return Self::new(StatusCode::BAD_REQUEST, Code::VersionNotFound, message.clone());
            }
            E::TooMuchWriteContention { .. } | E::RetryableCommitConflict { .. } => {
                // Not committed for certain.
                return Self::throttled(format!("table {name:?}: too many concurrent writes; try again"));
            }
            _ => {}
        }
        Self::table(name, &headwater_lance::table_error(name, error), again)
    }

    /// What the files of the table called `name` say.
    pub fn table(name: &str, error: &TableError, again: Again) -> Self {
        match error {
            TableError::Invalid { reason } => Self::invalid(without_prefix(reason, name)),
            TableError::SchemaChanged { reason } => {
                Self::new(StatusCode::BAD_REQUEST, Code::Schema, reason.clone())
            }
            TableError::NotFound { path } if path == name => Self::no_table(name),
            TableError::NotFound { .. } | TableError::Unavailable { .. } => {
                tracing::warn!(%error, table = name, "storage");
                Self::unavailable(format!("table {name:?}: storage does not answer as it should"), again)
            }
            TableError::Corrupt { .. } => Self::internal(&format!("reading table {name:?}"), error),
        }
    }

    /// What the write tier of the table called `name` says.
    pub fn tier(name: &str, error: &Error, again: Again) -> Self {
        match error {
            Error::Table { table, source } => match &**source {
                TableError::NotFound { path }
                    if path.trim_end_matches('/') == table.trim_end_matches('/') =>
                {
                    Self::no_table(name)
                }
                source => Self::table(name, source, again).named(table, name),
            },
            Error::Shard { source, .. } => Self::shard(name, source, again),
            Error::Put { first, .. } => {
                let mut of_first = Self::tier(name, first, again);
                of_first.text =
                    format!("{}: {}", error.to_string().replace(&first.to_string(), ""), of_first.text);
                of_first
            }
            Error::Read { source, .. } | Error::Query { source } => Self::query(name, source),
            Error::Rows { column, row, reason, .. } => {
                let row = row.map(|row| format!(", row {row} of its batch")).unwrap_or_default();
                Self::invalid(format!("table {name:?}: column {column:?}{row}: {reason}"))
            }
            Error::Setting { .. } | Error::StorageOption { .. } => Self::invalid(error.to_string()),
            Error::Closed { .. } => Self::draining(),
            Error::Storage { source, .. } => {
                tracing::warn!(%source, table = name, "storage");
                Self::unavailable(format!("table {name:?}: storage does not answer as it should"), again)
            }
            other if other.is_retryable() => {
                tracing::warn!(error = %other, table = name, "tier");
                Self::unavailable(format!("table {name:?}: it could not be done now"), again)
            }
            other => Self::internal(&format!("working on table {name:?}"), other),
        }
    }

    /// What a shard of the table called `name` says.
    pub fn shard(name: &str, error: &ShardError, again: Again) -> Self {
        match error {
            ShardError::Invalid { reason } => Self::invalid(format!("table {name:?}: {reason}")),
            ShardError::SchemaChanged { reason } => {
                Self::new(StatusCode::BAD_REQUEST, Code::Schema, reason.clone())
            }
            // Nothing was written.
            ShardError::Backpressure { .. } => Self::throttled(format!("table {name:?}: {error}")),
            ShardError::Sealed { .. } => Self::state(format!("table {name:?}: {error}")),
            ShardError::Corrupt { .. } | ShardError::Internal { .. } => {
                Self::internal(&format!("working on table {name:?}"), error)
            }
            _ => {
                tracing::warn!(%error, table = name, "shard");
                Self::unavailable(format!("table {name:?}: its writer cannot go on now"), again)
            }
        }
    }

    /// What a read of the table called `name` says.
    pub fn query(name: &str, error: &QueryError) -> Self {
        match error {
            QueryError::Table(error) => Self::table(name, error, Again::Harmless),
            QueryError::Shard { source, .. } => Self::shard(name, source, Again::Harmless),
            QueryError::OfTable { source, .. } => Self::query(name, source),
            QueryError::Gap { .. } => Self::unavailable(error.to_string(), Again::Harmless),
            _ => Self::invalid(format!("table {name:?}: {error}")),
        }
    }

    /// 503: the server is about to stop. Nothing was done.
    pub fn draining() -> Self {
        let text = "this server is about to stop and takes no writes: try again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::InvalidState, text)
    }

    /// The table's address in a text replaced by its name.
    pub fn named(mut self, address: &str, name: &str) -> Self {
        self.text = self.text.replace(address, name);
        self
    }
}

fn without_prefix(reason: &str, name: &str) -> String {
    match reason.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")) {
        Some(rest) => format!("table {name:?}: {rest}"),
        None => format!("table {name:?}: {reason}"),
    }
}

/// Without the middle of a long text, which is what was sent more often than not: its beginning says what is
/// wrong, its end why.
fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    let part = MAX_TEXT / 2;
    let ends = (text.char_indices().nth(part), text.char_indices().nth_back(part));
    match ends {
        (Some((head, _)), Some((tail, _))) if head < tail => {
            let (head, tail) = (text.get(..head), text.get(tail..));
            format!("{} … {}", head.unwrap_or_default(), tail.unwrap_or_default()).into()
        }
        _ => text.into(),
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({ "error": shortened(&self.text), "code": self.code as u16 });
        (self.status, Json(body)).into_response()
    }
}

/// The reply of a request that panicked: a fault of ours (P14), of which the log says more.
pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text");
    ApiError::internal("answering a request", &said).into_response()
}
