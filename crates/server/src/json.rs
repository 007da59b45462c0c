//! A reply in JSON.
//!
//! Owns: [`Json`]. Does not own: bodies of requests (`bodies`).

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use serde::Serialize;

use crate::error::ApiError;

/// The value as the body of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => ApiError::internal("encoding a reply", &error).into_response(),
        }
    }
}
