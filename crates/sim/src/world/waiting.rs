//! Waiting for things that may never come.

use std::future::Future;
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{Either, select};
use headwater_store::env::{Env, SeededEnv, SeededProcess};

/// What `future` gives, or `None` after `limit`.
pub async fn within<T>(machine: &SeededEnv, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    match select(std::pin::pin!(future), machine.sleep(limit)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

/// Runs `future` as a task of `process`; `None` when the process dies first.
pub async fn run_in<T: Send + 'static>(
    process: &SeededProcess,
    name: &'static str,
    future: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    let task = async move {
        // The receiver is gone when nobody waits any more.
        let _ = sender.send(future.await);
    };
    process.spawn(name, task.boxed()).detach();
    receiver.await.ok()
}
