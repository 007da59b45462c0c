//! A memtable index that takes its time.
//!
//! Owns: [`SlowIndex`], [`SlowIndexFactory`], [`IndexGate`]. It indexes nothing: what matters is when rows
//! count as applied, so that a flush which does not wait is caught (P9, lance#9035). Applying out of order,
//! or rows twice, is an error (P8, lance#7791).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use headwater_engine::index::{IndexDescription, IndexError, MemIndex, MemIndexFactory};
use headwater_format::coord::{Generation, RowOffset};
use headwater_store::env::EnvRef;
use tokio::sync::watch;

/// Name of the model index, and of its file in an SSTable.
pub const SLOW_INDEX: &str = "slow";

/// Holds all slow indexes of one factory back while closed.
#[derive(Clone, Debug)]
pub struct IndexGate(watch::Sender<bool>);

impl Default for IndexGate {
    fn default() -> Self {
        Self(watch::Sender::new(true))
    }
}

impl IndexGate {
    /// From now on nothing is applied.
    pub fn close(&self) {
        self.0.send_replace(false);
    }

    /// Lets everything go on.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Whether rows are applied.
    pub fn is_open(&self) -> bool {
        *self.0.borrow()
    }
}

/// Makes slow indexes.
#[derive(Debug)]
pub struct SlowIndexFactory {
    env: EnvRef,
    max_delay: Duration,
    gate: IndexGate,
}

impl SlowIndexFactory {
    /// Each batch takes up to `max_delay` to apply, drawn from `env`, and waits while `gate` is closed.
    pub fn new(env: EnvRef, max_delay: Duration, gate: IndexGate) -> Self {
        Self { env, max_delay, gate }
    }
}

impl MemIndexFactory for SlowIndexFactory {
    fn create(&self, _generation: Generation, schema: &SchemaRef) -> Result<Arc<dyn MemIndex>, IndexError> {
        if schema.column_with_name("op").is_none() {
            let reason = "the schema has no column op".to_owned();
            return Err(IndexError { index: SLOW_INDEX.to_owned(), reason });
        }
        Ok(Arc::new(SlowIndex {
            env: Arc::clone(&self.env),
            max_delay: self.max_delay,
            gate: self.gate.0.subscribe(),
            applied: AtomicU32::new(0),
        }))
    }
}

/// One slow index.
#[derive(Debug)]
pub struct SlowIndex {
    env: EnvRef,
    max_delay: Duration,
    gate: watch::Receiver<bool>,
    applied: AtomicU32,
}

#[async_trait]
impl MemIndex for SlowIndex {
    fn describe(&self) -> IndexDescription {
        IndexDescription {
            name: SLOW_INDEX.to_owned(),
            kind: "model".to_owned(),
            columns: vec!["op".to_owned()],
        }
    }

    async fn apply(&self, first: RowOffset, batch: &RecordBatch) -> Result<(), IndexError> {
        let spread = u64::try_from(self.max_delay.as_micros()).unwrap_or(u64::MAX).max(1);
        self.env.sleep(Duration::from_micros(self.env.random() % spread)).await;
        // A dropped gate is open.
        let _ = self.gate.clone().wait_for(|open| *open).await;
        let applied = self.applied.load(Ordering::SeqCst);
        if first.get() != applied {
            let reason = format!("rows from {first} applied when {applied} are there");
            return Err(IndexError { index: SLOW_INDEX.to_owned(), reason });
        }
        self.applied.store(applied + batch.num_rows() as u32, Ordering::SeqCst);
        Ok(())
    }

    fn applied(&self) -> RowOffset {
        RowOffset::new(self.applied.load(Ordering::SeqCst))
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
    }
}
