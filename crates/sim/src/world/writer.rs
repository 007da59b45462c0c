//! A writer process: opens the shard, sends writes, and notes what it was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use headwater_engine::budget::MemoryBudget;
use headwater_engine::index::MemIndexFactory;
use headwater_engine::plants::Plants;
use headwater_engine::shard::{ShardStats, ShardStatus};
use headwater_engine::{Ack, Shard, ShardError, ShardParts, WriteOptions};
use headwater_store::env::{Env, SeededProcess};

use super::build::World;
use super::tally::kind;
use super::waiting::{run_in, within};
use crate::history::{OpKind, Outcome, SessionId, Told};
use crate::index::SlowIndexFactory;
use crate::table::ModelTables;

/// A process that has the shard open.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The process.
    pub process: SeededProcess,
    /// Its session in the history.
    pub session: SessionId,
    /// The open shard.
    pub shard: Arc<Shard>,
    /// The table as the process sees it.
    pub tables: Arc<ModelTables>,
    /// Its memory.
    pub budget: Arc<MemoryBudget>,
    /// Writes and waits without an outcome.
    pub in_flight: InFlight,
}

/// Counts what has no outcome yet.
#[derive(Clone, Debug, Default)]
pub struct InFlight(Arc<AtomicU64>);

impl InFlight {
    /// One more, until the guard is dropped.
    pub fn enter(&self) -> impl Drop + Send + use<> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Leave(Arc::clone(&self.0))
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct Leave(Arc<AtomicU64>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Why a process has no open shard.
#[derive(Debug)]
pub enum OpenFailed {
    /// The process died, or was given up.
    Died,
    /// The engine refused.
    Refused(ShardError),
}

impl World {
    /// A new process opens the shard. Gives up, and kills the process, after `limit`.
    ///
    /// # Errors
    /// See [`OpenFailed`].
    pub async fn open(&self, name: &str, limit: Duration) -> Result<Writer, OpenFailed> {
        let process = self.machine.process(name);
        let opened = self.history.lock().tick();
        let mut tables = ModelTables::new(self.files(&process));
        if self.config.plants == Plants::FlushBeforeIndexed {
            tables = tables.trusting();
        }
        let tables = Arc::new(tables);
        let budget = MemoryBudget::new(self.config.budget);
        let slow = self.config.slow_index.map(|delay| -> Arc<dyn MemIndexFactory> {
            Arc::new(SlowIndexFactory::new(process.env(), delay, self.index_gate.clone()))
        });
        let parts = ShardParts {
            store: self.client(&process),
            table: Arc::clone(&tables) as _,
            env: process.env(),
            budget: Arc::clone(&budget),
            indexes: slow.into_iter().collect(),
            plants: self.config.plants,
        };
        let open = Shard::open(self.shard, parts, self.config.settings.clone());
        let Some(result) = within(&self.machine, limit, run_in(&process, "open", open)).await.flatten()
        else {
            if process.is_alive() {
                process.crash();
            }
            return Err(OpenFailed::Died);
        };
        match result {
            Ok(shard) => {
                let session = self.history.lock().session(name, opened);
                self.tally.lock().opens += 1;
                self.machine.note(&format!("{name} opened the shard at epoch {}", shard.epoch()));
                let (shard, in_flight) = (Arc::new(shard), InFlight::default());
                Ok(Writer { process, session, shard, tables, budget, in_flight })
            }
            Err(error) => {
                self.machine.note(&format!("{name} cannot open: {error}"));
                self.judge_error(&error, "open");
                process.crash();
                Err(OpenFailed::Refused(error))
            }
        }
    }

    /// Sends a write from the writer's process; its outcome goes to the history.
    pub fn write(&self, writer: &Writer, kind: OpKind, nowait: bool) -> u64 {
        let number = self.history.lock().invoke(writer.session, kind.clone());
        self.tally.lock().writes += 1;
        let (world, shard, session) = (self.clone(), Arc::clone(&writer.shard), writer.session);
        let in_flight = writer.in_flight.enter();
        let work = async move {
            let result = world.send(&shard, number, &kind, nowait, WriteOptions::default()).await;
            world.resolve(session, number, result);
            drop(in_flight);
        };
        writer.process.spawn("write", work.boxed()).detach();
        number
    }

    pub(super) async fn send(
        &self,
        shard: &Shard,
        number: u64,
        kind: &OpKind,
        nowait: bool,
        options: WriteOptions,
    ) -> Result<Ack, ShardError> {
        match kind {
            OpKind::Put(keys) if nowait => {
                shard.put_nowait_with(self.rows.put(number, keys), options).await?.await
            }
            OpKind::Put(keys) => shard.put_with(self.rows.put(number, keys), options).await,
            OpKind::Delete(keys) if nowait => {
                shard.delete_nowait_with(self.rows.keys(keys), options).await?.await
            }
            OpKind::Delete(keys) => shard.delete_with(self.rows.keys(keys), options).await,
        }
    }

    pub(super) fn resolve(&self, session: SessionId, number: u64, result: Result<Ack, ShardError>) {
        let outcome = match &result {
            Ok(ack) => {
                let Ack { first, end, position } = *ack;
                if !self.audit.has_entry(position) {
                    let what = format!("write {number} is acknowledged before WAL entry {position} exists");
                    self.report("P1", what);
                }
                self.tally.lock().acked += 1;
                Outcome::Acked(Told { first, end, position })
            }
            Err(error) => {
                self.judge_error(error, "write");
                match error {
                    ShardError::Invalid { .. }
                    | ShardError::Backpressure { .. }
                    | ShardError::ConditionFailed { .. } => Outcome::Refused,
                    _ => Outcome::Unknown,
                }
            }
        };
        let end = match &result {
            Ok(ack) => format!("acknowledged at {}, Seq {}", ack.position, ack.first),
            Err(error) => format!("failed: {}", kind(error)),
        };
        self.machine.note(&format!("write {number} of session {session} {end}"));
        self.history.lock().resolve(number, outcome, self.machine.now());
    }

    /// Seals the active memtable and waits for its flush, in the background; what comes back must be true.
    pub fn seal(&self, writer: &Writer) {
        let (world, shard) = (self.clone(), Arc::clone(&writer.shard));
        let in_flight = writer.in_flight.enter();
        let work = async move {
            let sealed = async {
                let seal = shard.seal().await?;
                let generation = seal.generation;
                seal.wait().await.map(|()| generation)
            };
            match sealed.await {
                Ok(Some(generation)) => {
                    let current = world.audit.manifest().map(|manifest| manifest.current_generation);
                    if current.is_none_or(|current| current <= generation) {
                        world.report("P5", format!("generation {generation} is said to be published"));
                    }
                }
                Ok(None) => {}
                Err(error) => world.judge_error(&error, "seal"),
            }
            drop(in_flight);
        };
        writer.process.spawn("seal", work.boxed()).detach();
    }

    /// Closes the shard in order and waits for it; the process ends. None when it died or took longer than
    /// `limit`.
    pub async fn close(&self, writer: Writer, limit: Duration) -> Option<Result<(), ShardError>> {
        let shard = Arc::clone(&writer.shard);
        let close = run_in(&writer.process, "close", async move { shard.close().await });
        let closed = within(&self.machine, limit, close).await.flatten();
        match &closed {
            Some(Ok(())) => self.check_closed(&writer),
            Some(Err(error)) => self.judge_error(error, "close"),
            None => {}
        }
        self.machine.note(&format!(
            "{} closed: {:?}",
            writer.process.name(),
            closed.as_ref().map(Result::is_ok)
        ));
        self.end(writer);
        closed
    }

    /// What a close without an error promises: everything acknowledged is in SSTables.
    fn check_closed(&self, writer: &Writer) {
        let history = self.history.lock();
        let acked = history.ops.values().filter(|op| op.session == writer.session);
        let last = acked.filter_map(|op| match op.outcome {
            Outcome::Acked(told) => Some(told.position),
            _ => None,
        });
        let last = last.max();
        drop(history);
        let cursor = self.audit.manifest().map(|manifest| manifest.replay_after);
        if last > cursor {
            self.report("L2", format!("closed with rows at {last:?} and the replay cursor at {cursor:?}"));
        }
    }

    /// Kills the writer's process.
    pub fn end(&self, writer: Writer) {
        self.tally.lock().writer_ended(&writer.shard.stats());
        if writer.process.is_alive() {
            writer.process.crash();
        }
    }

    /// Whether the writer can go on.
    pub fn serves(&self, writer: &Writer) -> bool {
        let ShardStats { status, .. } = writer.shard.stats();
        writer.process.is_alive() && matches!(status, ShardStatus::Serving)
    }

    /// Some errors must never be seen, for every write here is right (P14) and no invariant of the engine
    /// breaks.
    pub(super) fn judge_error(&self, error: &ShardError, doing: &str) {
        self.tally.lock().error(error);
        match error {
            ShardError::Internal { invariant, context } => {
                self.report(invariant, format!("{doing}: the engine itself says {context}"));
            }
            ShardError::Invalid { reason } => {
                self.report("P14", format!("{doing}: refused as invalid: {reason}"))
            }
            ShardError::Sealed { .. } => self.report("P14", format!("{doing}: {error}")),
            _ => {}
        }
    }
}
