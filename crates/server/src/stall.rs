//! Connections whose client takes nothing of what it is sent.
//!
//! Owns: [`Unstalled`]: a stream that fails when nothing could be written to it for too long. A connection
//! that fails gives back all that its replies hold: places, snapshots, memory. As long as the client takes a
//! byte now and then it may take as long as it likes. Does not own: bodies that do not come (`limits`).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use headwater::EnvRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// `stream`, which fails when it takes nothing for too long.
pub struct Unstalled<S> {
    stream: S,
    most: Duration,
    env: EnvRef,
    /// Runs while the stream takes nothing.
    over: Option<BoxFuture<'static, ()>>,
}

impl<S> Unstalled<S> {
    /// Fails when `stream` takes nothing for `most`.
    pub fn new(stream: S, most: Duration, env: EnvRef) -> Self {
        Self { stream, most, env, over: None }
    }

    /// What came of writing, unless that is waited for too long.
    fn in_time(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.over = None;
            return written;
        }
        let over = self.over.get_or_insert_with(|| self.env.sleep(self.most));
        ready!(over.poll_unpin(context));
        let said = format!("the client took nothing of a reply for {} s", self.most.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, said)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Of a socket this is no waiting for the client; nor is closing it.
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.in_time(written, context)
    }
}
