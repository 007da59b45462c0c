//! A reply's body that holds something until it is sent.
//!
//! Owns: [`Held`]. Used by `limits`: a reply that is still being sent counts as under way.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

/// `body`, holding `held` until it has ended or is dropped.
#[derive(Debug)]
pub struct Held<T> {
    body: Body,
    held: Option<T>,
}

impl<T> Held<T> {
    /// A body that holds `held`.
    pub fn new(body: Body, held: T) -> Self {
        Self { body, held: Some(held) }
    }
}

impl<T: Unpin> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) {
            self.held = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
