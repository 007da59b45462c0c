//! A flush waits for what it sealed, and for nothing newer (L6).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::join_all;
use headwater::coord::Generation;
use headwater::{OpenOptions, Sharding, Table};

use crate::support::{Home, named, options, schema};

const WRITERS: i64 = 4;
const ROWS: i64 = 50;
const FLUSHES: usize = 3;

/// Every put fills a memtable, so a writer makes memtables faster than any flush takes them.
fn hard() -> OpenOptions {
    let mut options = options();
    options.settings.freeze.max_rows = ROWS as u32;
    options
}

/// How many memtables wait for their flush.
fn frozen(table: &Table) -> usize {
    table.stats().shards.values().map(|shard| shard.frozen).sum()
}

async fn next_generation(home: &Home) -> Generation {
    home.newest_manifest().await.current_generation
}

/// Waiting for the queue to be empty would take until the writers stop, and they stop after the flushes.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_ends_while_writers_keep_every_memtable_full_l6() {
    let (home, key) = (Home::new(), ["id".to_owned()]);
    let table = Table::create(&home.uri(), &schema(), &key, &Sharding::Unsharded, hard()).await.unwrap();
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let (puts, emptied) = (AtomicU64::new(0), AtomicU64::new(0));
    let write = async |writer: i64| {
        let mut first = writer * 1_000_000;
        while !stop.load(Ordering::SeqCst) {
            // Tickets are not awaited: nothing but backpressure holds a writer back.
            drop(table.put_nowait(named(first..first + ROWS)).await.unwrap());
            first += ROWS;
            puts.fetch_add(1, Ordering::SeqCst);
            let begun = begun.load(Ordering::SeqCst) && !stop.load(Ordering::SeqCst);
            emptied.fetch_add(u64::from(begun && frozen(&table) == 0), Ordering::SeqCst);
        }
    };
    let flush = async {
        while frozen(&table) < 4 {
            tokio::task::yield_now().await;
        }
        begun.store(true, Ordering::SeqCst);
        for _ in 0..FLUSHES {
            let active = table.stats().shards.into_values().next().unwrap().active_generation;
            let flushed = table.flush().await.unwrap();
            assert!(frozen(&table) > 0, "writers were too slow for this test");
            for generation in flushed.into_values() {
                assert!(generation >= active, "what was in memory when it was asked for");
                assert!(next_generation(&home).await > generation, "it is in the manifest");
            }
            // A put may have filled and frozen the memtable first: then everything before it is published.
            assert!(next_generation(&home).await >= active);
        }
        stop.store(true, Ordering::SeqCst);
    };
    futures::join!(join_all((0..WRITERS).map(write)), flush);
    assert_eq!(emptied.load(Ordering::SeqCst), 0, "the queue was never empty");
    table.flush().await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), puts.load(Ordering::SeqCst) * ROWS as u64);
}
