//! [`Env`] on tokio: real clock, real threads, the operating system's randomness.
//!
//! Owns: the only place where `tokio::{spawn, time, task}`, the clocks and ambient randomness are named.
//! Called by production code and by tests of mode C (recorded, not deterministic).

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use rand::RngCore;
use tokio::runtime::Handle;

use super::{Env, Task, TaskFailed};

/// The production environment. Uses the tokio runtime it is called from, else the one it was made in.
#[derive(Debug)]
pub struct TokioEnv {
    started: Instant,
    home: Option<Handle>,
}

impl TokioEnv {
    /// An environment whose [`Env::now`] starts at zero. Best made inside a tokio runtime: without any
    /// runtime spawned tasks end at once as failed, and sleeps and blocking work take a thread each.
    #[allow(clippy::disallowed_methods)]
    pub fn new() -> Self {
        Self { started: Instant::now(), home: Handle::try_current().ok() }
    }

    fn handle(&self) -> Option<Handle> {
        Handle::try_current().ok().or_else(|| self.home.clone())
    }
}

impl Default for TokioEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for TokioEnv {
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    #[allow(clippy::disallowed_methods)]
    fn wall_clock(&self) -> SystemTime {
        SystemTime::now()
    }

    #[allow(clippy::disallowed_methods)]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        match self.handle() {
            Some(handle) => {
                // A timer takes its runtime from where it is made, which need not be inside one.
                let _inside = handle.enter();
                tokio::time::sleep(duration).boxed()
            }
            None => on_a_thread(Box::new(move || std::thread::sleep(duration))),
        }
    }

    #[allow(clippy::disallowed_methods)]
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) -> Task {
        let (ended, done) = oneshot::channel();
        let Some(handle) = self.handle() else {
            tracing::error!(task = name, "not started: no tokio runtime");
            return Task::new(done, Box::new(|| {}));
        };
        let running = handle.spawn(async move {
            match AssertUnwindSafe(future).catch_unwind().await {
                // The receiver is gone only when the task was detached.
                Ok(()) => drop(ended.send(())),
                // `ended` is dropped unsent: whoever awaits the task learns that it failed.
                Err(_) => tracing::error!(task = name, "background task panicked"),
            }
        });
        let running = running.abort_handle();
        Task::new(done, Box::new(move || running.abort()))
    }

    #[allow(clippy::disallowed_methods)]
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let Some(handle) = self.handle() else { return on_a_thread(work) };
        let running = handle.spawn_blocking(work);
        async move {
            if let Err(failed) = running.await {
                tracing::error!(error = %failed, "blocking work failed");
            }
        }
        .boxed()
    }

    #[allow(clippy::disallowed_methods)]
    fn random(&self) -> u64 {
        rand::rng().next_u64()
    }
}

/// Runs work that blocks where there is no [`Env`] at hand, as `object_store`'s local backend does: on the
/// blocking threads of the runtime it is called from, in place without one (in simulation).
#[allow(clippy::disallowed_methods)]
pub(crate) async fn blocking_here<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TaskFailed> {
    match Handle::try_current() {
        Ok(handle) => handle.spawn_blocking(work).await.map_err(|_| TaskFailed),
        Err(_) => Ok(work()),
    }
}

/// Runs `work` on a thread of its own; resolves when it ended, panicked included.
fn on_a_thread(work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
    let (ended, done) = oneshot::channel::<()>();
    let started = std::thread::Builder::new().name("headwater-blocking".to_owned()).spawn(move || {
        let _ended = ended;
        work();
    });
    if let Err(error) = started {
        tracing::error!(%error, "cannot start a thread");
    }
    async move {
        // Dropping the sender is the signal; it also happens when the work panics.
        let _ = done.await;
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::env::EnvExt;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    }

    #[test]
    fn a_task_that_ends_resolves_to_ok_and_one_that_panics_to_task_failed() {
        runtime().block_on(async {
            let env = TokioEnv::new();
            assert_eq!(env.spawn("fine", async {}.boxed()).await, Ok(()));
            let panicking = env.spawn("panics", async { panic!("planned by a test") }.boxed());
            assert_eq!(panicking.await, Err(TaskFailed));
            assert_eq!(env.spawn("still fine", async {}.boxed()).await, Ok(()));
        });
    }

    #[test]
    fn a_cancelled_task_drops_its_future_and_a_detached_one_runs_on() {
        struct Dropped(Option<oneshot::Sender<()>>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                if let Some(sender) = self.0.take() {
                    let _ = sender.send(());
                }
            }
        }
        runtime().block_on(async {
            let env = TokioEnv::new();
            let (sender, dropped) = oneshot::channel();
            let guard = Dropped(Some(sender));
            let task = env.spawn(
                "waits for ever",
                async move {
                    let _guard = guard;
                    futures::future::pending::<()>().await;
                }
                .boxed(),
            );
            task.cancel();
            dropped.await.unwrap();

            let (sender, ran) = oneshot::channel();
            env.spawn("detached", async move { sender.send(7).unwrap() }.boxed()).detach();
            assert_eq!(ran.await, Ok(7));
        });
    }

    #[test]
    fn blocking_work_hands_back_its_value_and_a_panic_is_an_error() {
        runtime().block_on(async {
            let env = TokioEnv::new();
            assert_eq!(env.blocking(|| 6 * 7).await, Ok(42));
            let panicked: Result<u32, TaskFailed> = env.blocking(|| panic!("planned by a test")).await;
            assert_eq!(panicked, Err(TaskFailed));
        });
    }

    #[test]
    fn time_moves_forward_across_a_sleep() {
        runtime().block_on(async {
            let env = TokioEnv::new();
            let before = env.now();
            env.sleep(Duration::from_millis(5)).await;
            assert!(env.now() >= before + Duration::from_millis(5));
        });
    }

    #[test]
    fn without_a_runtime_nothing_panics() {
        let env = TokioEnv::new();
        let ran = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ran);
        futures::executor::block_on(async {
            env.sleep(Duration::from_millis(1)).await;
            env.run_blocking(Box::new(move || seen.store(true, Ordering::SeqCst))).await;
            assert_eq!(env.spawn("nowhere to run", async {}.boxed()).await, Err(TaskFailed));
            let panicked: Result<(), TaskFailed> = env.blocking(|| panic!("planned by a test")).await;
            assert_eq!(panicked, Err(TaskFailed));
        });
        assert!(ran.load(Ordering::SeqCst));
    }

    #[test]
    fn ids_are_version_four_and_differ() {
        let env = TokioEnv::new();
        let (one, other) = (env.uuid(), env.uuid());
        assert_ne!(one, other);
        assert_eq!(one.get_version_num(), 4);
    }
}
