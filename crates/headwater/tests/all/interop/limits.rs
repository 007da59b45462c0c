//! What we leave in the WAL is what pylance can replay: at its default limits what our defaults allow, and
//! beyond them once its own are raised.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use headwater::coord::{Generation, RowOffset};
use headwater::{OpenOptions, Sharding, Table};
use headwater_engine::index::{IndexDescription, IndexError, MemIndex, MemIndexFactory};
use serde_json::{Value, json};

use super::peer::Peer;
use super::tables::names;
use crate::support::{Home, Rows, named, options};

/// Entries of a generation pylance replays unless told otherwise, and the most we write by default.
const ENTRIES: i64 = 8_000;
/// The same of rows.
const ROWS: i64 = 100_000;

/// An index that never gets to its first row. A flush waits for it, so everything stays in the WAL.
#[derive(Debug)]
struct Stuck;

impl MemIndexFactory for Stuck {
    fn create(&self, _: Generation, _: &SchemaRef) -> Result<Arc<dyn MemIndex>, IndexError> {
        Ok(Arc::new(Self))
    }
}

#[async_trait]
impl MemIndex for Stuck {
    fn describe(&self) -> IndexDescription {
        let columns = vec!["id".to_owned()];
        IndexDescription { name: "stuck".to_owned(), kind: "model".to_owned(), columns }
    }

    async fn apply(&self, _: RowOffset, _: &RecordBatch) -> Result<(), IndexError> {
        std::future::pending().await
    }

    fn applied(&self) -> RowOffset {
        RowOffset::new(0)
    }

    fn memory(&self) -> usize {
        0
    }
}

fn stuck() -> OpenOptions {
    OpenOptions { indexes: vec![Arc::new(Stuck)], ..options() }
}

/// Writes each batch as an entry of its own, crashes before any flush, and returns the shard. One memtable
/// must have been frozen, for `reason`.
async fn write_and_crash(
    home: &Home,
    options: OpenOptions,
    batches: impl IntoIterator<Item = RecordBatch>,
    reason: &str,
) -> String {
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let table = Table::open(&home.uri(), options).await.unwrap();
    let mut entries = 0;
    for batch in batches {
        table.put(batch).await.unwrap();
        entries += 1;
    }
    let stats = table.stats();
    let (shard, stats) = stats.shards.iter().next().unwrap();
    let counters = &stats.counters;
    assert_eq!((counters.wal_entries, counters.flushes, stats.frozen), (entries, 0, 1), "{stats:?}");
    assert_eq!(counters.freezes.get(reason), Some(&1), "{stats:?}");
    table.abandon();
    shard.to_string()
}

fn open(home: &Home, shard: &str, knobs: &Value) -> Value {
    json!({"table": home.uri(), "shard": shard, "knobs": knobs})
}

/// What pylance sees after its replay, and what we see after it has flushed that.
async fn assert_both_read(peer: &mut Peer, home: &Home, ids: i64) {
    let wanted: Rows = (0..ids).map(|id| (id, format!("name of {id}"))).collect();
    let found = names(&peer.tell("scan", json!({"table": home.uri()})));
    assert!(found == wanted, "pylance has {} rows of {ids}", found.len());
    peer.close(&home.uri());
    let found = home.reopen_and_read().await;
    assert!(found == wanted, "we have {} rows of {ids}", found.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn pylance_replays_the_largest_memtables_of_our_defaults_at_its_own() {
    let mut peer = Peer::start();
    let home = Home::new();
    let rest = 50;
    let batches = (0..ENTRIES + rest).map(|id| named([id]));
    let shard = write_and_crash(&home, stuck(), batches, "entries").await;
    peer.open(&home.uri(), &shard);
    let memtable = peer.tell("memtable", json!({"table": home.uri()}));
    assert_eq!(memtable["batch_count"], json!(rest), "entries behind the limit are a generation: {memtable}");
    assert_both_read(&mut peer, &home, ENTRIES + rest).await;

    let home = Home::new();
    let batches = (0..ROWS).step_by(25_000).map(|first| named(first..first + 25_000));
    let batches = batches.chain([named(ROWS..ROWS + rest)]);
    let shard = write_and_crash(&home, stuck(), batches, "rows").await;
    peer.open(&home.uri(), &shard);
    let memtable = peer.tell("memtable", json!({"table": home.uri()}));
    assert_eq!(memtable["row_count"], json!(rest), "rows behind the limit are a generation: {memtable}");
    assert_both_read(&mut peer, &home, ROWS + rest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pylance_replays_larger_memtables_when_its_limits_are_raised() {
    let mut peer = Peer::start();
    let home = Home::new();
    let most = 12_000;
    let mut options = stuck();
    options.settings.freeze.max_entries = 12_000;
    // One more, so that the memtable at the limit is frozen before the crash.
    let batches = (0..most + 1).map(|id| named([id]));
    let shard = write_and_crash(&home, options, batches, "entries").await;
    // This is why our default limits are what they are.
    let error = peer.ask("open_writer", open(&home, &shard, &json!({}))).unwrap_err();
    assert!(error.contains("max_memtable_batches"), "{error}");
    peer.tell("open_writer", open(&home, &shard, &json!({"max_memtable_batches": most})));
    assert_both_read(&mut peer, &home, most + 1).await;
}
