//! The handle of an open shard.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::future::{Either, select};
use headwater_format::coord::{Epoch, Generation, ShardId, WalPosition};
use headwater_format::token::ClientToken;
use tokio::sync::{mpsc, oneshot};

use crate::error::ShardError;
use crate::ingest::PreparedBatch;
use crate::shard::context::Context;
use crate::shard::event::{Event, PutRequest};
use crate::shard::options::WriteOptions;
use crate::shard::reopen::OwnClaims;
use crate::shard::state::{Phase, Shared};
use crate::shard::stats::ShardStats;
use crate::shard::task_slot::TaskSlot;
use crate::shard::ticket::{Ack, Ticket};
use crate::shard::tokens::Listed;
use crate::snapshot::{Lineage, ReadLevel, ShardSnapshot, SnapshotLimits, Unchanged};

/// A shard this process has claimed. Usable from many tasks at once.
///
/// [`Shard::close`] flushes and reports the first error. Dropping the handle without it is a crash in order:
/// tasks are cancelled, what was acknowledged is in the WAL.
#[derive(Debug)]
pub struct Shard {
    pub(super) ctx: Arc<Context>,
    pub(super) shared: Arc<Shared>,
    pub(super) outbox: mpsc::UnboundedSender<Event>,
    /// Claims made by [`Shard::reopen`].
    pub(super) own_claims: OwnClaims,
    pub(super) _conductor: TaskSlot,
    pub(super) _pressure: TaskSlot,
}

/// What [`Shard::seal`] froze.
#[derive(Debug)]
pub struct Seal {
    /// The generation it froze; none when the active memtable was empty.
    pub generation: Option<Generation>,
    pub(super) published: Option<oneshot::Receiver<Result<(), ShardError>>>,
    pub(super) shared: Arc<Shared>,
}

impl Seal {
    /// Waits until the sealed generation and every earlier one is published, and for nothing newer (L6).
    ///
    /// # Errors
    /// What stopped the writer before that. A flush that fails is tried again, not reported here.
    pub async fn wait(self) -> Result<(), ShardError> {
        let Some(published) = self.published else { return Ok(()) };
        published.await.unwrap_or_else(|_gone| Err(self.shared.why_stopped()))
    }
}

impl Shard {
    /// Upserts the rows of `batch`: columns of the table by name, in any order; missing nullable columns are
    /// null. Resolves when the rows are durable. Atomic (P3).
    ///
    /// # Errors
    /// [`ShardError::Invalid`] for rows that do not fit (nothing is written); [`ShardError::Backpressure`]:
    /// try again; [`ShardError::Fenced`], [`ShardError::Poisoned`], [`ShardError::UnknownOutcome`]: reopen;
    /// the put may then be there or not, for good.
    pub async fn put(&self, batch: RecordBatch) -> Result<Ack, ShardError> {
        self.put_with(batch, WriteOptions::default()).await
    }

    /// As [`Shard::put`], if no key of `batch` was written since the snapshot `unchanged` comes from: all of
    /// it or nothing, decided in the moment it is ordered, so no write of another caller comes between (P3).
    ///
    /// # Errors
    /// [`ShardError::ConditionFailed`]: nothing was written, read again; also when rows since then have left
    /// memory and nobody knows any more. [`ShardError::Invalid`] on a table without a key. Otherwise as
    /// [`Shard::put`].
    pub async fn put_if(&self, batch: RecordBatch, unchanged: Unchanged) -> Result<Ack, ShardError> {
        self.put_with(batch, WriteOptions { unchanged: Some(unchanged), ..WriteOptions::default() }).await
    }

    /// As [`Shard::put`], with options. A put whose client token came before resolves with the first one's
    /// acknowledgement, whatever its rows and its condition, and is not written again (P12).
    ///
    /// # Errors
    /// As [`Shard::put_if`]; [`ShardError::Backpressure`] also while the shard remembers `tokens.max` tokens.
    pub async fn put_with(&self, batch: RecordBatch, options: WriteOptions) -> Result<Ack, ShardError> {
        self.submit(self.ctx.ingest.rows(batch)?, options, None).await?.await
    }

    /// As [`Shard::put`], but resolves as soon as the rows are ordered and visible at [`ReadLevel::Pending`];
    /// the ticket resolves when they are durable.
    ///
    /// # Errors
    /// See [`Shard::put`].
    pub async fn put_nowait(&self, batch: RecordBatch) -> Result<Ticket, ShardError> {
        self.put_nowait_with(batch, WriteOptions::default()).await
    }

    /// As [`Shard::put_with`], without waiting for durability.
    ///
    /// # Errors
    /// See [`Shard::put_with`].
    pub async fn put_nowait_with(
        &self,
        batch: RecordBatch,
        options: WriteOptions,
    ) -> Result<Ticket, ShardError> {
        self.submit_accepted(self.ctx.ingest.rows(batch)?, options).await
    }

    /// Deletes the rows with the keys in `keys`, a batch of exactly the key columns. Keys that are not there
    /// are fine.
    ///
    /// # Errors
    /// See [`Shard::put`]; [`ShardError::Invalid`] on a table without a key.
    pub async fn delete(&self, keys: RecordBatch) -> Result<Ack, ShardError> {
        self.delete_with(keys, WriteOptions::default()).await
    }

    /// As [`Shard::delete`], under the condition of [`Shard::put_if`].
    ///
    /// # Errors
    /// See [`Shard::put_if`].
    pub async fn delete_if(&self, keys: RecordBatch, unchanged: Unchanged) -> Result<Ack, ShardError> {
        self.delete_with(keys, WriteOptions { unchanged: Some(unchanged), ..WriteOptions::default() }).await
    }

    /// As [`Shard::delete`], with options.
    ///
    /// # Errors
    /// See [`Shard::put_with`].
    pub async fn delete_with(&self, keys: RecordBatch, options: WriteOptions) -> Result<Ack, ShardError> {
        self.submit(self.ctx.ingest.deletes(keys)?, options, None).await?.await
    }

    /// As [`Shard::delete`], without waiting for durability.
    ///
    /// # Errors
    /// See [`Shard::delete`].
    pub async fn delete_nowait(&self, keys: RecordBatch) -> Result<Ticket, ShardError> {
        self.delete_nowait_with(keys, WriteOptions::default()).await
    }

    /// As [`Shard::delete_with`], without waiting for durability.
    ///
    /// # Errors
    /// See [`Shard::put_with`].
    pub async fn delete_nowait_with(
        &self,
        keys: RecordBatch,
        options: WriteOptions,
    ) -> Result<Ticket, ShardError> {
        self.submit_accepted(self.ctx.ingest.deletes(keys)?, options).await
    }

    /// The client tokens that begin with the bytes of `beginning`, of writes that are durable; those on their
    /// way are waited for. What a snapshot taken before sees of them, it lists.
    ///
    /// # Errors
    /// What stopped the writer.
    pub async fn tokens(&self, beginning: &ClientToken) -> Result<Vec<ClientToken>, ShardError> {
        let (reply, answer) = oneshot::channel();
        self.post(Event::Tokens(beginning.clone(), reply))?;
        let listed = answer.await.unwrap_or_else(|_gone| Err(self.shared.why_stopped()))?;
        let mut tokens = Vec::with_capacity(listed.len());
        for Listed { token, underway } in listed {
            if let Some(underway) = underway {
                underway.await.unwrap_or_else(|_gone| Err(self.shared.why_stopped()))?;
            }
            tokens.push(token);
        }
        Ok(tokens)
    }

    /// Freezes the active memtable. [`Seal::wait`] waits for its flush.
    ///
    /// # Errors
    /// What stopped the writer.
    pub async fn seal(&self) -> Result<Seal, ShardError> {
        let (reply, answer) = oneshot::channel();
        self.post(Event::Seal(reply))?;
        answer.await.unwrap_or_else(|_gone| Err(self.shared.why_stopped()))
    }

    /// Memtables and SSTables as of now, as one consistent cut (P6).
    ///
    /// # Errors
    /// [`ShardError::Fenced`] and [`ShardError::Poisoned`]: such a writer serves no reads (P7);
    /// [`ShardError::Unavailable`] when the epoch could not be confirmed in time.
    pub async fn snapshot(&self, level: ReadLevel) -> Result<ShardSnapshot, ShardError> {
        self.confirm_epoch().await?;
        let state = self.shared.lock();
        state.check_readable(self.ctx.shard)?;
        let seq = match level {
            ReadLevel::Durable => state.durable,
            ReadLevel::Pending => state.tiers.next_seq,
        };
        let memtables = state.tiers.views();
        let limits = SnapshotLimits {
            env: Arc::clone(self.ctx.env()),
            taken: self.ctx.now(),
            max_age: Duration::from_millis(self.ctx.settings.reads.snapshot_max_age_ms),
        };
        let manifest = Arc::clone(&state.manifest);
        let lineage = Lineage::Writer(self.ctx.epoch);
        Ok(ShardSnapshot::new(self.ctx.shard, seq, level, manifest, memtables, limits, lineage))
    }

    /// Flushes everything and ends the writer. New puts are refused from here on.
    ///
    /// # Errors
    /// The first error that kept a row from being durable or flushed. Rows that were acknowledged are in the
    /// WAL all the same.
    pub async fn close(&self) -> Result<(), ShardError> {
        let (reply, answer) = oneshot::channel();
        if self.outbox.send(Event::Close(reply)).is_err() {
            return self.closed_already();
        }
        answer.await.unwrap_or_else(|_gone| self.closed_already())
    }

    /// Counters and state; works in every state.
    pub fn stats(&self) -> ShardStats {
        let state = self.shared.lock();
        ShardStats {
            shard: self.ctx.shard,
            epoch: self.ctx.epoch,
            status: state.status(),
            last_error: state.last_error.as_ref().map(ToString::to_string),
            manifest_version: state.manifest.version,
            active_generation: state.tiers.active.memtable.generation(),
            active_rows: state.tiers.active.memtable.rows(),
            frozen: state.tiers.frozen.len(),
            memtable_bytes: state.tiers.resident_bytes(),
            index_bytes: state.tiers.index_bytes(),
            sstables: state.manifest.sstables.len(),
            durable: state.durable,
            next_seq: state.tiers.next_seq,
            next_position: state.next_position,
            replay_after: state.manifest.replay_after,
            counters: state.counters.clone(),
        }
    }

    /// The failure that stopped this writer; none while it serves and after a close in order.
    pub fn failure(&self) -> Option<ShardError> {
        match &self.shared.lock().phase {
            Phase::Failed(cause) => Some(cause.clone()),
            Phase::Serving | Phase::Closing | Phase::Closed(_) => None,
        }
    }

    /// The shard.
    pub fn id(&self) -> ShardId {
        self.ctx.shard
    }

    /// This writer's epoch.
    pub fn epoch(&self) -> Epoch {
        self.ctx.epoch
    }

    /// The storage schema rows have in memtables, WAL and SSTables: the table's, with `_tombstone` last.
    pub fn storage_schema(&self) -> &SchemaRef {
        &self.ctx.schema
    }

    fn closed_already(&self) -> Result<(), ShardError> {
        self.shared.lock().close_result(self.ctx.shard)
    }

    fn post(&self, event: Event) -> Result<(), ShardError> {
        self.outbox.send(event).map_err(|_gone| self.shared.why_stopped())
    }

    async fn submit_accepted(
        &self,
        prepared: PreparedBatch,
        options: WriteOptions,
    ) -> Result<Ticket, ShardError> {
        let (accepted, is_accepted) = oneshot::channel();
        let ticket = self.submit(prepared, options, Some(accepted)).await?;
        match is_accepted.await {
            Ok(()) => Ok(ticket),
            // Refused: the ticket has the reason.
            Err(_gone) => Err(ticket.await.err().unwrap_or_else(|| self.shared.why_stopped())),
        }
    }

    async fn submit(
        &self,
        prepared: PreparedBatch,
        options: WriteOptions,
        accepted: Option<oneshot::Sender<()>>,
    ) -> Result<Ticket, ShardError> {
        if options.unchanged.is_some() && self.ctx.key.is_none() {
            return Err(ShardError::invalid("the table has no key, so no write can be conditional on one"));
        }
        self.shared.check_writable()?;
        let (ack, outcome) = oneshot::channel();
        let ticket = Ticket { outcome, shared: Arc::clone(&self.shared), untold: self.shared.untold() };
        if prepared.is_empty() && options == WriteOptions::default() {
            let now = self.shared.lock().tiers.next_seq;
            let _ = ack.send(Ok(Ack { first: now, end: now, position: WalPosition::ZERO }));
            if let Some(accepted) = accepted {
                let _ = accepted.send(());
            }
            return Ok(ticket);
        }
        if !prepared.is_empty() {
            self.wait_for_room().await?;
        }
        let charge = self.ctx.parts.budget.charge(prepared.resident_bytes);
        self.post(Event::Put(Box::new(PutRequest { prepared, options, accepted, ack, charge })))?;
        Ok(ticket)
    }

    /// Waits until there is memory and the flush backlog is short; fails retryably when that takes too long
    /// (B2).
    async fn wait_for_room(&self) -> Result<(), ShardError> {
        let budget = &self.ctx.parts.budget;
        let settings = &self.ctx.settings.backpressure;
        let mut frozen = self.shared.frozen();
        if !budget.over() && *frozen.borrow() < settings.max_frozen {
            return Ok(());
        }
        self.shared.lock().counters.backpressure_waits += 1;
        budget.press();
        let freed = std::pin::pin!(async {
            let _ = frozen.wait_for(|waiting| *waiting < settings.max_frozen).await;
            budget.below().await;
        });
        let mut stopped = self.shared.stopped();
        let ended = std::pin::pin!(async { stopped.wait_for(|stopped| *stopped).await.map(|_| ()) });
        let room = select(freed, ended);
        let timeout = self.ctx.env().sleep(Duration::from_millis(settings.timeout_ms));
        match select(room, timeout).await {
            Either::Left(_) => self.shared.check_writable(),
            Either::Right(_) => {
                self.shared.check_writable()?;
                Err(ShardError::Backpressure {
                    shard: self.ctx.shard,
                    what: "bytes",
                    used: budget.used(),
                    limit: budget.limit(),
                    waited_ms: settings.timeout_ms,
                })
            }
        }
    }

    /// A writer serves reads only while its epoch was confirmed within a bounded time, so that a zombie
    /// notices (P7). An answer is as old as its question: a confirmation that took longer than it lasts is
    /// none.
    async fn confirm_epoch(&self) -> Result<(), ShardError> {
        let lasts = Duration::from_millis(self.ctx.settings.reads.epoch_confirm_ms);
        let (confirmed, known) = {
            let state = self.shared.lock();
            state.check_readable(self.ctx.shard)?;
            (state.confirmed, Arc::clone(&state.manifest))
        };
        let asked = self.ctx.now();
        if asked.saturating_sub(confirmed) <= lasts {
            return Ok(());
        }
        let newer = self.ctx.register.refresh(known.version).await?;
        if let Some(theirs) = newer.as_ref().map(|newer| newer.writer_epoch)
            && theirs > self.ctx.epoch
        {
            self.post(Event::FencedBy(theirs))?;
            return Err(ShardError::Fenced { shard: self.ctx.shard, ours: self.ctx.epoch, theirs });
        }
        let mut state = self.shared.lock();
        if let Some(newer) = newer.filter(|newer| newer.version > state.manifest.version) {
            state.manifest = newer;
        }
        // Appends confirm it too, and may have done so meanwhile.
        state.confirmed = state.confirmed.max(asked);
        let age = self.ctx.now().saturating_sub(state.confirmed);
        if age <= lasts {
            return Ok(());
        }
        Err(ShardError::Unavailable {
            reason: format!(
                "epoch {} of shard {} was last confirmed {} ms ago, more than the {} ms of \
                 reads.epoch_confirm_ms: the manifest is read too slowly; try again",
                self.ctx.epoch,
                self.ctx.shard,
                age.as_millis(),
                lasts.as_millis()
            ),
        })
    }
}
