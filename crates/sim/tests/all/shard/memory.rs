//! Backpressure: memory and the flush backlog are bounded, and writers are told.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headwater_engine::budget::MemoryBudget;
use headwater_engine::snapshot::ReadLevel;
use headwater_engine::{ShardError, ShardSettings};
use headwater_sim::fault::ObjectKind;

use super::indexes::Oddities;
use super::world::{World, rows_limit};

#[test]
fn past_the_flush_backlog_puts_wait_then_fail_retryably_and_go_on_after_it_b4() {
    let world = World::new(1);
    world.run(async {
        let mut settings = rows_limit(1);
        settings.backpressure.max_frozen = 2;
        settings.backpressure.timeout_ms = 500;
        let writer = world.open_with("a", settings, |_| {}).await.unwrap();
        let gate = world.gate_puts(ObjectKind::SsTable);
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        writer.shard.put(world.rows.put(2, &[2])).await.unwrap();
        let error = writer.shard.put(world.rows.put(3, &[3])).await.unwrap_err();
        assert!(matches!(error, ShardError::Backpressure { .. }), "{error}");
        assert!(error.is_retryable());
        gate.release();
        writer.shard.put(world.rows.put(3, &[3])).await.unwrap();
        writer.shard.close().await.unwrap();
        assert_eq!(world.manifest().await.sstables.len(), 3);
    });
}

#[test]
fn a_writer_short_of_memory_makes_its_own_memtable_flush() {
    let world = World::new(2);
    world.run(async {
        let budget = MemoryBudget::new(200_000);
        let shared = Arc::clone(&budget);
        let writer =
            world.open_with("a", ShardSettings::default(), |parts| parts.budget = shared).await.unwrap();
        for op in 1..=3000 {
            writer.shard.put(world.rows.put(op, &[op as u32, 10_000 + op as u32])).await.unwrap();
        }
        let stats = writer.shard.stats();
        assert!(stats.counters.freezes.contains_key("memory"), "{:?}", stats.counters.freezes);
        assert_eq!(writer.live_everywhere(&world.rows).await.len(), 6000);
    });
}

#[test]
fn memory_held_by_an_idle_shard_is_freed_for_a_busy_one() {
    let world = World::new(3);
    world.run(async {
        let budget = MemoryBudget::new(100_000);
        let shared = Arc::clone(&budget);
        let idle =
            world.open_with("a", ShardSettings::default(), |parts| parts.budget = shared).await.unwrap();
        let mut op = 0;
        while !budget.over() {
            op += 1;
            idle.shard.put(world.rows.put(op, &[op as u32])).await.unwrap();
        }
        budget.press();
        world.pass(Duration::from_secs(10)).await;
        assert!(!budget.over(), "the idle shard kept {} bytes", budget.used());
        assert_eq!(idle.shard.stats().counters.flushes, 1);
    });
}

#[test]
fn a_snapshot_keeps_its_memtables_charged_until_it_is_dropped_b2() {
    let world = World::new(4);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1, 2, 3])).await.unwrap();
        let snapshot = writer.shard.snapshot(ReadLevel::Durable).await.unwrap();
        writer.shard.seal().await.unwrap().wait().await.unwrap();
        assert!(writer.budget.used() > 0);
        assert_eq!(snapshot.live_rows().unwrap().iter().map(|batch| batch.num_rows()).sum::<usize>(), 3);
        drop(snapshot);
        assert_eq!(writer.budget.used(), 0, "L5");
    });
}

/// A writer pressed while an earlier generation was in the way of the active memtable.
#[test]
fn after_a_hand_over_memory_that_is_still_over_freezes_the_next_memtable() {
    let world = World::new(5);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let gate = world.gate_puts(ObjectKind::SsTable);
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let seal = writer.shard.seal().await.unwrap();
        writer.shard.put(world.rows.put(2, &[2])).await.unwrap();
        // Memory of another shard of the process.
        let other = writer.budget.charge(writer.budget.limit());
        let freed = async {
            world.pass(Duration::from_secs(1)).await;
            assert_eq!(writer.shard.stats().counters.freezes.get("memory"), None, "one flush at a time");
            gate.release();
            seal.wait().await.unwrap();
            world.pass(Duration::from_secs(1)).await;
            let stats = writer.shard.stats();
            assert_eq!((stats.counters.freezes.get("memory"), stats.counters.flushes), (Some(&1), 2));
            drop(other);
        };
        let (put, ()) = futures::join!(writer.shard.put(world.rows.put(3, &[3])), freed);
        put.unwrap();
    });
}

#[test]
fn what_an_index_holds_is_charged_when_it_has_grown_b2() {
    let world = World::new(6);
    world.run(async {
        let odd = Arc::new(Oddities::default());
        odd.bytes_a_row.store(1 << 20, Ordering::SeqCst);
        let index = odd.factory();
        let writer =
            world.open_with("a", ShardSettings::default(), |parts| parts.indexes.push(index)).await.unwrap();
        writer.shard.put(world.rows.put(1, &[1, 2, 3])).await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        assert!(writer.budget.used() >= 3 << 20, "{} bytes", writer.budget.used());
        assert_eq!(writer.budget.used(), writer.shard.stats().memtable_bytes);
        writer.shard.seal().await.unwrap().wait().await.unwrap();
        assert_eq!(writer.budget.used(), 0, "L5");
    });
}
