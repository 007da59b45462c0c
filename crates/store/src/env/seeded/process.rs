//! One process on a seeded machine, and the futures every `Env` of the machine hands out.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::executor::Executor;
use crate::env::{Env, EnvRef, Task};

/// Seconds since the Unix epoch at which every simulation starts.
const WALL_START_SECONDS: u64 = 1_750_000_000;

/// One process of a [`SeededEnv`](super::SeededEnv). Cheap to clone; every clone is the same process.
#[derive(Clone, Debug)]
pub struct SeededProcess {
    executor: Arc<Executor>,
    process: usize,
    name: Arc<str>,
}

impl SeededProcess {
    pub(super) fn new(executor: Arc<Executor>, process: usize, name: &str) -> Self {
        Self { executor, process, name: name.into() }
    }

    /// The process as an [`EnvRef`].
    pub fn env(&self) -> EnvRef {
        Arc::new(self.clone())
    }

    /// The name it was given; not unique.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Drops all tasks of the process at whatever await they stand, and refuses new ones for ever. A task
    /// that crashes its own process is dropped at the end of its step.
    pub fn crash(&self) {
        self.executor.note(&format!("process {} crashes", self.name));
        self.executor.crash(self.process);
    }

    /// Stops polling the tasks of the process. Time goes on, so its timers fire meanwhile and are seen at
    /// [`SeededProcess::resume`].
    pub fn pause(&self) {
        self.executor.note(&format!("process {} pauses", self.name));
        self.executor.pause(self.process);
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.executor.note(&format!("process {} resumes", self.name));
        self.executor.resume(self.process);
    }

    /// False once it has crashed.
    pub fn is_alive(&self) -> bool {
        self.executor.is_alive(self.process)
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.executor.is_paused(self.process)
    }
}

impl Env for SeededProcess {
    fn now(&self) -> Duration {
        self.executor.now()
    }

    fn wall_clock(&self) -> SystemTime {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(WALL_START_SECONDS) + self.executor.now();
        let skew = self.executor.wall_skew_ms();
        let by = Duration::from_millis(skew.unsigned_abs());
        let skewed = if skew < 0 { start.checked_sub(by) } else { start.checked_add(by) };
        skewed.unwrap_or(start)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let deadline = self.executor.now().saturating_add(duration);
        Sleep { executor: Arc::clone(&self.executor), deadline, timer: None }.boxed()
    }

    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) -> Task {
        self.executor.spawn(self.process, name, future)
    }

    /// A task of its own that runs `work` in one step, whether the returned future is polled or dropped, as a
    /// thread of a pool would.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let task = self.executor.spawn(self.process, "blocking", async move { work() }.boxed());
        // A panic of the work is told by `SeededEnv::panics`, and by the value that never arrives.
        async move {
            let _ = task.await;
        }
        .boxed()
    }

    fn random(&self) -> u64 {
        self.executor.random()
    }
}

/// A timer; ready once the clock has reached the deadline.
struct Sleep {
    executor: Arc<Executor>,
    deadline: Duration,
    timer: Option<(Duration, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.executor.now() >= self.deadline {
            return Poll::Ready(());
        }
        match self.timer {
            Some(timer) => self.executor.renew_timer(timer, cx.waker().clone()),
            None => self.timer = Some(self.executor.set_timer(self.deadline, cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.executor.drop_timer(timer);
        }
    }
}
