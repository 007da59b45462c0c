//! What is left of a request's body when it is answered early.
//!
//! Owns: [`linger`]. A request that is refused before its body was read leaves the rest on the connection. A
//! server that closes it then takes the answer away from a client that is still sending, or that sends its
//! next request there. So the rest is read first, if it is not too much. Does not own: how long bodies may
//! take.

use std::sync::Arc;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body::Body as _;
use tokio::sync::Mutex;

/// Bytes of a body read for nothing.
const MAX_BYTES: usize = 32 << 20;

/// Answers a request, and reads what is left of its body.
pub async fn linger(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let left = Arc::new(Mutex::new(body.into_data_stream()));
    let shared = stream::unfold(Arc::clone(&left), |left| async move {
        let chunk = chunk(&left).await?;
        Some((chunk, left))
    });
    let response = next.run(Request::from_parts(parts, Body::from_stream(shared))).await;
    let mut read = 0_usize;
    while read < MAX_BYTES {
        match chunk(&left).await {
            Some(Ok(bytes)) => read = read.saturating_add(bytes.len()),
            Some(Err(_)) | None => break,
        }
    }
    response
}

async fn chunk(body: &Mutex<BodyDataStream>) -> Option<Result<Bytes, axum::Error>> {
    body.lock().await.next().await
}
