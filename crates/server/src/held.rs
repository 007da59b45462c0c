//! A reply's body that holds something until it is sent.
//!
//! Owns: [`Held`]. Used by `limits`: a reply that is still being sent counts as under way. Over HTTP/2 a
//! client may take nothing of one reply while its connection goes on; such a reply is let go after a while,
//! with all it holds, and what is left of it fails. Does not own: connections that take nothing (`stall`).

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures::FutureExt;
use headwater::EnvRef;
use headwater_store::env::Task;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

/// `body`, holding `held` until it has ended or is dropped.
#[derive(Debug)]
pub struct Held<T> {
    open: Shared<T>,
    env: EnvRef,
    ended: bool,
    watch: Option<Task>,
}

type Shared<T> = Arc<Mutex<Option<Open<T>>>>;

#[derive(Debug)]
struct Open<T> {
    body: Body,
    /// Since when the client is waited for; none while the body is.
    waits: Option<Duration>,
    _held: T,
}

/// Why the rest of a reply is not sent.
#[derive(Debug, thiserror::Error)]
#[error("the client took nothing of the reply for too long")]
struct Stalled;

impl<T: Send + 'static> Held<T> {
    /// A body that holds `held`.
    pub fn new(body: Body, held: T, env: EnvRef) -> Self {
        let open = Open { body, waits: Some(env.now()), _held: held };
        Self { open: Arc::new(Mutex::new(Some(open))), env, ended: false, watch: None }
    }

    /// Lets go when the client has taken nothing for `most`.
    pub fn at_most(mut self, most: Duration) -> Self {
        let watch = watch(Arc::downgrade(&self.open), most, Arc::clone(&self.env));
        self.watch = Some(self.env.spawn("reply", watch.boxed()));
        self
    }
}

async fn watch<T>(open: Weak<Mutex<Option<Open<T>>>>, most: Duration, env: EnvRef) {
    loop {
        let Some(left) = open.upgrade().and_then(|open| let_go(&open, most, env.now())) else { return };
        env.sleep(left).await;
    }
}

/// Lets go of what was waited for too long. How long until it may be; none when there is nothing to let go.
fn let_go<T>(open: &Mutex<Option<Open<T>>>, most: Duration, now: Duration) -> Option<Duration> {
    let mut place = open.lock();
    let waited = place.as_ref()?.waits.map_or(Duration::ZERO, |since| now.saturating_sub(since));
    let left = most.saturating_sub(waited);
    if !left.is_zero() {
        return Some(left);
    }
    let stalled = place.take();
    drop(place);
    drop(stalled);
    tracing::warn!(target: "headwater::server", "{Stalled}");
    None
}

impl<T> HttpBody for Held<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut place = self.open.lock();
        let Some(open) = place.as_mut() else {
            return Poll::Ready(Some(Err(axum::Error::new(Stalled))));
        };
        let frame = Pin::new(&mut open.body).poll_frame(context);
        open.waits = frame.is_ready().then(|| self.env.now());
        let over = match frame {
            Poll::Ready(None) => place.take(),
            _ => None,
        };
        drop(place);
        self.ended = over.is_some();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.open.lock().as_ref().is_some_and(|open| open.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.open.lock().as_ref().map_or_else(SizeHint::default, |open| open.body.size_hint())
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.cancel();
        }
    }
}
