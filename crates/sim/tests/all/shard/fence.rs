//! Two writers: who is fenced, when, and what that costs.

use std::time::Duration;

use headwater_engine::snapshot::ReadLevel;
use headwater_engine::{ShardError, ShardSettings};
use headwater_format::coord::Epoch;
use headwater_format::path;
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_format::wal_entry::{WalBody, encode_sentinel};
use headwater_sim::fault::{ObjectKind, Op, Request};
use headwater_store::register::Register;

use super::world::{ROOT, World, Writer, ops, rows_limit};

fn is_fenced(error: &ShardError) -> bool {
    matches!(error, ShardError::Fenced { .. })
}

#[test]
fn a_claimed_shard_fences_the_old_writer_at_its_next_append_lance_7110_p7() {
    let world = World::new(1);
    world.run(async {
        let a = world.open("a").await.unwrap();
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let b = world.open("b").await.unwrap();
        let error = a.shard.put(world.rows.put(2, &[2])).await.unwrap_err();
        assert!(is_fenced(&error), "{error}");
        let error = a.shard.snapshot(ReadLevel::Durable).await.unwrap_err();
        assert!(is_fenced(&error), "{error}");
        assert_eq!(ops(&b.live(&world.rows, ReadLevel::Durable).await), [(1, 1)]);
    });
}

#[test]
fn the_first_put_after_a_rotation_is_fenced_too_lance_7760() {
    let world = World::new(2);
    world.run(async {
        let a = world.open_with("a", rows_limit(2), |_| {}).await.unwrap();
        a.shard.put(world.rows.put(1, &[1, 2])).await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(a.shard.stats().active_generation.get(), 2);
        let _b = world.open("b").await.unwrap();
        let error = a.shard.put(world.rows.put(2, &[3])).await.unwrap_err();
        assert!(is_fenced(&error), "{error}");
    });
}

#[test]
fn an_append_faster_than_the_sentinel_is_replayed_lance_7110() {
    let world = World::new(3);
    world.run(async {
        let a = world.open("a").await.unwrap();
        let gate = world.faults.gate(|request| request.kind == ObjectKind::Wal && request.process == "b");
        let claim = world.open("b");
        let mut claim = std::pin::pin!(claim);
        let waiting = futures::future::select(&mut claim, world.machine.env().sleep(Duration::from_secs(1)));
        assert!(matches!(waiting.await, futures::future::Either::Right(_)));
        assert_eq!(world.manifest().await.writer_epoch, Epoch::new(2));
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        gate.release();
        let b = claim.await.unwrap();
        assert_eq!(ops(&b.live(&world.rows, ReadLevel::Durable).await), [(1, 1)]);
    });
}

#[test]
fn a_zombie_notices_when_it_reads_after_the_confirm_time() {
    let world = World::new(4);
    world.run(async {
        let a = world.open("a").await.unwrap();
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let b = world.open("b").await.unwrap();
        b.shard.put(world.rows.put(2, &[1])).await.unwrap();
        world.pass(Duration::from_secs(6)).await;
        let error = a.shard.snapshot(ReadLevel::Durable).await.unwrap_err();
        assert!(is_fenced(&error), "{error}");
        world.pass(Duration::from_secs(1)).await;
        let error = a.shard.put(world.rows.put(3, &[1])).await.unwrap_err();
        assert!(is_fenced(&error), "{error}");
    });
}

#[test]
fn a_writer_that_keeps_writing_sees_a_claim_whose_sentinel_never_gets_through() {
    let world = World::new(10);
    world.run(async {
        let a = world.open("a").await.unwrap();
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let gate = world.faults.gate(|request| request.kind == ObjectKind::Wal && request.process == "b");
        let mut claim = std::pin::pin!(world.open("b"));
        let waiting = futures::future::select(&mut claim, world.machine.env().sleep(Duration::from_secs(1)));
        assert!(matches!(waiting.await, futures::future::Either::Right(_)));
        let mut acknowledged = 1;
        let error = loop {
            match a.shard.put(world.rows.put(acknowledged + 1, &[acknowledged as u32 + 1])).await {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
            world.pass(Duration::from_millis(100)).await;
            assert!(acknowledged < 200, "the older writer goes on for ever");
        };
        assert!(is_fenced(&error), "{error}");
        gate.release();
        let c = world.open("c").await.unwrap();
        assert_eq!(c.live(&world.rows, ReadLevel::Durable).await.len() as u64, acknowledged, "P1");
    });
}

/// P7: an answer is as old as its question.
#[test]
fn a_confirmation_that_took_longer_than_it_lasts_serves_no_read() {
    let world = World::new(11);
    world.run(async {
        let mut settings = ShardSettings::default();
        settings.reads.epoch_confirm_ms = 1000;
        let a = world.open_with("a", settings, |_| {}).await.unwrap();
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        world.pass(Duration::from_secs(2)).await;
        let gate = world.faults.gate(|request| request.kind == ObjectKind::Manifest && request.op == Op::Get);
        let slow = async {
            world.pass(Duration::from_secs(2)).await;
            assert_eq!(gate.held(), 1);
            gate.release();
        };
        let (read, ()) = futures::join!(a.shard.snapshot(ReadLevel::Durable), slow);
        let error = read.unwrap_err();
        assert!(matches!(error, ShardError::Unavailable { .. }) && error.is_retryable(), "{error}");
        assert!(error.to_string().contains("reads.epoch_confirm_ms"), "{error}");
        assert_eq!(ops(&a.live(&world.rows, ReadLevel::Durable).await), [(1, 1)], "a quick one serves");
    });
}

/// Puts until one fails, or `most` are acknowledged; how many were.
async fn write_on(world: &World, writer: &Writer, most: u64) -> (u64, Option<ShardError>) {
    for acknowledged in 0..most {
        if let Err(error) = writer.shard.put(world.rows.put(acknowledged + 1, &[acknowledged as u32])).await {
            return (acknowledged, Some(error));
        }
        world.pass(Duration::from_millis(100)).await;
    }
    (most, None)
}

#[test]
fn a_writer_that_looks_and_finds_the_manifest_corrupt_stops_with_its_path_p14() {
    let world = World::new(12);
    world.run(async {
        let a = world.open("a").await.unwrap();
        let next = world.manifest().await.version.next();
        let path = path::manifest_path(world.shard, next);
        world.faults.overwrite(&format!("{ROOT}/{path}"), "?".into());
        let (acknowledged, error) = write_on(&world, &a, 200).await;
        let error = error.expect("it writes on although nobody knows whose the shard is");
        assert!(error.to_string().contains(&path), "{error}");
        let failure = a.shard.failure().unwrap();
        assert!(matches!(&failure, ShardError::Corrupt { path: at, .. } if *at == path), "{failure}");
        assert!(!failure.is_cured_by_reopening());
        assert!(matches!(a.shard.close().await, Err(ShardError::Corrupt { .. })));
        world.faults.erase(&format!("{ROOT}/{path}"));
        let b = world.open("b").await.unwrap();
        assert_eq!(b.live(&world.rows, ReadLevel::Durable).await.len() as u64, acknowledged, "P1, P2");
    });
}

#[test]
fn a_look_that_storage_does_not_answer_is_counted_and_made_again() {
    let world = World::new(13);
    world.run(async {
        let a = world.open("a").await.unwrap();
        let looks = |request: &Request| {
            request.kind == ObjectKind::Manifest && request.op == Op::Get && request.process == "a"
        };
        let gate = world.faults.gate(looks);
        let (acknowledged, error) = write_on(&world, &a, 200).await;
        assert_eq!((acknowledged, error.map(|error| error.to_string())), (200, None));
        assert!(a.shard.stats().counters.look_failures >= 1);
        let wal = world.faults.gate(|request| request.kind == ObjectKind::Wal && request.process == "b");
        let mut claim = std::pin::pin!(world.open("b"));
        let waiting = futures::future::select(&mut claim, world.machine.env().sleep(Duration::from_secs(1)));
        assert!(matches!(waiting.await, futures::future::Either::Right(_)));
        gate.release();
        let error = write_on(&world, &a, 200).await.1.expect("the next look sees the claim");
        assert!(is_fenced(&error), "{error}");
        wal.release();
    });
}

#[test]
fn a_fenced_writer_publishes_nothing() {
    let world = World::new(5);
    world.run(async {
        let a = world.open("a").await.unwrap();
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let gate = world.faults.gate(|request| request.kind == ObjectKind::SsTable && request.process == "a");
        let seal = a.shard.seal().await.unwrap();
        let b = world.open("b").await.unwrap();
        gate.release();
        let error = seal.wait().await.unwrap_err();
        assert!(is_fenced(&error), "{error}");
        assert!(world.manifest().await.sstables.is_empty());
        b.shard.close().await.unwrap();
        assert_eq!(world.manifest().await.sstables.len(), 1);
    });
}

#[test]
fn a_late_sentinel_of_a_dead_claim_is_stepped_over_and_skipped() {
    let world = World::new(6);
    world.run(async {
        let dead = world.open("dead").await.unwrap();
        dead.process.crash();
        let a = world.open("a").await.unwrap();
        a.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let tip = a.shard.stats().next_position.get();
        world.faults.overwrite(&world.wal_path(tip), encode_sentinel(Epoch::new(1)).unwrap());
        let ack = a.shard.put(world.rows.put(2, &[2])).await.unwrap();
        assert_eq!(ack.position.get(), tip + 1);
        a.process.crash();
        let b = world.open("b").await.unwrap();
        assert_eq!(ops(&b.live(&world.rows, ReadLevel::Durable).await), [(1, 1), (2, 2)]);
    });
}

#[test]
fn a_sealed_shard_refuses_claims_and_its_epoch_stays_lance_7361() {
    let world = World::new(7);
    world.run(async {
        let process = world.machine.process("dropper");
        let register: Register<ShardManifest> = Register::for_shard(world.store(&process), world.shard);
        let mut sealed = ShardManifest::clone(&*register.load().await.unwrap().unwrap());
        sealed.version = sealed.version.next();
        sealed.status = ShardStatus::Sealed;
        register.write(&sealed).await.unwrap();
        let error = world.open("a").await.err().unwrap();
        assert!(matches!(error, ShardError::Sealed { .. }), "{error}");
        assert_eq!(world.manifest().await.version, sealed.version);
    });
}

#[test]
fn of_two_claims_in_one_moment_one_serves() {
    let mut both_served = 0;
    for seed in 0..20 {
        let world = World::new(seed);
        world.run(async {
            let (a, b) = futures::join!(world.open("a"), world.open("b"));
            assert!(a.is_ok() || b.is_ok());
            let put = |writer: Result<super::world::Writer, ShardError>, op| {
                let rows = world.rows.put(op, &[op as u32]);
                async move {
                    match writer {
                        Ok(writer) => writer.shard.put(rows).await.is_ok(),
                        Err(_) => false,
                    }
                }
            };
            let (a, b) = (put(a, 1).await, put(b, 2).await);
            assert!(a || b, "seed {seed}: nobody serves");
            both_served += u32::from(a && b);
            let c = world.open("c").await.unwrap();
            let kept = c.live(&world.rows, ReadLevel::Durable).await;
            assert_eq!(kept.len(), usize::from(a) + usize::from(b), "seed {seed}: P1");
        });
    }
    assert_eq!(both_served, 0, "a put of the older writer was acknowledged after the newer one served");
}

#[test]
fn sentinels_carry_no_rows_and_the_claimed_epoch() {
    let world = World::new(9);
    world.run(async {
        for name in ["a", "b", "c"] {
            world.open(name).await.unwrap().process.crash();
        }
        let sentinels: Vec<_> = world.entries().into_values().collect();
        assert_eq!(sentinels.iter().map(|entry| entry.epoch.get()).collect::<Vec<_>>(), [2, 3]);
        assert!(sentinels.iter().all(|entry| entry.body == WalBody::FenceSentinel));
    });
}
