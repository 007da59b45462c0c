//! The [`Env`] trait, and the handle of a spawned task.
//!
//! Owns: what an environment promises. Does not own: any environment. Called by everything that waits, spawns
//! or draws.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::channel::oneshot;
use futures::future::BoxFuture;
use uuid::Uuid;

/// A shared environment.
pub type EnvRef = Arc<dyn Env>;

/// Where time, tasks and chance come from.
pub trait Env: std::fmt::Debug + Send + Sync + 'static {
    /// Monotone time since an arbitrary start. In simulation it moves only when every task waits.
    fn now(&self) -> Duration;

    /// Wall-clock time, for people, for file metadata, and for how old a client token is that another process
    /// wrote. No other decision may depend on it.
    fn wall_clock(&self) -> SystemTime;

    /// Resolves after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Runs a future to its end in the background. `name` shows up in traces and panics.
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) -> Task;

    /// Runs work that blocks or burns CPU where it stalls no other task. Resolves when it has run.
    /// Prefer [`EnvExt::blocking`], which hands back a value.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;

    /// A random 64-bit number.
    fn random(&self) -> u64;

    /// A random UUID (version 4).
    fn uuid(&self) -> Uuid {
        let (high, low) = (self.random(), self.random());
        uuid::Builder::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
            .into_uuid()
    }
}

/// Conveniences over [`Env`] that need generics.
pub trait EnvExt: Env {
    /// Runs `work` as [`Env::run_blocking`] does and hands back its value; an error if it panicked.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, TaskFailed>> + Send {
        let (sender, receiver) = oneshot::channel();
        let run = self.run_blocking(Box::new(move || {
            // The receiver is gone only when nobody wants the value any more.
            let _ = sender.send(work());
        }));
        async move {
            run.await;
            receiver.await.map_err(|_| TaskFailed)
        }
    }
}

impl<E: Env + ?Sized> EnvExt for E {}

/// A background task panicked or was dropped by its executor before it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a background task panicked or was dropped before it ended")]
pub struct TaskFailed;

/// Handle of a spawned task. Awaiting it tells whether the task ran to its end; dropping it detaches.
#[must_use = "await the task, or call `detach` to say that its end does not matter"]
pub struct Task {
    done: oneshot::Receiver<()>,
    cancel: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Task {
    /// Built by implementations of [`Env`]: `done` resolves when the future ended (and is dropped unsent if
    /// it panicked); `cancel` drops the future at its next await.
    pub fn new(done: oneshot::Receiver<()>, cancel: Box<dyn FnOnce() + Send + Sync>) -> Self {
        Self { done, cancel: Some(cancel) }
    }

    /// Lets the task run on without anybody waiting for it.
    pub fn detach(self) {}

    /// Stops the task at its next await. Its future is dropped, as in a crash.
    pub fn cancel(mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel();
        }
    }
}

impl Future for Task {
    type Output = Result<(), TaskFailed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.done).poll(cx).map(|ended| ended.map_err(|_| TaskFailed))
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}
