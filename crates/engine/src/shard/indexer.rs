//! Applies the rows of one memtable to its search indexes, in order, in the background.
//!
//! Rows not applied yet are found all the same (readers search them flat); only the flush waits (P9).

use std::sync::Arc;

use arrow_array::RecordBatch;
use headwater_format::coord::RowOffset;
use headwater_store::env::EnvRef;
use tokio::sync::mpsc;

use crate::error::ShardError;
use crate::index::MemIndex;
use crate::shard::event::Event;
use crate::shard::task_slot::TaskSlot;

/// The applying task of one memtable; nothing at all when it has no search indexes.
#[derive(Debug, Default)]
pub(super) struct Indexer {
    rows: Option<mpsc::UnboundedSender<(RowOffset, RecordBatch)>>,
    _task: TaskSlot,
}

impl Indexer {
    /// Starts a task for `indexes`, which tells `outbox` after each batch.
    pub fn start(env: &EnvRef, indexes: &[Arc<dyn MemIndex>], outbox: &mpsc::UnboundedSender<Event>) -> Self {
        if indexes.is_empty() {
            return Self::default();
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut task = TaskSlot::default();
        let applied = apply_all(indexes.to_vec(), receiver, outbox.clone());
        task.run(env, "index", outbox, async move {
            applied.await;
            Event::Indexed
        });
        Self { rows: Some(sender), _task: task }
    }

    /// Rows of `batch`, starting at `first` in the memtable, are to be applied.
    pub fn push(&self, first: RowOffset, batch: &RecordBatch) {
        if let Some(rows) = &self.rows {
            // The task ends early only after it reported an index error, which stops the shard.
            let _ = rows.send((first, batch.clone()));
        }
    }
}

async fn apply_all(
    indexes: Vec<Arc<dyn MemIndex>>,
    mut rows: mpsc::UnboundedReceiver<(RowOffset, RecordBatch)>,
    outbox: mpsc::UnboundedSender<Event>,
) {
    while let Some((first, batch)) = rows.recv().await {
        for index in &indexes {
            if let Err(error) = index.apply(first, &batch).await {
                let _ = outbox.send(Event::Broken(ShardError::from(error)));
                return;
            }
        }
        let _ = outbox.send(Event::Indexed);
    }
}
