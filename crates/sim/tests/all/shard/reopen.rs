//! Opening a shard again where its writer stopped: what cures, and what is left alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_engine::snapshot::ReadLevel;
use headwater_engine::{Shard, ShardError};
use headwater_format::path;
use headwater_sim::fault::{FaultKind, ObjectKind, Op, Request, Script};

use super::world::{ROOT, World, Writer, ops};

/// A writer with one row acknowledged, stopped by a full disk.
async fn stopped(world: &World) -> Writer {
    let writer = world.open("a").await.unwrap();
    writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
    world.faults.set_full(true);
    writer.shard.put(world.rows.put(2, &[2])).await.unwrap_err();
    world.faults.set_full(false);
    writer
}

/// The writer, with its shard opened again.
fn over(writer: &Writer, shard: Shard) -> Writer {
    let (process, table, budget) = (writer.process.clone(), writer.table.clone(), writer.budget.clone());
    Writer { process, shard, table, budget }
}

#[test]
fn after_a_failure_of_storage_the_shard_opens_again_and_goes_on() {
    let world = World::new(1);
    world.run(async {
        let old = stopped(&world).await;
        let failure = old.shard.failure().unwrap();
        assert!(failure.is_cured_by_reopening() && old.shard.may_reopen(), "{failure}");
        let new = over(&old, old.shard.reopen().await.unwrap());
        assert_eq!(new.shard.failure().map(|error| error.to_string()), None);
        assert_eq!(new.shard.epoch().get(), 2);
        new.shard.put(world.rows.put(3, &[3])).await.unwrap();
        assert_eq!(ops(&new.live(&world.rows, ReadLevel::Durable).await), [(1, 1), (3, 3)]);
        assert!(old.shard.put(world.rows.put(4, &[4])).await.is_err(), "the old handle stays stopped");
        new.shard.close().await.unwrap();
    });
}

#[test]
fn it_may_not_be_opened_again_while_a_failed_put_was_not_looked_at() {
    let world = World::new(7);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        assert!(!writer.shard.may_reopen(), "it serves");
        world.faults.set_full(true);
        let ticket = writer.shard.put_nowait(world.rows.put(1, &[1])).await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        assert!(writer.shard.failure().is_some() && !writer.shard.may_reopen());
        ticket.await.unwrap_err();
        assert!(writer.shard.may_reopen());
    });
}

#[test]
fn a_shard_that_another_writer_claimed_meanwhile_is_not_taken_back_p7() {
    let world = World::new(2);
    world.run(async {
        let old = stopped(&world).await;
        let b = world.open("b").await.unwrap();
        for _ in 0..2 {
            let error = old.shard.reopen().await.err().unwrap();
            assert!(matches!(error, ShardError::Fenced { .. }), "{error}");
        }
        assert_eq!(world.manifest().await.writer_epoch, b.shard.epoch());
        b.shard.put(world.rows.put(3, &[3])).await.unwrap();
    });
}

#[test]
fn a_fenced_writer_does_not_open_its_shard_again_p7() {
    let world = World::new(3);
    world.run(async {
        let a = world.open("a").await.unwrap();
        let b = world.open("b").await.unwrap();
        a.shard.put(world.rows.put(1, &[1])).await.unwrap_err();
        assert!(!a.shard.may_reopen());
        let error = a.shard.reopen().await.err().unwrap();
        assert!(matches!(error, ShardError::Fenced { .. }), "{error}");
        b.shard.put(world.rows.put(2, &[2])).await.unwrap();
    });
}

#[test]
fn a_shard_that_serves_is_not_opened_a_second_time() {
    let world = World::new(4);
    world.run(async {
        let a = world.open("a").await.unwrap();
        let error = a.shard.reopen().await.err().unwrap();
        assert!(matches!(error, ShardError::Invalid { .. }), "{error}");
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
    });
}

/// The epoch is ours and nobody serves: neither a replay that fails behind the claim nor an answer to the
/// claim that never comes must look like another writer.
#[test]
fn a_reopening_that_failed_behind_its_own_claim_is_tried_again() {
    let world = World::new(5);
    world.run(async {
        let old = stopped(&world).await;
        let wal = |request: &Request| request.kind == ObjectKind::Wal && request.op == Op::List;
        let gate = world.faults.gate(wal);
        let error = old.shard.reopen().await.err().unwrap();
        assert!(matches!(error, ShardError::Unavailable { .. }), "{error}");
        assert_eq!(world.manifest().await.writer_epoch.get(), 2, "it had claimed already");
        gate.release();
        let new = over(&old, old.shard.reopen().await.unwrap());
        assert_eq!(new.shard.epoch().get(), 3);
        assert_eq!(ops(&new.live(&world.rows, ReadLevel::Durable).await), [(1, 1)]);
    });
}

#[test]
fn a_reopening_whose_claim_got_no_answer_is_tried_again() {
    let world = World::new(6);
    world.run(async {
        let old = stopped(&world).await;
        let next = world.manifest().await.version.next();
        let path = format!("{ROOT}/{}", path::manifest_path(world.shard, next));
        // The claim is applied, answered by "already exists", and cannot be looked up.
        let now = world.faults.requests();
        let script = (now + 1..now + 20).fold(Script::new(), |s, n| s.at(n, FaultKind::OwnPrecondition));
        world.faults.set_script(script);
        let claimed = AtomicBool::new(false);
        let lookup = world.faults.gate(move |request| {
            if request.path == path && request.op.is_write() {
                claimed.store(true, Ordering::SeqCst);
            }
            request.path == path && request.op == Op::Get && claimed.load(Ordering::SeqCst)
        });
        let error = old.shard.reopen().await.err().unwrap();
        assert!(matches!(error, ShardError::UnknownOutcome { .. }), "{error}");
        lookup.release();
        world.faults.set_script(Script::new());
        assert_eq!(world.manifest().await.writer_epoch.get(), 2);
        let new = over(&old, old.shard.reopen().await.unwrap());
        assert_eq!(new.shard.epoch().get(), 3);
        new.shard.put(world.rows.put(3, &[3])).await.unwrap();
    });
}
