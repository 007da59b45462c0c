//! P9, lance#9035: a manifest never names an SSTable that lacks what its memtable carried, key sidecar
//! included.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use headwater::coord::{Generation, RowOffset};
use headwater::{OpenOptions, ReadLevel, Sharding, Table};
use headwater_engine::index::{IndexDescription, IndexError, MemIndex, MemIndexFactory};
use headwater_engine::plants::Plants;
use tokio::sync::watch;

use crate::support::{Home, expected, keys, named, options, read, rows};

/// How often the manifest is looked at while the index is held back. Each look is a dozen requests.
const LOOKS: usize = 20;

/// Holds the indexes of a table back while it is closed.
#[derive(Clone, Debug)]
struct Gate(watch::Sender<bool>);

impl Gate {
    fn new(open: bool) -> Self {
        Self(watch::Sender::new(open))
    }

    fn open(&self) {
        self.0.send_replace(true);
    }
}

impl MemIndexFactory for Gate {
    fn create(&self, _: Generation, _: &SchemaRef) -> Result<Arc<dyn MemIndex>, IndexError> {
        Ok(Arc::new(HeldBack { gate: self.0.subscribe(), applied: AtomicU32::new(0) }))
    }
}

/// An index of nothing, as slow as its gate.
#[derive(Debug)]
struct HeldBack {
    gate: watch::Receiver<bool>,
    applied: AtomicU32,
}

#[async_trait]
impl MemIndex for HeldBack {
    fn describe(&self) -> IndexDescription {
        IndexDescription {
            name: "held back".to_owned(),
            kind: "model".to_owned(),
            columns: vec!["id".to_owned()],
        }
    }

    async fn apply(&self, first: RowOffset, batch: &RecordBatch) -> Result<(), IndexError> {
        self.gate.clone().wait_for(|open| *open).await.expect("the test keeps the gate");
        let end = first.get() + u32::try_from(batch.num_rows()).unwrap();
        self.applied.store(end, Ordering::SeqCst);
        Ok(())
    }

    fn applied(&self) -> RowOffset {
        RowOffset::new(self.applied.load(Ordering::SeqCst))
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
    }
}

fn with_index(gate: &Gate) -> OpenOptions {
    OpenOptions { indexes: vec![Arc::new(gate.clone())], ..options() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_waits_for_an_index_that_is_behind_and_writes_come_through_meanwhile() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let gate = Gate::new(false);
    let table = Table::open(&home.uri(), with_index(&gate)).await.unwrap();
    table.put(rows(&[(1, "a"), (2, "b"), (3, "c")])).await.unwrap();
    table.put(rows(&[(1, "a2")])).await.unwrap();

    let mut flush = Box::pin(table.flush());
    for id in 0..LOOKS as i64 {
        // Drives the flush as far as it gets, and lets everything else run.
        assert!(futures::poll!(flush.as_mut()).is_pending(), "the flush waits");
        table.put(rows(&[(100 + id, "later")])).await.unwrap();
        assert!(home.shard().await.sstables.is_empty(), "nothing is named before it is complete");
    }
    gate.open();
    assert_eq!(flush.await.unwrap().len(), 1);
    assert_sidecar_is_complete(&table, &[1, 2, 3], &[4, 100, 0]).await;
    assert_eq!(read(&table).await.len(), 3 + LOOKS);
}

/// Every key that was written is found in the SSTables named, replaced ones included, and no other.
async fn assert_sidecar_is_complete(table: &Table, written: &[i64], never: &[i64]) {
    let snapshot = table.snapshot(ReadLevel::Durable).await.unwrap();
    let (id, shard) = &snapshot.shards()[0];
    assert_eq!(shard.sstables().unwrap().len(), 1);
    let reader = table.files().open_sstable(*id, &shard.sstables().unwrap()[0]).await.unwrap();
    let found = reader.find_keys(&keys(written)).await.unwrap();
    assert!(found.iter().all(|offsets| !offsets.is_empty()), "{found:?}");
    assert_eq!(found.iter().map(Vec::len).sum::<usize>() as u64, reader.physical_rows());
    let found = reader.find_keys(&keys(never)).await.unwrap();
    assert!(found.iter().all(Vec::is_empty), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn flushes_under_constant_writes_with_an_index_lose_no_key() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let gate = Gate::new(true);
    let mut slow = with_index(&gate);
    slow.settings.freeze.max_rows = 20;
    let table = Table::open(&home.uri(), slow).await.unwrap();
    for first in (0..200).step_by(10) {
        table.put(named(first..first + 10)).await.unwrap();
        let snapshot = table.snapshot(ReadLevel::Durable).await.unwrap();
        let (id, shard) = &snapshot.shards()[0];
        for sstable in shard.sstables().unwrap() {
            let reader = table.files().open_sstable(*id, sstable).await.unwrap();
            let generation = i64::try_from(sstable.generation.get()).unwrap();
            let written: Vec<i64> = ((generation - 1) * 20..generation * 20).collect();
            let found = reader.find_keys(&keys(&written)).await.unwrap();
            assert!(found.iter().all(|offsets| offsets.len() == 1), "generation {generation}: {found:?}");
        }
    }
    table.close().await.unwrap();
    assert_eq!(home.shard().await.sstables.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_while_the_index_is_behind_loses_nothing() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let gate = Gate::new(false);
    let table = Table::open(&home.uri(), with_index(&gate)).await.unwrap();
    table.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    let mut flush = Box::pin(table.flush());
    assert!(futures::poll!(flush.as_mut()).is_pending());
    table.put(rows(&[(2, "b2")])).await.unwrap();
    drop(flush);
    table.abandon();
    assert_eq!(home.reopen_and_read().await, expected(&[(1, "a"), (2, "b2")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_that_does_not_wait_is_refused_by_the_files_and_names_nothing() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let gate = Gate::new(false);
    let planted = OpenOptions { plants: Plants::FlushBeforeIndexed, ..with_index(&gate) };
    let table = Table::open(&home.uri(), planted).await.unwrap();
    table.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    let mut flush = Box::pin(table.flush());
    let mut failures = 0;
    while failures < 2 {
        assert!(futures::poll!(flush.as_mut()).is_pending(), "a refused flush is no flush");
        assert!(home.shard().await.sstables.is_empty(), "nothing incomplete is named");
        failures = table.stats().shards.values().map(|shard| shard.counters.flush_failures).sum();
    }
    gate.open();
    flush.await.unwrap();
    assert_sidecar_is_complete(&table, &[1, 2], &[3]).await;
}
