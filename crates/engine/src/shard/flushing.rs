//! The conductor's half that flushes: one attempt at a time, oldest first, again until it works, then
//! hand-over.
//!
//! A failed generation blocks those behind it; that becomes backpressure, never loss (P11, lance#8293).

use std::sync::Arc;
use std::time::Duration;

use headwater_format::coord::Generation;
use headwater_format::shard_manifest::SsTable;
use tokio::sync::oneshot;

use crate::error::ShardError;
use crate::flush::attempt::{Attempt, AttemptFailed};
use crate::flush::choose::{FlushState, Oldest, choose_flush};
use crate::hold::hold;
use crate::manifest::Published;
use crate::plants::Plants;
use crate::shard::conductor::{Conductor, micros};
use crate::shard::event::Event;
use crate::shard::logging;
use crate::shard::task_slot::TaskSlot;

type PublishedSender = oneshot::Sender<Result<(), ShardError>>;

/// Where flushing stands.
#[derive(Debug)]
pub(super) struct Flushing {
    state: FlushState,
    /// When the last attempt began.
    began: Duration,
    /// Failed attempts at the oldest generation, in a row.
    failures: u32,
    /// The last failure, until a success.
    error: Option<ShardError>,
    /// Failed attempts since the close was asked for.
    failures_while_closing: Option<u32>,
    /// Complete on storage, not known to be published.
    written: Option<SsTable>,
    waiters: Vec<(Generation, PublishedSender)>,
    task: TaskSlot,
    retry_timer: TaskSlot,
}

impl Default for Flushing {
    fn default() -> Self {
        Self {
            state: FlushState::Idle,
            began: Duration::ZERO,
            failures: 0,
            error: None,
            failures_while_closing: None,
            written: None,
            waiters: Vec::new(),
            task: TaskSlot::default(),
            retry_timer: TaskSlot::default(),
        }
    }
}

impl Flushing {
    /// Resolves when `generation`, and with it every earlier one, is published.
    pub fn wait_for(&mut self, generation: Generation) -> oneshot::Receiver<Result<(), ShardError>> {
        let (sender, receiver) = oneshot::channel();
        self.waiters.push((generation, sender));
        receiver
    }

    /// A close waits: failures count from now on, and a pending wait is cut short.
    pub fn hurry(&mut self) {
        self.failures_while_closing.get_or_insert(0);
        if self.state == FlushState::BackingOff {
            self.retry_timer.clear();
            self.state = FlushState::Idle;
        }
    }

    /// The error to close with, once `attempts` have failed since the close was asked for.
    pub fn given_up(&self, attempts: u32) -> Option<ShardError> {
        self.failures_while_closing.filter(|failed| *failed >= attempts).and(self.error.clone())
    }

    fn fail_waiters(&mut self, error: &ShardError) {
        for (_, waiter) in self.waiters.drain(..) {
            let _ = waiter.send(Err(error.clone()));
        }
    }

    /// The writer is over: no attempt goes on, and who waits for one is told.
    pub fn stop(&mut self, error: &ShardError) {
        self.task.clear();
        self.retry_timer.clear();
        self.fail_waiters(error);
    }

    fn failed(&mut self, failure: AttemptFailed) {
        self.failures += 1;
        if let Some(closing) = &mut self.failures_while_closing {
            *closing += 1;
        }
        self.error = Some(failure.error);
        self.written = failure.written;
    }

    fn succeeded(&mut self, generation: Generation) {
        self.state = FlushState::Idle;
        self.failures = 0;
        self.error = None;
        self.written = None;
        let (done, waiting): (Vec<_>, Vec<_>) =
            self.waiters.drain(..).partition(|(last, _)| *last <= generation);
        self.waiters = waiting;
        for (_, waiter) in done {
            let _ = waiter.send(Ok(()));
        }
    }
}

/// Whether no later attempt could do better. Not so a refusal by storage: a disk that is read-only now may be
/// mounted again.
fn is_final(error: &ShardError) -> bool {
    matches!(error, ShardError::Fenced { .. } | ShardError::SchemaChanged { .. })
}

impl Conductor {
    pub(super) fn start_flush(&mut self) {
        let plants = self.ctx.parts.plants;
        let state = self.shared.lock();
        let Some(front) = state.tiers.frozen.front() else { return };
        let oldest = Oldest {
            generation: front.memtable.generation(),
            durable: front.memtable.durable(),
            indexed: front.memtable.indexed() || plants.has(Plants::FlushBeforeIndexed),
        };
        let Some(generation) = choose_flush(Some(oldest), self.flushing.state) else { return };
        let last_position = front.memtable.last_position();
        let token_floor = self.tokens.floor(last_position, self.ctx.now());
        let attempt = Attempt {
            shard: self.ctx.shard,
            epoch: self.ctx.epoch,
            table: Arc::clone(&self.ctx.parts.table),
            register: self.ctx.register.clone(),
            env: Arc::clone(self.ctx.env()),
            frozen: front.memtable.clone(),
            last_position,
            token_floor: token_floor.filter(|_| !plants.has(Plants::TokenForgotten)),
            written: self.flushing.written.clone(),
            manifest: Arc::clone(&state.manifest),
            plants,
        };
        drop(state);
        self.flushing.state = FlushState::Running;
        self.flushing.began = self.ctx.now();
        self.flushing.task.run(self.ctx.env(), "flush", &self.outbox, async move {
            Event::Flushed(generation, Box::new(attempt.run().await))
        });
    }

    pub(super) fn on_flushed(
        &mut self,
        generation: Generation,
        outcome: Result<Published, AttemptFailed>,
    ) -> Result<(), ShardError> {
        match outcome {
            Ok(published) => self.hand_over(generation, &published),
            Err(failure) if is_final(&failure.error) => Err(failure.error),
            Err(failure) => {
                self.retry_later(generation, failure);
                Ok(())
            }
        }
    }

    /// The frozen memtable leaves the read set in the moment the manifest that names its SSTable enters it
    /// (P5).
    fn hand_over(&mut self, generation: Generation, published: &Published) -> Result<(), ShardError> {
        let manifest = published.manifest();
        if manifest.writer_epoch > self.ctx.epoch {
            return Err(self.fenced(manifest.writer_epoch));
        }
        let mut state = self.shared.lock();
        let front = state.tiers.frozen.front().map(|frozen| frozen.memtable.generation());
        hold!(P11, front == Some(generation), "generation {generation} published, {front:?} is the oldest");
        hold!(
            P5,
            manifest.current_generation > generation,
            "manifest {} is at generation {}, {generation} leaves memory",
            manifest.version,
            manifest.current_generation
        );
        if manifest.version > state.manifest.version {
            state.manifest = Arc::clone(manifest);
        }
        state.tiers.frozen.pop_front();
        state.counters.flushes += 1;
        state.counters.flush_us.record(micros(self.ctx.now().saturating_sub(self.flushing.began)));
        state.last_error = None;
        let waiting = state.tiers.frozen.len();
        drop(state);
        self.flushing.succeeded(generation);
        self.shared.announce_frozen(waiting);
        logging::published(self.ctx.shard, generation, manifest.version.get());
        // Writers may still wait for memory, and pressed while this generation was in the way.
        self.on_pressure()
    }

    fn retry_later(&mut self, generation: Generation, failure: AttemptFailed) {
        let error = failure.error.clone();
        self.flushing.failed(failure);
        let mut state = self.shared.lock();
        state.counters.flush_failures += 1;
        state.last_error = Some(error.clone());
        if self.ctx.parts.plants.has(Plants::FlushErrorDropped) {
            // Planted fault lance#8293: the generation is forgotten and the next one goes on as if it were
            // next.
            state.tiers.frozen.pop_front();
            drop(state);
            self.flushing.succeeded(generation);
            return;
        }
        drop(state);
        let wait = self.retry_wait();
        let slept = self.ctx.env().sleep(wait);
        self.flushing.state = FlushState::BackingOff;
        self.flushing.retry_timer.run(self.ctx.env(), "flush retry", &self.outbox, async move {
            slept.await;
            Event::RetryFlush
        });
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        logging::flush_failed(self.ctx.shard, generation, &error, wait_ms);
    }

    pub(super) fn on_retry_flush(&mut self) -> Result<(), ShardError> {
        if self.flushing.state == FlushState::BackingOff {
            self.flushing.state = FlushState::Idle;
        }
        Ok(())
    }

    /// Exponential with half jitter: never at once, never all shards together.
    fn retry_wait(&self) -> Duration {
        let settings = &self.ctx.settings.flush;
        let doublings = self.flushing.failures.saturating_sub(1).min(20);
        let longest = settings.retry_base_ms.saturating_mul(1 << doublings).min(settings.retry_cap_ms).max(1);
        Duration::from_millis(longest / 2 + self.ctx.env().random() % (longest / 2 + 1))
    }
}
