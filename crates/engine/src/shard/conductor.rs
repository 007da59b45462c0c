//! The one task of a shard: takes events in order, decides, and starts what can start.
//!
//! Owns: everything of the shard that changes. Does not own: reads (they take the lock of `state`), the files
//! of an SSTable, the bytes of an entry. It never waits for storage: every request runs in a task that posts
//! an event. Keeps P1, P3, P7, P8 on the way of a put; `flushing` continues with P5, P9, P11.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headwater_format::coord::{Epoch, Generation};
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry;
use headwater_store::env::EnvExt;
use tokio::sync::{mpsc, oneshot};

use crate::error::ShardError;
use crate::freeze::{FreezeReason, Incoming, choose_freeze};
use crate::hold::hold;
use crate::plants::Plants;
use crate::shard::context::Context;
use crate::shard::event::{Event, PutRequest, Written};
use crate::shard::failure::{failed_append, stopped_by};
use crate::shard::flushing::Flushing;
use crate::shard::gather::Gather;
use crate::shard::handle::Seal;
use crate::shard::logging;
use crate::shard::state::{Phase, Shared};
use crate::shard::task_slot::TaskSlot;
use crate::shard::tokens::Tokens;
use crate::wal::append::Appender;
use crate::wal::queue::{Group, PendingPut, Queue, Stamp};

/// Groups up to this payload are encoded by the conductor itself: a hand-over would cost more.
const INLINE_ENCODE_BYTES: u64 = 64 << 10;
/// With this much waiting the next entry is encoded while a PUT is in flight; less joins the group until
/// then.
const ENCODE_AHEAD_BYTES: u64 = 1 << 20;
/// Events taken before the conductor looks what it can start.
const EVENTS_PER_TURN: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct Conductor {
    pub(super) ctx: Arc<Context>,
    pub(super) shared: Arc<Shared>,
    pub(super) outbox: mpsc::UnboundedSender<Event>,
    inbox: mpsc::UnboundedReceiver<Event>,
    appender: Appender,
    queue: Queue,
    encoding: bool,
    encoded: Option<(Group, Bytes)>,
    writing: bool,
    gather: Gather,
    pub(super) flushing: Flushing,
    pub(super) tokens: Tokens,
    closing: Vec<oneshot::Sender<Result<(), ShardError>>>,
    finished: bool,
    wal_task: TaskSlot,
    encode_task: TaskSlot,
    age_timer: TaskSlot,
    /// When the manifest was last looked at while writing.
    looked: Duration,
    looking: bool,
    look_task: TaskSlot,
    /// Rows of the generation that became durable last: what lance#7760 compared with. Planted fault only.
    durable_in_generation: u64,
}

impl Conductor {
    pub fn new(
        ctx: Arc<Context>,
        shared: Arc<Shared>,
        tokens: Tokens,
        outbox: mpsc::UnboundedSender<Event>,
        inbox: mpsc::UnboundedReceiver<Event>,
    ) -> Self {
        let appender = Appender {
            store: ctx.parts.store.clone(),
            shard: ctx.shard,
            register: ctx.register.clone(),
            epoch: ctx.epoch,
        };
        Self {
            ctx,
            shared,
            outbox,
            inbox,
            appender,
            queue: Queue::default(),
            encoding: false,
            encoded: None,
            writing: false,
            gather: Gather::default(),
            flushing: Flushing::default(),
            tokens,
            closing: Vec::new(),
            finished: false,
            wal_task: TaskSlot::default(),
            encode_task: TaskSlot::default(),
            age_timer: TaskSlot::default(),
            looked: Duration::ZERO,
            looking: false,
            look_task: TaskSlot::default(),
            durable_in_generation: 0,
        }
    }

    /// Runs until the shard is closed, or the task is cancelled because its handle was dropped.
    pub async fn run(mut self) {
        self.step(Self::start_up);
        while !self.finished {
            let Some(event) = self.inbox.recv().await else { return };
            self.step(|conductor| conductor.handle(event));
            for _ in 1..EVENTS_PER_TURN {
                let Ok(event) = self.inbox.try_recv() else { break };
                self.step(|conductor| conductor.handle(event));
            }
            self.step(Self::advance);
        }
    }

    /// One thing at a time; an error of any of them stops the writer.
    fn step(&mut self, work: impl FnOnce(&mut Self) -> Result<(), ShardError>) {
        if let Err(error) = work(self) {
            self.stop(error);
        }
    }

    /// What replay left may be full, or old enough, already.
    fn start_up(&mut self) -> Result<(), ShardError> {
        self.looked = self.ctx.now();
        if self.shared.lock().tiers.active.since.is_some() {
            self.start_age_timer();
        }
        self.freeze_if_full(Incoming::default())?;
        self.advance()
    }

    fn handle(&mut self, event: Event) -> Result<(), ShardError> {
        if let Some(cause) = self.failed() {
            self.reject(event, &cause);
            return Ok(());
        }
        match event {
            Event::Put(request) => self.on_put(*request),
            Event::Encoded(group, entry) => self.on_encoded(group, entry),
            Event::Appended(written) => self.on_appended(*written),
            Event::Tokens(beginning, reply) => {
                let _ = reply.send(Ok(self.tokens.beginning_with(&beginning, self.ctx.now())));
                Ok(())
            }
            Event::Seal(reply) => self.on_seal(reply),
            Event::Close(reply) => self.on_close(reply),
            Event::Pressure => self.on_pressure(),
            Event::Indexed => {
                self.shared.lock().tiers.recharge();
                Ok(())
            }
            Event::Broken(error) => Err(error),
            Event::Flushed(generation, outcome) => self.on_flushed(generation, *outcome),
            Event::RetryFlush => self.on_retry_flush(),
            Event::Aged(generation) => self.on_aged(generation),
            Event::Lingered => {
                self.gather.lingered();
                Ok(())
            }
            Event::Gathered => {
                self.gather.gathered();
                Ok(())
            }
            Event::Looked(found) => self.on_looked(found),
            Event::FencedBy(theirs) => Err(self.fenced(theirs)),
        }
    }

    /// Starts whatever can start now.
    fn advance(&mut self) -> Result<(), ShardError> {
        if self.failed().is_some() {
            return Ok(());
        }
        self.start_encode()?;
        self.start_append();
        self.start_encode()?;
        if self.failed().is_some() {
            return Ok(());
        }
        self.start_flush();
        self.finish_close();
        Ok(())
    }

    fn on_put(&mut self, request: PutRequest) -> Result<(), ShardError> {
        let Some(mut request) = self.admit(request) else { return Ok(()) };
        let stamp = self.stamp(&mut request);
        let PutRequest { prepared, accepted, ack, charge, .. } = request;
        let rows = prepared.batch.num_rows() as u64;
        self.freeze_if_full(Incoming { rows, bytes: prepared.resident_bytes })?;
        let mut state = self.shared.lock();
        let first_row = state.tiers.active.since.is_none();
        let now = self.ctx.now();
        let appended = state.tiers.append(&prepared, now);
        let seqs = match appended {
            Ok(seqs) => seqs,
            Err(error) => {
                drop(state);
                self.stop(error.clone());
                let _ = ack.send(Err(error));
                return Ok(());
            }
        };
        state.counters.puts += 1;
        state.counters.rows += rows;
        state.counters.payload_bytes += prepared.payload_bytes;
        let generation = state.tiers.active.memtable.generation();
        let rows_in_generation = state.tiers.active.memtable.rows();
        drop(state);
        drop(charge);
        if let Some(accepted) = accepted {
            let _ = accepted.send(());
        }
        let mut put = PendingPut {
            batch: prepared.batch,
            generation,
            first: seqs.start,
            end: seqs.end,
            bytes: prepared.payload_bytes + stamp.as_ref().map_or(0, Stamp::bytes),
            stamp,
            ordered: now,
            ack,
        };
        if self.ctx.parts.plants.has(Plants::DurabilityPerGeneration) {
            put = self.acknowledge_early(put, rows_in_generation);
        }
        if self.queue.is_empty() {
            self.gather.linger(self.ctx.env(), &self.ctx.settings.wal, &self.outbox);
        }
        self.queue.push(put);
        if first_row {
            self.start_age_timer();
        }
        self.freeze_if_full(Incoming::default())
    }

    /// Planted fault lance#7760: positions within the generation compared with another generation's
    /// durability.
    fn acknowledge_early(&self, mut put: PendingPut, rows_in_generation: u64) -> PendingPut {
        if rows_in_generation <= self.durable_in_generation {
            let (nobody, _) = oneshot::channel();
            let ack = std::mem::replace(&mut put.ack, nobody);
            let position = self.shared.lock().next_position;
            let _ = ack.send(Ok(super::Ack { first: put.first, end: put.end, position }));
        }
        put
    }

    fn start_encode(&mut self) -> Result<(), ShardError> {
        let waiting = self.queue.bytes();
        let max = self.ctx.settings.wal.max_entry_bytes;
        let busy = self.encoding || self.encoded.is_some() || self.queue.is_empty();
        let joining = self.writing && waiting < ENCODE_AHEAD_BYTES.min(max);
        if busy || joining {
            return Ok(());
        }
        if waiting < max && self.closing.is_empty() && self.gather.waits(self.queue.len()) {
            return Ok(());
        }
        let Some(group) = self.queue.next_group(max) else { return Ok(()) };
        let ctx = Arc::clone(&self.ctx);
        if group.bytes() <= INLINE_ENCODE_BYTES {
            let entry = encode(&ctx, &group);
            return self.on_encoded(group, entry);
        }
        self.encoding = true;
        let env = Arc::clone(self.ctx.env());
        self.encode_task.run(self.ctx.env(), "encode", &self.outbox, async move {
            let encoded = env.blocking(move || {
                let entry = encode(&ctx, &group);
                (group, entry)
            });
            match encoded.await {
                Ok((group, entry)) => Event::Encoded(group, entry),
                Err(failed) => {
                    Event::Broken(ShardError::Internal { invariant: "P14", context: failed.to_string() })
                }
            }
        });
        Ok(())
    }

    fn on_encoded(&mut self, group: Group, entry: Result<Bytes, ShardError>) -> Result<(), ShardError> {
        self.encoding = false;
        match entry {
            Ok(entry) => {
                self.encoded = Some((group, entry));
                Ok(())
            }
            Err(error) => {
                self.stop_with(group, error);
                Ok(())
            }
        }
    }

    /// Entry N + 1 may not exist before N is whole, so PUTs never overlap (P8).
    fn start_append(&mut self) {
        if self.writing {
            return;
        }
        let Some((group, entry)) = self.encoded.take() else { return };
        let (tip, known) = {
            let state = self.shared.lock();
            (state.next_position, Arc::clone(&state.manifest))
        };
        let appender = self.appender.clone();
        let began = self.ctx.now();
        self.writing = true;
        self.wal_task.run(self.ctx.env(), "wal", &self.outbox, async move {
            let result = appender.append(tip, &entry, &known).await;
            Event::Appended(Box::new(Written { group, bytes: entry.len() as u64, began, result }))
        });
    }

    fn on_appended(&mut self, written: Written) -> Result<(), ShardError> {
        self.writing = false;
        let Written { group, bytes, began, result } = written;
        let appended = match result {
            Ok(appended) => appended,
            Err(error) => {
                self.stop_with(group, error);
                return Ok(());
            }
        };
        let position = appended.position;
        if let Err(error) = self.advance_durable(&group, bytes, began, appended) {
            self.stop_with(group, error);
            return Ok(());
        }
        let company = group.puts.len() + self.queue.len();
        self.remember(&group, position);
        group.acknowledge(position);
        if self.encoded.is_none() && !self.encoding {
            let took = self.ctx.now().saturating_sub(began);
            self.gather.expect(self.ctx.env(), &self.ctx.settings.wal, &self.outbox, took, company);
        }
        self.look_for_a_successor();
        self.freeze_if_full(Incoming::default())
    }

    /// A successor's sentinel races with our appends for the tip, and on a slow store a busy writer could win
    /// for ever: so the manifest, where the claim stands already, is looked at now and then (P7, L1).
    fn look_for_a_successor(&mut self) {
        let now = self.ctx.now();
        let pause = Duration::from_millis(self.ctx.settings.reads.epoch_confirm_ms);
        if self.looking || now.saturating_sub(self.looked) < pause {
            return;
        }
        self.looked = now;
        self.looking = true;
        let known = Arc::clone(&self.shared.lock().manifest);
        let ctx = Arc::clone(&self.ctx);
        self.look_task.run(self.ctx.env(), "look", &self.outbox, async move {
            let newest = ctx.register.refresh(known.version).await.map_err(ShardError::from);
            let theirs =
                |newest: Arc<ShardManifest>| Some(newest.writer_epoch).filter(|epoch| *epoch > ctx.epoch);
            Event::Looked(newest.map(|newest| newest.and_then(theirs)))
        });
    }

    fn on_looked(&mut self, found: Result<Option<Epoch>, ShardError>) -> Result<(), ShardError> {
        self.looking = false;
        match found {
            Ok(None) => Ok(()),
            Ok(Some(theirs)) => Err(self.fenced(theirs)),
            // Asked again next time; until then the appends themselves tell whether storage works.
            Err(error @ ShardError::Unavailable { .. }) => {
                self.shared.lock().counters.look_failures += 1;
                logging::look_failed(self.ctx.shard, &error);
                Ok(())
            }
            // With a manifest that cannot be read nobody knows whose the shard is.
            Err(error) => Err(error),
        }
    }

    fn advance_durable(
        &mut self,
        group: &Group,
        bytes: u64,
        began: Duration,
        appended: crate::wal::append::Appended,
    ) -> Result<(), ShardError> {
        let end = group.end();
        let first = group.puts.first().map_or(end, |put| put.first);
        let mut state = self.shared.lock();
        hold!(P8, first == state.durable, "entry starts at seq {first}, durable is {}", state.durable);
        state.durable = end;
        state.next_position = appended.position.next();
        // The entry was created in a free slot, so no successor's sentinel was there yet.
        state.confirmed = state.confirmed.max(began);
        if let Some(newer) = appended.manifest
            && newer.version > state.manifest.version
        {
            state.manifest = newer;
        }
        state.tiers.durable(group.generation, appended.position, bytes, end);
        state.counters.wal_entries += 1;
        state.counters.wal_bytes += bytes;
        state.counters.group_puts.record(group.puts.len() as u64);
        let now = self.ctx.now();
        for put in &group.puts {
            state.counters.ack_us.record(micros(now.saturating_sub(put.ordered)));
        }
        if group.generation == state.tiers.active.memtable.generation() {
            self.durable_in_generation = end.get() - state.tiers.active.memtable.first_seq().get();
        }
        Ok(())
    }

    fn on_seal(&mut self, reply: oneshot::Sender<Result<Seal, ShardError>>) -> Result<(), ShardError> {
        let (generation, rows) = {
            let state = self.shared.lock();
            (state.tiers.active.memtable.generation(), state.tiers.active.memtable.rows())
        };
        if rows > 0 {
            self.freeze(FreezeReason::Asked)?;
        }
        let last = self.shared.lock().tiers.frozen.back().map(|frozen| frozen.memtable.generation());
        let published = last.map(|generation| self.flushing.wait_for(generation));
        let _ = reply.send(Ok(Seal {
            generation: (rows > 0).then_some(generation),
            published,
            shared: Arc::clone(&self.shared),
        }));
        Ok(())
    }

    fn on_close(&mut self, reply: oneshot::Sender<Result<(), ShardError>>) -> Result<(), ShardError> {
        let rows = {
            let mut state = self.shared.lock();
            state.phase = Phase::Closing;
            state.tiers.active.memtable.rows()
        };
        self.closing.push(reply);
        if rows > 0 {
            self.freeze(FreezeReason::Asked)?;
        }
        self.flushing.hurry();
        Ok(())
    }

    pub(super) fn on_pressure(&mut self) -> Result<(), ShardError> {
        let (rows, frozen) = {
            let state = self.shared.lock();
            (state.tiers.active.memtable.rows(), state.tiers.frozen.len())
        };
        if self.ctx.parts.budget.over() && rows > 0 && frozen == 0 {
            return self.freeze(FreezeReason::Memory);
        }
        Ok(())
    }

    fn on_aged(&mut self, generation: Generation) -> Result<(), ShardError> {
        let due = {
            let state = self.shared.lock();
            let active = &state.tiers.active.memtable;
            active.generation() == generation && active.rows() > 0
        };
        if due { self.freeze(FreezeReason::Age) } else { Ok(()) }
    }

    /// Everything is flushed: closed. Or flushing keeps failing: closed with the error; the rows stay in the
    /// WAL.
    fn finish_close(&mut self) {
        if self.closing.is_empty() {
            return;
        }
        let given_up = self.flushing.given_up(self.ctx.settings.flush.close_attempts);
        let drained = self.queue.is_empty() && !self.encoding && self.encoded.is_none() && !self.writing;
        let done = drained && self.shared.lock().tiers.frozen.is_empty();
        if !done && (given_up.is_none() || !drained) {
            return;
        }
        let released = {
            let mut state = self.shared.lock();
            state.phase = Phase::Closed(given_up.clone());
            state.tiers.release(&self.ctx)
        };
        self.shared.announce_stopped();
        let closed = ShardError::Closed { shard: self.ctx.shard };
        self.flushing.stop(&closed);
        self.tokens.stop(&closed);
        drop(released);
        for reply in self.closing.drain(..) {
            let _ = reply.send(given_up.clone().map_or(Ok(()), Err));
        }
        self.finished = true;
    }

    fn freeze_if_full(&mut self, incoming: Incoming) -> Result<(), ShardError> {
        let reason = {
            let state = self.shared.lock();
            let active = &state.tiers.active;
            let generation = active.memtable.generation();
            let underway = u64::from(self.writing) + u64::from(self.encoding || self.encoded.is_some());
            let waiting =
                self.queue.entries_for(generation, self.ctx.settings.wal.max_entry_bytes) + underway;
            choose_freeze(&active.stats(waiting, self.ctx.now()), incoming, &self.ctx.settings.freeze)
        };
        reason.map_or(Ok(()), |reason| self.freeze(reason))
    }

    fn freeze(&mut self, reason: FreezeReason) -> Result<(), ShardError> {
        let mut state = self.shared.lock();
        let (generation, rows) =
            (state.tiers.active.memtable.generation(), state.tiers.active.memtable.rows());
        state.tiers.freeze(&self.ctx)?;
        *state.counters.freezes.entry(reason.to_string()).or_default() += 1;
        let waiting = state.tiers.frozen.len();
        drop(state);
        self.age_timer.clear();
        self.shared.announce_frozen(waiting);
        logging::frozen(self.ctx.shard, generation, rows, reason);
        Ok(())
    }

    fn start_age_timer(&mut self) {
        let Some(max_age) = self.ctx.settings.freeze.max_age_ms else { return };
        let generation = self.shared.lock().tiers.active.memtable.generation();
        let slept = self.ctx.env().sleep(Duration::from_millis(max_age));
        self.age_timer.run(self.ctx.env(), "age timer", &self.outbox, async move {
            slept.await;
            Event::Aged(generation)
        });
    }

    pub(super) fn fenced(&self, theirs: Epoch) -> ShardError {
        ShardError::Fenced { shard: self.ctx.shard, ours: self.ctx.epoch, theirs }
    }

    fn failed(&self) -> Option<ShardError> {
        match &self.shared.lock().phase {
            Phase::Failed(cause) => Some(stopped_by(self.ctx.shard, cause)),
            _ => None,
        }
    }

    /// The writer is over before anybody is told: who learns of the failure finds no reads served (P7).
    fn stop_with(&mut self, group: Group, cause: ShardError) {
        let told = failed_append(self.ctx.shard, &cause);
        self.stop(cause);
        group.fail(&told);
    }

    /// The writer is over: it acknowledges nothing and serves no reads from here on (P7), and gives its
    /// memory back (L5). Snapshots taken before keep what they show.
    fn stop(&mut self, cause: ShardError) {
        let released = {
            let mut state = self.shared.lock();
            if matches!(state.phase, Phase::Failed(_)) {
                return;
            }
            state.phase = Phase::Failed(cause.clone());
            state.last_error = Some(cause.clone());
            state.tiers.release(&self.ctx)
        };
        self.shared.announce_stopped();
        logging::stopped(self.ctx.shard, self.ctx.epoch, &cause);
        let stopped = stopped_by(self.ctx.shard, &cause);
        for task in [&mut self.wal_task, &mut self.encode_task, &mut self.age_timer, &mut self.look_task] {
            task.clear();
        }
        self.gather.stop();
        self.flushing.stop(&stopped);
        // Before anybody is told, so that who learns of the failure finds the memory free.
        drop(released);
        self.tokens.stop(&stopped);
        self.queue.fail(&stopped);
        if let Some((group, _)) = self.encoded.take() {
            group.fail(&stopped);
        }
        for reply in self.closing.drain(..) {
            let _ = reply.send(Err(cause.clone()));
        }
    }

    /// Answers an event that comes after the writer stopped.
    fn reject(&mut self, event: Event, cause: &ShardError) {
        match event {
            Event::Put(request) => {
                let _ = request.ack.send(Err(cause.clone()));
            }
            Event::Encoded(group, _) => group.fail(cause),
            Event::Appended(written) => written.group.fail(cause),
            Event::Tokens(_, reply) => {
                let _ = reply.send(Err(cause.clone()));
            }
            Event::Seal(reply) => {
                let _ = reply.send(Err(cause.clone()));
            }
            Event::Close(reply) => {
                let first = self.shared.lock().last_error.clone().unwrap_or_else(|| cause.clone());
                let _ = reply.send(Err(first));
            }
            _ => {}
        }
    }
}

impl Drop for Conductor {
    /// Nobody waits for a conductor that is gone (L1), and no panic looks like a shard that serves (P14):
    /// puts, waiting writers, seals and closes are answered, and the memory is given back.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let cause = if std::thread::panicking() {
            ShardError::Internal { invariant: "P14", context: "the task of the shard panicked".to_owned() }
        } else {
            let reason = "its task ended: the handle was dropped without a close, or the runtime is gone";
            ShardError::Poisoned { shard: self.ctx.shard, reason: reason.to_owned() }
        };
        self.stop(cause);
    }
}

/// As counters tell of times.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Encodes a group as one entry of one batch.
fn encode(ctx: &Context, group: &Group) -> Result<Bytes, ShardError> {
    let internal = |context: String| ShardError::Internal { invariant: "P1", context };
    let batch = group.batch(&ctx.schema).map_err(|error| internal(error.to_string()))?;
    let compression = ctx.settings.wal.compression.into();
    let tokens = group.tokens();
    wal_entry::encode_rows_with_tokens(
        &ctx.schema,
        ctx.epoch,
        group.generation,
        &[batch],
        &tokens,
        compression,
    )
    .map_err(|error| internal(error.to_string()))
}
