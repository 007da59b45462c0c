//! The machine: drives futures to their end, one drawn step after the other.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use futures::task::ArcWake;

use super::executor::{Executor, ROOT, Turn};
use super::process::SeededProcess;
use crate::env::{Env, EnvRef, Task};

/// Steps after which a run is taken for a livelock, unless [`SeededEnv::with_step_limit`] says otherwise.
const DEFAULT_STEP_LIMIT: u64 = 50_000_000;

/// A seeded machine: an executor of one thread with a clock of its own. Cheap to clone; every clone is the
/// same machine. As an [`Env`] it spawns into the root process, which nothing crashes.
#[derive(Clone, Debug)]
pub struct SeededEnv {
    executor: Arc<Executor>,
    root: SeededProcess,
    seed: u64,
    step_limit: u64,
}

/// A driven future did not end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// Nothing is ready and no timer is set, so nothing will ever happen again.
    #[error(
        "seed {seed}: deadlock at {now:?} after {steps} steps: nothing ready, no timer; waiting: {waiting:?}"
    )]
    Deadlock {
        /// The seed.
        seed: u64,
        /// The clock.
        now: Duration,
        /// Steps made so far.
        steps: u64,
        /// `process/task` of every task that has not ended.
        waiting: Vec<String>,
    },
    /// More steps than the limit.
    #[error("seed {seed}: not done after {steps} steps at {now:?}; waiting: {waiting:?}")]
    StepLimit {
        /// The seed.
        seed: u64,
        /// The clock.
        now: Duration,
        /// Steps made so far.
        steps: u64,
        /// `process/task` of every task that has not ended.
        waiting: Vec<String>,
    },
    /// The machine is already driving a future: `block_on` inside a task.
    #[error("seed {seed}: the machine is already driving a future")]
    Nested {
        /// The seed.
        seed: u64,
    },
}

impl SeededEnv {
    /// A machine whose every choice follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let executor = Arc::new(Executor::new(seed));
        let root = SeededProcess::new(Arc::clone(&executor), ROOT, "root");
        Self { executor, root, seed, step_limit: DEFAULT_STEP_LIMIT }
    }

    /// The same machine, giving up on a future after `steps` steps in all.
    #[must_use]
    pub fn with_step_limit(mut self, steps: u64) -> Self {
        self.step_limit = steps;
        self
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The machine as an [`EnvRef`] (its root process).
    pub fn env(&self) -> EnvRef {
        self.root.env()
    }

    /// A new process. `name` is for traces and need not be unique.
    pub fn process(&self, name: &str) -> SeededProcess {
        let process = self.executor.add_process(name);
        SeededProcess::new(Arc::clone(&self.executor), process, name)
    }

    /// Drives `future`, and whatever is spawned, until `future` ends.
    ///
    /// # Panics
    /// With the text of [`Stuck`] when it cannot end; [`SeededEnv::try_block_on`] returns that instead.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self.try_block_on(future) {
            Ok(output) => output,
            Err(stuck) => panic!("{stuck}"),
        }
    }

    /// Drives `future`, and whatever is spawned, until `future` ends. Tasks that have not ended stay, and go
    /// on with the next call.
    ///
    /// # Errors
    /// [`Stuck`] when nothing can happen any more, or the step limit is reached.
    pub fn try_block_on<F: Future>(&self, future: F) -> Result<F::Output, Stuck> {
        if !self.executor.start_driving() {
            return Err(Stuck::Nested { seed: self.seed });
        }
        let driving = Driving(Arc::clone(&self.executor));
        let waker = futures::task::waker(Arc::new(WakeMain(Arc::clone(&self.executor))));
        let mut cx = Context::from_waker(&waker);
        let mut future = std::pin::pin!(future);
        self.executor.wake_main();
        let result = loop {
            if self.executor.steps() >= self.step_limit {
                break Err(self.stuck(true));
            }
            match self.executor.turn() {
                Turn::Moved => {}
                Turn::Idle => break Err(self.stuck(false)),
                Turn::Main => {
                    if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                        break Ok(output);
                    }
                }
            }
        };
        drop(driving);
        result
    }

    fn stuck(&self, step_limit: bool) -> Stuck {
        let (seed, now, steps) = (self.seed, self.executor.now(), self.executor.steps());
        let waiting = self.executor.waiting();
        if step_limit {
            Stuck::StepLimit { seed, now, steps, waiting }
        } else {
            Stuck::Deadlock { seed, now, steps, waiting }
        }
    }

    /// Moves the monotone clock by `by` at once, as a machine that was suspended sees it.
    pub fn jump(&self, by: Duration) {
        self.note(&format!("clock jumps by {by:?}"));
        self.executor.jump(by);
    }

    /// Moves the wall clock, forward or back, and leaves the monotone clock alone.
    pub fn skew_wall_clock(&self, by_ms: i64) {
        self.note(&format!("wall clock moves by {by_ms} ms"));
        self.executor.skew_wall_clock(by_ms);
    }

    /// Crashes every process, the root one included: the end of the run. Breaks the cycles between tasks and
    /// the machine, so that a run leaves no memory behind.
    pub fn shut_down(&self) {
        for process in 0..self.executor.process_count() {
            self.executor.crash(process);
        }
    }

    /// Hash of all decisions and notes so far. Two runs of one seed agree at every point.
    pub fn trace(&self) -> u64 {
        self.executor.trace()
    }

    /// Writes a line into the event log and the trace.
    pub fn note(&self, text: &str) {
        self.executor.note(text);
    }

    /// The event log so far: one line a note, with its time.
    pub fn notes(&self) -> Vec<String> {
        self.executor.notes()
    }

    /// What tasks panicked with so far, as `task: text`. A panic ends its task only.
    pub fn panics(&self) -> Vec<String> {
        self.executor.panics()
    }

    /// Steps made so far.
    pub fn steps(&self) -> u64 {
        self.executor.steps()
    }
}

impl Env for SeededEnv {
    fn now(&self) -> Duration {
        self.root.now()
    }

    fn wall_clock(&self) -> SystemTime {
        self.root.wall_clock()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.root.sleep(duration)
    }

    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) -> Task {
        self.root.spawn(name, future)
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        self.root.run_blocking(work)
    }

    fn random(&self) -> u64 {
        self.root.random()
    }
}

struct WakeMain(Arc<Executor>);

impl ArcWake for WakeMain {
    fn wake_by_ref(arc_self: &Arc<Self>) {
        arc_self.0.wake_main();
    }
}

/// Ends the driving when the future panics, too.
struct Driving(Arc<Executor>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.stop_driving();
    }
}
