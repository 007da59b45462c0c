//! What is answered when a request gets no further than the door.
//!
//! Owns: [`Refusal`]: status, code and text, in the form in which LanceDB's clients read errors. Does not
//! own: errors of routes. Which statuses clients send again (429, 503) decides what is answered when.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A request that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Of the reply.
    pub status: StatusCode,
    /// The namespace's number of the kind of error.
    pub code: u32,
    /// For people: what, and what to do. Without internals.
    pub text: String,
}

/// The namespace's numbers for errors; those used here.
mod code {
    pub const UNSUPPORTED: u32 = 0;
    pub const PERMISSION_DENIED: u32 = 15;
    pub const UNAUTHENTICATED: u32 = 16;
    pub const UNAVAILABLE: u32 = 17;
    pub const INTERNAL: u32 = 18;
    pub const THROTTLED: u32 = 21;
}

impl Refusal {
    fn new(status: StatusCode, code: u32, text: impl Into<String>) -> Self {
        Self { status, code, text: text.into() }
    }

    /// No key, or none that is known. Clients do not send it again.
    pub fn unauthenticated(text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code::UNAUTHENTICATED, text)
    }

    /// The key does not reach that far. Clients do not send it again.
    pub fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code::PERMISSION_DENIED, text)
    }

    /// Too much at once. Clients send it again, later.
    pub fn throttled(text: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code::THROTTLED, text)
    }

    /// Not now. Clients send it again, later.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code::UNAVAILABLE, text)
    }

    /// Nobody answers that here. Clients do not send it again, and do not take it for a missing table.
    pub fn unsupported(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, code::UNSUPPORTED, text)
    }

    /// A fault of ours, of which the log tells more.
    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL, text)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.text, "code": self.code }).to_string();
        (self.status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}
