//! `flush` over HTTP answers when its own generations are in the manifest, and waits for nothing newer (L6).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Server, rows, upload};

const WRITERS: i64 = 4;
/// Rows of a memtable.
const ROWS: i64 = 50;
/// Memtables that one request fills.
const BATCHES: i64 = 8;
const FLUSHES: usize = 3;
const UPSERT: &str =
    "/v1/table/t/merge_insert/?on=id&when_matched_update_all=true&when_not_matched_insert_all=true";

/// How many memtables wait for their flush.
fn frozen(server: &Server) -> usize {
    let tiers = server.service.tiers();
    tiers.iter().flat_map(|(_, stats)| stats.shards.values()).map(|shard| shard.frozen).sum()
}

async fn next_generation(server: &Server) -> u64 {
    let stats = server.post("/v1/table/t/get_rte_stats/", json!({})).await.json();
    stats["rte_stats"]["table_shards"][0]["current_generation"].as_u64().unwrap()
}

/// Rows from `first` on, as many as fill [`BATCHES`] memtables.
fn filling(first: i64) -> Vec<u8> {
    let starts = (0..BATCHES).map(|batch| first + batch * ROWS);
    let batches: Vec<_> = starts.map(|start| rows(&(start..start + ROWS).collect::<Vec<_>>(), "w")).collect();
    upload(&batches)
}

/// Waiting for the queue to be empty would take until the writers stop, and they stop after the flushes.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_answers_while_writers_keep_every_memtable_full_l6() {
    let server = Server::with_table(&[]).await;
    let spec = json!({ "sharding": { "mode": "unsharded" },
        "writer_config_defaults": { "max_memtable_rows": ROWS.to_string() } });
    server.post("/v1/table/t/enable_rte/", spec).await.ok();
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let (written, emptied) = (AtomicU64::new(0), AtomicU64::new(0));
    let write = async |writer: i64| {
        let mut first = writer * 1_000_000;
        while !stop.load(Ordering::SeqCst) {
            let reply = server.send(UPSERT, &[], filling(first)).await;
            match reply.status {
                // Backpressure: what came of it is the next request's to say, for it brings the same rows.
                429 => continue,
                status => assert_eq!(status, 200, "{}", reply.text()),
            }
            first += BATCHES * ROWS;
            written.fetch_add((BATCHES * ROWS) as u64, Ordering::SeqCst);
            let counted = begun.load(Ordering::SeqCst) && !stop.load(Ordering::SeqCst);
            emptied.fetch_add(u64::from(counted && frozen(&server) == 0), Ordering::SeqCst);
        }
    };
    let flush = async {
        while frozen(&server) < 4 {
            tokio::task::yield_now().await;
        }
        begun.store(true, Ordering::SeqCst);
        for _ in 0..FLUSHES {
            let before = next_generation(&server).await;
            let flushed = server.send("/v1/table/t/flush/", &[], "").await.json();
            assert!(frozen(&server) > 0, "writers were too slow for this test");
            let sealed = flushed["generations"].as_array().unwrap().clone();
            for generation in sealed.iter().map(|sealed: &Value| sealed["generation"].as_u64().unwrap()) {
                assert!(generation >= before, "what was in memory when it was asked for");
                assert!(next_generation(&server).await > generation, "it is in the manifest");
            }
        }
        stop.store(true, Ordering::SeqCst);
    };
    futures::join!(join_all((0..WRITERS).map(write)), flush);
    assert_eq!(emptied.load(Ordering::SeqCst), 0, "the queue was never empty");
    assert!(server.count().await as u64 >= written.load(Ordering::SeqCst));
}
