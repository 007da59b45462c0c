//! Crash and reopen.

use std::sync::Arc;
use std::time::Duration;

use headwater_engine::settings::ShardSettings;
use headwater_engine::snapshot::ReadLevel;
use headwater_format::coord::Generation;
use headwater_format::wal_entry::{Compression, WalBody, encode_rows};
use headwater_sim::fault::ObjectKind;
use headwater_sim::table::encode_batches;

use super::world::{World, ops, rows_limit};

fn rows_of(body: &WalBody) -> usize {
    match body {
        WalBody::FenceSentinel => 0,
        WalBody::Rows { batches, .. } => batches.iter().map(|batch| batch.num_rows()).sum(),
    }
}

#[test]
fn acknowledged_rows_come_back_once_after_a_crash_p1_p12_lance_7791() {
    let world = World::new(1);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        for op in 1..=3 {
            writer.shard.put(world.rows.put(op, &[op as u32, 9])).await.unwrap();
        }
        writer.process.crash();
        let again = world.open("b").await.unwrap();
        let expected = [(1, 1), (2, 2), (3, 3), (9, 3)];
        assert_eq!(ops(&again.live(&world.rows, ReadLevel::Durable).await), expected);
        assert_eq!(again.shard.stats().counters.replayed_rows, 6);
        again.shard.put(world.rows.put(4, &[4])).await.unwrap();
        // Three entries, the sentinel, one entry: nothing was written again.
        let rows: Vec<usize> = world.entries().values().map(|entry| rows_of(&entry.body)).collect();
        assert_eq!(rows, [2, 2, 2, 0, 1]);
    });
}

#[test]
fn entries_at_or_below_the_cursor_are_not_replayed_lance_6532_6767() {
    let world = World::new(2);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        writer.shard.seal().await.unwrap().wait().await.unwrap();
        writer.shard.put(world.rows.put(2, &[2])).await.unwrap();
        writer.process.crash();
        let again = world.open("b").await.unwrap();
        assert_eq!(again.shard.stats().counters.replayed_rows, 1);
        assert_eq!(ops(&again.live(&world.rows, ReadLevel::Durable).await), [(2, 2)]);
        assert_eq!(again.live_everywhere(&world.rows).await, [(1, 1), (2, 2)].into());
    });
}

#[test]
fn an_empty_shard_opens_again_and_again_without_growing_rows() {
    let world = World::new(3);
    world.run(async {
        for process in ["a", "b", "c"] {
            let writer = world.open(process).await.unwrap();
            assert_eq!(writer.live(&world.rows, ReadLevel::Durable).await, []);
            writer.process.crash();
        }
        assert_eq!(world.manifest().await.writer_epoch.get(), 3);
        assert!(world.entries().values().all(|entry| entry.body == WalBody::FenceSentinel));
    });
}

#[test]
fn generations_in_the_wal_come_back_as_the_memtables_they_were_lance_7888() {
    let world = World::new(4);
    world.run(async {
        let writer = world.open_with("a", rows_limit(4), |_| {}).await.unwrap();
        let gate = world.gate_puts(ObjectKind::SsTable);
        for op in 1..=6 {
            writer.shard.put(world.rows.put(op, &[op as u32, 100 + op as u32])).await.unwrap();
        }
        assert_eq!(writer.shard.stats().frozen, 3);
        writer.process.crash();
        gate.release();
        let again = world.open_with("b", rows_limit(4), |_| {}).await.unwrap();
        let stats = again.shard.stats();
        assert_eq!((stats.counters.replayed_rows, stats.counters.replay_rotations), (12, 2));
        again.shard.close().await.unwrap();
        let manifest = world.manifest().await;
        let generations: Vec<u64> =
            manifest.sstables.iter().map(|sstable| sstable.generation.get()).collect();
        assert_eq!(generations, [1, 2, 3]);
        // Six entries and the sentinel; the cursor stands at the last entry with rows.
        assert_eq!(manifest.replay_after.get(), 6);
    });
}

/// Entries another writer left without a generation, as an old one may.
async fn write_untagged(world: &World, positions: std::ops::RangeInclusive<u64>) {
    let writer = world.open("tagging").await.unwrap();
    let schema = Arc::clone(writer.shard.storage_schema());
    let keys: Vec<u32> = (0..40_000).collect();
    for position in positions {
        writer.shard.put(world.rows.put(position, &keys)).await.unwrap();
        let WalBody::Rows { batches, .. } = world.entries().into_values().next_back().unwrap().body else {
            panic!("rows expected")
        };
        let mut metadata = schema.metadata().clone();
        metadata.insert("writer_epoch".to_owned(), writer.shard.epoch().to_string());
        let untagged = Arc::new(schema.as_ref().clone().with_metadata(metadata));
        let batches: Vec<_> =
            batches.into_iter().map(|b| b.with_schema(Arc::clone(&untagged)).unwrap()).collect();
        let entry = encode_batches(&untagged, &batches).unwrap();
        world.faults.overwrite(&world.wal_path(position), entry.into());
    }
    writer.process.crash();
}

#[test]
fn a_wal_without_generations_larger_than_one_memtable_rotates_instead_of_overflowing() {
    let world = World::new(5);
    world.run(async {
        write_untagged(&world, 1..=6).await;
        // Whatever the settings, so that tags given afterwards mean the same memtables at the next recovery.
        for (process, limit) in [("b", 100_000), ("c", 50_000)] {
            let again = world.open_with(process, rows_limit(limit), |_| {}).await.unwrap();
            let stats = again.shard.stats();
            assert_eq!((stats.counters.replayed_rows, stats.counters.replay_rotations), (240_000, 2));
            again.process.crash();
        }
        let again = world.open("d").await.unwrap();
        again.shard.close().await.unwrap();
        let again = world.open("e").await.unwrap();
        let live = again.live_everywhere(&world.rows).await;
        assert_eq!((live.len(), live.get(&50)), (40_000, Some(&6)));
    });
}

#[test]
fn a_generation_is_not_split_by_replay_under_smaller_limits() {
    let world = World::new(6);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        for op in 1..=5 {
            writer.shard.put(world.rows.put(op, &[op as u32, 50])).await.unwrap();
        }
        writer.process.crash();
        let again = world.open_with("b", rows_limit(2), |_| {}).await.unwrap();
        assert_eq!(again.shard.stats().counters.replay_rotations, 0);
        world.pass(Duration::from_secs(5)).await;
        let manifest = world.manifest().await;
        assert_eq!(manifest.current_generation, Generation::new(2));
        assert_eq!(manifest.sstables.first().unwrap().physical_rows, Some(10));
    });
}

/// The reference counts batches, and puts many into an entry: the limit on entries is its limit on batches.
#[test]
fn every_batch_of_a_replayed_entry_counts_towards_the_limit_on_entries() {
    let world = World::new(9);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let (schema, epoch) = (Arc::clone(writer.shard.storage_schema()), writer.shard.epoch());
        for op in 1..=5 {
            writer.shard.put(world.rows.put(op, &[op as u32])).await.unwrap();
        }
        writer.process.crash();
        let batches = |body: WalBody| match body {
            WalBody::Rows { batches, .. } => batches,
            WalBody::FenceSentinel => Vec::new(),
        };
        let all: Vec<_> = world.entries().into_values().flat_map(|entry| batches(entry.body)).collect();
        assert_eq!(all.len(), 5);
        let entry = encode_rows(&schema, epoch, Generation::new(1), &all, Compression::None).unwrap();
        world.faults.overwrite(&world.wal_path(1), entry);
        for position in 2..=5 {
            world.faults.erase(&world.wal_path(position));
        }
        let mut settings = ShardSettings::default();
        settings.freeze.max_entries = 5;
        let again = world.open_with("b", settings, |_| {}).await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        let stats = again.shard.stats();
        assert_eq!((stats.counters.replayed_entries, stats.counters.replayed_rows), (1, 5));
        assert_eq!(stats.counters.freezes.get("entries"), Some(&1));
    });
}

#[test]
fn one_key_overwritten_for_ever_rotates() {
    let world = World::new(7);
    world.run(async {
        let writer = world.open_with("a", rows_limit(10), |_| {}).await.unwrap();
        for op in 1..=100 {
            writer.shard.put(world.rows.put(op, &[1])).await.unwrap();
        }
        assert_eq!(writer.shard.stats().counters.freezes.get("rows"), Some(&10));
        assert_eq!(writer.live_everywhere(&world.rows).await, [(1, 100)].into());
    });
}

#[test]
fn every_freeze_limit_rotates() {
    type Change = fn(&mut ShardSettings);
    let limits: [(&str, Change); 4] = [
        ("bytes", |settings| {
            settings.wal.max_entry_bytes = 4096;
            settings.freeze.max_bytes = 8192;
        }),
        ("entries", |settings| settings.freeze.max_entries = 5),
        ("wal bytes", |settings| settings.freeze.max_wal_bytes = 5000),
        ("age", |settings| settings.freeze.max_age_ms = Some(200)),
    ];
    for (reason, limit) in limits {
        let world = World::new(8);
        world.run(async {
            let mut settings = ShardSettings::default();
            limit(&mut settings);
            let writer = world.open_with("a", settings, |_| {}).await.unwrap();
            for op in 1..=200 {
                writer.shard.put(world.rows.put(op, &[op as u32])).await.unwrap();
            }
            world.pass(Duration::from_secs(1)).await;
            let stats = writer.shard.stats();
            assert!(stats.counters.freezes.contains_key(reason), "{reason}: {:?}", stats.counters.freezes);
            assert_eq!(writer.live_everywhere(&world.rows).await.len(), 200);
        });
    }
}
