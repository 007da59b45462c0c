//! What is left of a request's body when its reply does not wait for it.
//!
//! Owns: [`Lingering`]. A server that closes a connection while its client still sends makes the client's
//! system throw away the reply: the client would see a broken connection where it was told to try again. So
//! the rest is read and thrown away, for a while.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures::StreamExt;
use futures::future::select;
use headwater::EnvRef;
use http_body::{Frame, SizeHint};

/// The most that is read.
const BYTES: usize = 64 << 20;
/// And for how long.
const TIME: Duration = Duration::from_secs(5);

/// A body of which the rest is read when it is dropped early.
#[derive(Debug)]
pub struct Lingering {
    body: Body,
    ended: bool,
    env: EnvRef,
}

impl Lingering {
    /// Reads `body` on, if need be, in tasks of `env`.
    pub fn new(body: Body, env: EnvRef) -> Self {
        Self { ended: body.is_end_stream(), body, env }
    }
}

impl HttpBody for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.ended |= matches!(frame, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let rest = std::mem::take(&mut self.body);
        let time = self.env.sleep(TIME);
        let read = async move {
            select(Box::pin(read_on(rest)), time).await;
        };
        self.env.spawn("rest of a body", Box::pin(read)).detach();
    }
}

async fn read_on(rest: Body) {
    let mut pieces = rest.into_data_stream();
    let mut bytes = 0_usize;
    while let Some(Ok(piece)) = pieces.next().await {
        bytes = bytes.saturating_add(piece.len());
        if bytes > BYTES {
            return;
        }
    }
}
