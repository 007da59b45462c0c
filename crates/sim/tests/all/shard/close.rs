//! Closing, poisoning, dropping.

use std::time::Duration;

use headwater_engine::snapshot::ReadLevel;
use headwater_engine::{ShardError, ShardSettings, ShardStatus};
use headwater_sim::fault::ObjectKind;

use super::world::{World, ops, rows_limit};

#[test]
fn close_flushes_everything_and_a_second_close_says_the_same_lance_6717() {
    let world = World::new(1);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let ticket = writer.shard.put_nowait(world.rows.put(1, &[1])).await.unwrap();
        writer.shard.close().await.unwrap();
        assert_eq!(ticket.await.unwrap().position.get(), 1);
        assert_eq!(world.manifest().await.sstables.len(), 1);
        writer.shard.close().await.unwrap();
        assert_eq!(writer.shard.stats().status, ShardStatus::Closed);
        for error in [
            writer.shard.put(world.rows.put(2, &[2])).await.unwrap_err(),
            writer.shard.snapshot(ReadLevel::Durable).await.unwrap_err(),
            writer.shard.seal().await.unwrap_err(),
        ] {
            assert!(matches!(error, ShardError::Closed { .. }), "{error}");
        }
    });
}

#[test]
fn close_reports_a_flush_that_keeps_failing_and_the_rows_stay_in_the_wal_lance_7770() {
    let world = World::new(2);
    world.run(async {
        let mut settings = ShardSettings::default();
        settings.flush.close_attempts = 3;
        let writer = world.open_with("a", settings, |_| {}).await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        world.faults.set_full(true);
        let error = writer.shard.close().await.unwrap_err();
        assert!(matches!(error, ShardError::Unavailable { .. }), "{error}");
        assert_eq!(writer.shard.close().await.unwrap_err().to_string(), error.to_string());
        assert!(writer.shard.stats().counters.flush_failures >= 3);
        world.faults.set_full(false);
        let again = world.open("b").await.unwrap();
        assert_eq!(ops(&again.live(&world.rows, ReadLevel::Durable).await), [(1, 1)]);
    });
}

#[test]
fn a_full_disk_fails_the_put_and_after_space_returns_a_reopened_shard_goes_on() {
    let world = World::new(3);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        world.faults.set_full(true);
        let error = writer.shard.put(world.rows.put(2, &[2])).await.unwrap_err();
        assert!(error.to_string().contains("wal/"), "says where: {error}");
        let error = writer.shard.put(world.rows.put(3, &[3])).await.unwrap_err();
        assert!(matches!(error, ShardError::Poisoned { .. }), "{error}");
        assert!(error.to_string().contains("reopen"), "{error}");
        let error = writer.shard.snapshot(ReadLevel::Durable).await.unwrap_err();
        assert!(matches!(error, ShardError::Poisoned { .. }), "lance#7872, P7: {error}");
        assert_eq!(writer.shard.stats().status, ShardStatus::Poisoned);
        assert!(writer.shard.close().await.is_err(), "lance#7770");
        world.faults.set_full(false);
        let again = world.open("b").await.unwrap();
        let live = ops(&again.live(&world.rows, ReadLevel::Durable).await);
        assert_eq!(live, [(1, 1)], "the failed puts are absent");
        again.shard.put(world.rows.put(4, &[4])).await.unwrap();
        again.shard.close().await.unwrap();
    });
}

#[test]
fn every_waiting_put_learns_of_the_failure_l1() {
    let world = World::new(4);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let gate = world.gate_puts(ObjectKind::Wal);
        let mut tickets = Vec::new();
        for op in 1..=20 {
            tickets.push(writer.shard.put_nowait(world.rows.put(op, &[op as u32])).await.unwrap());
        }
        let seal = writer.shard.seal().await.unwrap();
        world.faults.set_full(true);
        gate.release();
        for ticket in tickets {
            ticket.await.unwrap_err();
        }
        seal.wait().await.unwrap_err();
    });
}

#[test]
fn dropping_the_handle_stops_every_task_and_keeps_what_was_acknowledged_ctx_167() {
    let world = World::new(5);
    world.run(async {
        let writer = world.open_with("a", rows_limit(1), |_| {}).await.unwrap();
        let gate = world.gate_puts(ObjectKind::SsTable);
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let budget = std::sync::Arc::clone(&writer.budget);
        drop(writer);
        gate.release();
        let before = world.faults.requests();
        world.pass(Duration::from_secs(60)).await;
        // A request under way may end; nothing new begins.
        assert!(
            world.faults.requests() <= before + 1,
            "{} requests after the drop",
            world.faults.requests() - before
        );
        assert_eq!(budget.used(), 0, "memtables are freed");
        let again = world.open("b").await.unwrap();
        assert_eq!(again.live_everywhere(&world.rows).await, [(1, 1)].into());
    });
}

#[test]
fn a_snapshot_expires_and_says_so_p6() {
    let world = World::new(6);
    world.run(async {
        let mut settings = ShardSettings::default();
        settings.reads.snapshot_max_age_ms = 1000;
        let writer = world.open_with("a", settings, |_| {}).await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let snapshot = writer.shard.snapshot(ReadLevel::Durable).await.unwrap();
        assert_eq!(snapshot.live_rows().unwrap().len(), 1);
        world.pass(Duration::from_secs(2)).await;
        for error in [
            snapshot.live_rows().unwrap_err(),
            snapshot.memtables().unwrap_err(),
            snapshot.sstables().unwrap_err(),
        ] {
            assert!(matches!(error, ShardError::SnapshotExpired { .. }), "{error}");
        }
    });
}
