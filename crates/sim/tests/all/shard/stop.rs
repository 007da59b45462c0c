//! A writer that stops: who is told, and what becomes of its memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headwater_engine::snapshot::ReadLevel;
use headwater_engine::{ShardError, ShardSettings, ShardStatus};
use headwater_sim::fault::ObjectKind;

use super::indexes::Oddities;
use super::world::{World, Writer, ops, rows_limit};

/// Rows in a frozen and in the active memtable, then a disk so full that the next put stops the writer.
async fn stopped_by_a_full_disk(world: &World) -> Writer {
    let writer = world.open_with("a", rows_limit(2), |_| {}).await.unwrap();
    let gate = world.gate_puts(ObjectKind::SsTable);
    writer.shard.put(world.rows.put(1, &[1, 2])).await.unwrap();
    writer.shard.put(world.rows.put(2, &[3])).await.unwrap();
    assert_eq!(writer.shard.stats().frozen, 1);
    assert!(writer.budget.used() > 0);
    world.faults.set_full(true);
    writer.shard.put(world.rows.put(3, &[4])).await.unwrap_err();
    world.faults.set_full(false);
    drop(gate);
    writer
}

#[test]
fn a_failed_shard_gives_its_memory_back_while_its_handle_lives_l5() {
    let world = World::new(1);
    world.run(async {
        let writer = stopped_by_a_full_disk(&world).await;
        // The flush that was under way lets go of its memtable when it is cancelled.
        world.pass(Duration::from_millis(1)).await;
        assert_eq!(writer.budget.used(), 0);
        let stats = writer.shard.stats();
        assert_eq!(stats.status, ShardStatus::Poisoned);
        assert_eq!((stats.frozen, stats.active_rows, stats.memtable_bytes), (0, 0, 0));
        assert_eq!((stats.durable.get(), stats.counters.rows), (4, 4), "other numbers stay");
        world.pass(Duration::from_secs(60)).await;
        assert_eq!(writer.budget.used(), 0);
        assert!(world.manifest().await.sstables.is_empty(), "a stopped writer publishes nothing");
    });
}

#[test]
fn a_fenced_shard_gives_its_memory_back_l5() {
    let world = World::new(2);
    world.run(async {
        let a = world.open("a").await.unwrap();
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let _b = world.open("b").await.unwrap();
        a.shard.put(world.rows.put(2, &[2])).await.unwrap_err();
        assert_eq!(a.shard.stats().status, ShardStatus::Fenced);
        assert_eq!(a.budget.used(), 0);
    });
}

#[test]
fn a_closed_shard_gives_its_memory_back_flushed_or_not_l5() {
    let world = World::new(3);
    world.run(async {
        let odd = Arc::new(Oddities::default());
        odd.bytes_a_row.store(1000, Ordering::SeqCst);
        let index = odd.factory();
        let mut settings = ShardSettings::default();
        settings.flush.close_attempts = 1;
        let writer = world.open_with("a", settings, |parts| parts.indexes.push(index)).await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        world.faults.set_full(true);
        writer.shard.close().await.unwrap_err();
        assert_eq!(writer.budget.used(), 0, "the rows are in the WAL");
        world.faults.set_full(false);
        let again = world.open("b").await.unwrap();
        again.shard.close().await.unwrap();
        assert_eq!(again.budget.used(), 0);
    });
}

#[test]
fn a_snapshot_taken_before_the_failure_reads_on_and_alone_keeps_its_memory_p6() {
    let world = World::new(4);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1, 2])).await.unwrap();
        let snapshot = writer.shard.snapshot(ReadLevel::Durable).await.unwrap();
        world.faults.set_full(true);
        writer.shard.put(world.rows.put(2, &[1])).await.unwrap_err();
        assert!(writer.shard.snapshot(ReadLevel::Durable).await.is_err(), "no new one (P7)");
        let batches = snapshot.live_rows().unwrap();
        let rows: Vec<_> = batches.iter().flat_map(|batch| world.rows.read(batch).unwrap()).collect();
        assert_eq!(ops(&rows), [(1, 1), (2, 1)]);
        assert!(writer.budget.used() > 0);
        drop((batches, snapshot));
        assert_eq!(writer.budget.used(), 0);
    });
}

#[test]
fn a_writer_that_waits_for_room_is_woken_when_the_shard_stops_l1() {
    let world = World::new(5);
    world.run(async {
        let mut settings = rows_limit(1);
        settings.backpressure.max_frozen = 1;
        settings.backpressure.timeout_ms = 600_000;
        let a = world.open_with("a", settings, |_| {}).await.unwrap();
        let _gate = world.gate_puts(ObjectKind::SsTable);
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let _b = world.open("b").await.unwrap();
        let began = world.machine.env().now();
        let notice = async {
            world.pass(Duration::from_secs(6)).await;
            a.shard.snapshot(ReadLevel::Durable).await.unwrap_err()
        };
        let (waiting, noticed) = futures::join!(a.shard.put(world.rows.put(2, &[2])), notice);
        assert!(matches!(noticed, ShardError::Fenced { .. }), "{noticed}");
        let error = waiting.unwrap_err();
        assert!(matches!(error, ShardError::Fenced { .. }), "{error}");
        assert_eq!(a.shard.stats().counters.backpressure_waits, 1);
        let waited = world.machine.env().now() - began;
        assert!(waited < Duration::from_secs(30), "it waited {waited:?}");
    });
}

#[test]
fn an_index_that_panics_stops_the_shard_and_close_ends_p14_l1() {
    let world = World::new(6);
    world.run(async {
        let odd = Arc::new(Oddities::default());
        let index = odd.factory();
        let writer = world.open_with("a", rows_limit(9), |parts| parts.indexes.push(index)).await.unwrap();
        odd.panic_in_apply.store(true, Ordering::SeqCst);
        let ticket = writer.shard.put_nowait(world.rows.put(1, &[1])).await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(writer.shard.stats().status, ShardStatus::Poisoned);
        let acked = ticket.await.is_ok();
        let error = writer.shard.close().await.unwrap_err();
        assert!(matches!(error, ShardError::Internal { invariant: "P14", .. }), "{error}");
        assert_eq!(writer.budget.used(), 0);
        writer.process.crash();
        let again = world.open("b").await.unwrap();
        let live = ops(&again.live(&world.rows, ReadLevel::Durable).await);
        assert!(!acked || live == [(1, 1)], "P1: {live:?}");
    });
}

#[test]
fn a_conductor_that_panics_stops_the_shard_and_everybody_is_told_p14_l1() {
    let world = World::new(7);
    world.run(async {
        let odd = Arc::new(Oddities::default());
        let index = odd.factory();
        let mut settings = rows_limit(1);
        settings.backpressure.max_frozen = 1;
        settings.backpressure.timeout_ms = 600_000;
        let writer = world.open_with("a", settings, |parts| parts.indexes.push(index)).await.unwrap();
        let _gate = world.gate_puts(ObjectKind::Wal);
        let ticket = writer.shard.put_nowait(world.rows.put(1, &[1])).await.unwrap();
        let sealed = writer.shard.seal().await.unwrap();
        let panic = async {
            world.pass(Duration::from_secs(1)).await;
            assert_eq!(writer.shard.stats().counters.backpressure_waits, 1);
            odd.panic_in_memory.store(true, Ordering::SeqCst);
            writer.shard.seal().await
        };
        let began = world.machine.env().now();
        let (waiting, late) = futures::join!(writer.shard.put(world.rows.put(2, &[2])), panic);
        assert!(world.machine.panics().iter().any(|task| task.starts_with("conductor")));
        let late = match late {
            Ok(seal) => seal.wait().await.unwrap_err(),
            Err(error) => error,
        };
        for error in [waiting.unwrap_err(), late, sealed.wait().await.unwrap_err(), ticket.await.unwrap_err()]
        {
            assert!(matches!(error, ShardError::Poisoned { .. }), "{error}");
        }
        assert!(world.machine.env().now() - began < Duration::from_secs(30));
        assert_eq!(writer.shard.stats().status, ShardStatus::Poisoned);
        let error = writer.shard.close().await.unwrap_err();
        assert!(matches!(error, ShardError::Internal { invariant: "P14", .. }), "{error}");
        let error = writer.shard.put(world.rows.put(3, &[3])).await.unwrap_err();
        assert!(matches!(error, ShardError::Poisoned { .. }), "{error}");
        assert_eq!(writer.budget.used(), 0, "L5");
    });
}
