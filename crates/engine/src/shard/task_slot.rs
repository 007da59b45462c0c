//! A place for one background task that ends with its owner and always answers.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_store::env::{EnvRef, Task};
use tokio::sync::mpsc;

use crate::error::ShardError;
use crate::shard::event::Event;

/// Holds at most one task; replacing or dropping the slot cancels it. So no task outlives the shard that
/// started it, whether the shard is closed or dropped.
#[derive(Debug, Default)]
pub(super) struct TaskSlot(Option<Running>);

#[derive(Debug)]
struct Running {
    task: Task,
    /// Set when nobody wants the answer any more.
    cancelled: Arc<AtomicBool>,
}

impl TaskSlot {
    /// Cancels what was there and holds `task`.
    pub fn set(&mut self, task: Task) {
        self.clear();
        self.0 = Some(Running { task, cancelled: Arc::default() });
    }

    /// Runs `future` and posts the event it ends with; a panic is posted too, so that nobody waits for ever
    /// (L1).
    pub fn run(
        &mut self,
        env: &EnvRef,
        name: &'static str,
        outbox: &mpsc::UnboundedSender<Event>,
        future: impl Future<Output = Event> + Send + 'static,
    ) {
        self.clear();
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut answer =
            Answer { name, outbox: outbox.clone(), due: true, cancelled: Arc::clone(&cancelled) };
        let task = env.spawn(
            name,
            Box::pin(async move {
                let event = future.await;
                answer.send(event);
            }),
        );
        self.0 = Some(Running { task, cancelled });
    }

    /// Cancels what is there.
    pub fn clear(&mut self) {
        if let Some(Running { task, cancelled }) = self.0.take() {
            cancelled.store(true, Ordering::SeqCst);
            task.cancel();
        }
    }
}

impl Drop for TaskSlot {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Posts exactly one event, on drop if need be, unless the task was cancelled. Nobody listens once the shard
/// is gone.
struct Answer {
    name: &'static str,
    outbox: mpsc::UnboundedSender<Event>,
    due: bool,
    cancelled: Arc<AtomicBool>,
}

impl Answer {
    fn send(&mut self, event: Event) {
        self.due = false;
        let _ = self.outbox.send(event);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.due && !self.cancelled.load(Ordering::SeqCst) {
            let context = format!("background task {} ended without an answer", self.name);
            self.send(Event::Broken(ShardError::Internal { invariant: "P14", context }));
        }
    }
}
