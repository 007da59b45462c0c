//! Client tokens: a repeated write is answered with the first one's acknowledgement and not written again.
//! Mostly on a table without a key, where a row written twice stays twice.

use std::collections::BTreeMap;
use std::time::Duration;

use headwater_engine::settings::ShardSettings;
use headwater_engine::{Ack, ShardError, Ticket, WriteOptions};
use headwater_format::coord::WalPosition;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::token::ClientToken;
use headwater_format::wal_entry::{WalBody, WalEntry};
use headwater_sim::fault::{ObjectKind, Op, Request};
use headwater_sim::rows::KeyShape;
use headwater_store::register::Register;

use super::world::{World, Writer};

fn named(name: &str) -> WriteOptions {
    let token = ClientToken::new(name.as_bytes()).unwrap();
    WriteOptions { token: Some(token), ..WriteOptions::default() }
}

fn keyless(seed: u64) -> World {
    World::with_key(seed, KeyShape::None)
}

/// How many rows of each put the WAL holds.
fn written(world: &World) -> BTreeMap<u64, usize> {
    let mut found = BTreeMap::new();
    for WalEntry { body, .. } in world.entries().into_values() {
        let WalBody::Rows { batches, .. } = body else { continue };
        for row in batches.iter().flat_map(|batch| world.rows.read(batch).unwrap()) {
            *found.entry(row.written.map_or(0, |written| written.op)).or_default() += 1;
        }
    }
    found
}

async fn put(world: &World, writer: &Writer, op: u64, token: &str) -> Result<Ack, ShardError> {
    writer.shard.put_with(world.rows.put(op, &[1, 2]), named(token)).await
}

async fn send(world: &World, writer: &Writer, op: u64, token: &str) -> Ticket {
    writer.shard.put_nowait_with(world.rows.put(op, &[1, 2]), named(token)).await.unwrap()
}

async fn flush(writer: &Writer) {
    writer.shard.seal().await.unwrap().wait().await.unwrap();
}

fn window(ms: u64) -> ShardSettings {
    let mut settings = ShardSettings::default();
    settings.tokens.window_ms = ms;
    settings
}

#[test]
fn a_repeated_put_gets_the_first_ones_acknowledgement_p12() {
    let world = keyless(1);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[9])).await.unwrap();
        let first = put(&world, &writer, 2, "t").await.unwrap();
        assert_eq!((first.first.get(), first.end.get(), first.position.get()), (2, 4, 2));
        let empty = world.rows.put(2, &[]);
        assert_eq!(put(&world, &writer, 2, "t").await.unwrap(), first);
        assert_eq!(writer.shard.put_with(empty, named("t")).await.unwrap(), first);
        flush(&writer).await;
        assert_eq!(put(&world, &writer, 2, "t").await.unwrap(), first, "flushed");
        assert_ne!(put(&world, &writer, 3, "u").await.unwrap(), first);
        assert_eq!(written(&world), [(1, 1), (2, 2), (3, 2)].into());
        assert_eq!(writer.shard.stats().counters.repeated_tokens, 3);
        // Nothing was written under a token that came without rows, so nothing is remembered of it.
        let nothing = writer.shard.put_with(world.rows.put(4, &[]), named("v")).await.unwrap();
        assert_eq!(nothing.position, WalPosition::ZERO);
        assert_eq!(put(&world, &writer, 4, "v").await.unwrap().position.get(), 4);
    });
}

#[test]
fn puts_of_one_entry_are_told_apart_by_their_tokens() {
    let world = keyless(2);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let gate = world.gate_puts(ObjectKind::Wal);
        let before = writer.shard.put_nowait(world.rows.put(1, &[9])).await.unwrap();
        let a = send(&world, &writer, 2, "a").await;
        let plain = writer.shard.put_nowait(world.rows.put(3, &[7, 8, 9])).await.unwrap();
        let b = send(&world, &writer, 4, "b").await;
        // One that is on its way is waited for.
        let again = send(&world, &writer, 2, "a").await;
        gate.release();
        let (first, a, _, b) =
            (before.await.unwrap(), a.await.unwrap(), plain.await.unwrap(), b.await.unwrap());
        assert_eq!((first.position.get(), a.position.get(), b.position.get()), (1, 2, 2));
        assert_eq!(again.await.unwrap(), a);
        let entry = world.entries().into_values().nth(1).unwrap();
        let listed: Vec<_> =
            entry.tokens.iter().map(|token| (token.token.bytes(), token.first, token.rows)).collect();
        assert_eq!(listed, [(&b"a"[..], 0, 2), (&b"b"[..], 5, 2)]);
        writer.process.crash();
        let next = world.open("b").await.unwrap();
        assert_eq!(put(&world, &next, 2, "a").await.unwrap(), a, "replayed in the same order");
        assert_eq!(put(&world, &next, 4, "b").await.unwrap(), b);
        assert_eq!(written(&world), [(1, 1), (2, 2), (3, 3), (4, 2)].into());
    });
}

#[test]
fn a_crash_between_the_put_and_its_answer_writes_it_once_p12() {
    let world = keyless(3);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let ticket = send(&world, &writer, 1, "t").await;
        while world.entries().is_empty() {
            world.pass(Duration::from_micros(50)).await;
        }
        writer.process.crash();
        drop(ticket);
        let next = world.open("b").await.unwrap();
        let ack = put(&world, &next, 1, "t").await.unwrap();
        assert_eq!((ack.position.get(), ack.first.get(), ack.end.get()), (1, 1, 3));
        assert_eq!(written(&world), [(1, 2)].into());
    });
}

#[test]
fn tokens_of_flushed_rows_outlive_the_writer_and_the_next_p12() {
    let world = keyless(4);
    world.run(async {
        let a = world.open("a").await.unwrap();
        a.shard.put(world.rows.put(1, &[9])).await.unwrap();
        put(&world, &a, 2, "t").await.unwrap();
        a.shard.put(world.rows.put(3, &[9])).await.unwrap();
        flush(&a).await;
        let floor = world.manifest().await.token_floor.clone().unwrap();
        assert_eq!((floor.position.get(), world.manifest().await.replay_after.get()), (2, 3));
        a.process.crash();
        let b = world.open("b").await.unwrap();
        let ack = put(&world, &b, 2, "t").await.unwrap();
        assert_eq!(ack.position.get(), 2);
        assert_eq!((ack.first.get(), ack.end.get()), (1, 1), "no Seqs here: every snapshot sees it");
        put(&world, &b, 4, "u").await.unwrap();
        b.shard.close().await.unwrap();
        assert_eq!(world.manifest().await.token_floor.clone().unwrap().position.get(), 2, "carried on");
        let c = world.open("c").await.unwrap();
        for (op, token) in [(2, "t"), (4, "u")] {
            put(&world, &c, op, token).await.unwrap();
        }
        assert_eq!(written(&world), [(1, 1), (2, 2), (3, 1), (4, 2)].into());
    });
}

/// However many entries of the window have been flushed, an open reads those that tell of a token.
#[test]
fn an_open_reads_only_the_covered_entries_that_have_tokens() {
    let world = keyless(13);
    world.run(async {
        let a = world.open("a").await.unwrap();
        for op in 0..60 {
            match op {
                7 | 30 => drop(put(&world, &a, op, &format!("t{op}")).await.unwrap()),
                _ => drop(a.shard.put(world.rows.put(op, &[1])).await.unwrap()),
            }
        }
        flush(&a).await;
        a.process.crash();
        let before = world.faults.requests();
        let b = world.open("b").await.unwrap();
        let log = world.faults.log();
        let entries = log.iter().filter(|one| one.number > before && one.kind == ObjectKind::Wal);
        let read: Vec<&str> = entries.filter(|one| one.op == Op::Get).map(|one| one.path.as_str()).collect();
        // The two, and one look behind the last for what a stale listing may miss.
        let paths = [8, 31, 61]
            .map(|position| headwater_format::path::wal_path(world.shard, WalPosition::new(position)));
        assert_eq!(read.len(), 3, "{read:?}");
        assert!(paths.iter().all(|path| read.iter().any(|read| read.ends_with(path))), "{read:?}");
        put(&world, &b, 30, "t30").await.unwrap();
        put(&world, &b, 7, "t7").await.unwrap();
        assert_eq!((written(&world)[&7], written(&world)[&30]), (2, 2));
    });
}

#[test]
fn the_tokens_a_shard_tells_of_are_durable_and_outlive_the_writer() {
    let world = keyless(14);
    world.run(async {
        let a = world.open("a").await.unwrap();
        put(&world, &a, 1, "t1").await.unwrap();
        put(&world, &a, 2, "u1").await.unwrap();
        let gate = world.gate_puts(ObjectKind::Wal);
        let underway = send(&world, &a, 3, "t2").await;
        let beginning = ClientToken::new(b"t").unwrap();
        let both = ["t1", "t2"].map(|name| ClientToken::new(name.as_bytes()).unwrap());
        let asked = a.shard.tokens(&beginning);
        let told = async {
            world.pass(Duration::from_millis(50)).await;
            assert!(world.entries().len() < 3, "it is on its way");
            gate.release();
        };
        let (told_of, ()) = futures::join!(asked, told);
        assert_eq!(told_of.unwrap(), both);
        underway.await.unwrap();
        flush(&a).await;
        a.process.crash();
        let b = world.open("b").await.unwrap();
        assert_eq!(b.shard.tokens(&beginning).await.unwrap(), both);
        // One whose write fails is no token of a durable write.
        let gate = world.faults.gate(|request| request.kind == ObjectKind::Wal && request.op.is_write());
        let lost = send(&world, &b, 4, "t3").await;
        world.faults.set_full(true);
        let asked = b.shard.tokens(&beginning);
        let fails = async {
            world.pass(Duration::from_millis(50)).await;
            gate.release();
        };
        let (told_of, ()) = futures::join!(asked, fails);
        assert!(told_of.is_err() && lost.await.is_err());
        assert!(b.shard.tokens(&beginning).await.is_err(), "a stopped writer knows nothing");
    });
}

#[test]
fn a_fenced_writers_tokens_are_known_to_its_successor() {
    let world = keyless(5);
    world.run(async {
        let a = world.open("a").await.unwrap();
        let first = put(&world, &a, 1, "t").await.unwrap();
        let b = world.open("b").await.unwrap();
        assert_eq!(put(&world, &b, 1, "t").await.unwrap(), first);
        // What the fenced writer cannot write, the successor writes.
        put(&world, &a, 2, "u").await.unwrap_err();
        put(&world, &b, 2, "u").await.unwrap();
        assert_eq!(written(&world), [(1, 2), (2, 2)].into());
    });
}

#[test]
fn a_token_whose_put_failed_is_not_remembered() {
    let world = keyless(6);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let wal = |request: &Request| request.kind == ObjectKind::Wal && request.op.is_write();
        let gate = world.faults.gate(wal);
        let (first, again) = (send(&world, &writer, 1, "t").await, send(&world, &writer, 1, "t").await);
        world.faults.set_full(true);
        gate.release();
        first.await.unwrap_err();
        again.await.unwrap_err();
        world.faults.set_full(false);
        assert_eq!(writer.budget.used(), 0, "L5");
        let shard = writer.shard.reopen().await.unwrap();
        shard.put_with(world.rows.put(1, &[1, 2]), named("t")).await.unwrap();
        shard.put_with(world.rows.put(1, &[1, 2]), named("t")).await.unwrap();
        assert_eq!(written(&world), [(1, 2)].into());
    });
}

#[test]
fn tokens_expire_after_their_window_over_a_restart_too() {
    let world = keyless(7);
    world.run(async {
        let a = world.open_with("a", window(60_000), |_| {}).await.unwrap();
        put(&world, &a, 1, "t").await.unwrap();
        flush(&a).await;
        assert!(a.budget.used() > 0, "B2: what is remembered is counted");
        world.pass(Duration::from_secs(40)).await;
        put(&world, &a, 1, "t").await.unwrap();
        a.process.crash();
        let b = world.open_with("b", window(60_000), |_| {}).await.unwrap();
        put(&world, &b, 1, "t").await.unwrap();
        assert_eq!(written(&world), [(1, 2)].into());
        world.pass(Duration::from_secs(21)).await;
        put(&world, &b, 1, "t").await.unwrap();
        assert_eq!(written(&world), [(1, 4)].into(), "it is another write now");
        b.process.crash();
        world.pass(Duration::from_secs(61)).await;
        let reads = world.faults.requests();
        let c = world.open_with("c", window(60_000), |_| {}).await.unwrap();
        let first = headwater_format::path::wal_path(world.shard, WalPosition::new(1));
        let log = world.faults.log();
        let again = log.iter().filter(|one| one.number > reads && one.path.ends_with(&first));
        assert_eq!(again.filter(|one| one.op == Op::Get).count(), 0, "an expired floor is not read");
        put(&world, &c, 1, "t").await.unwrap();
        assert_eq!(written(&world), [(1, 6)].into());
    });
}

#[test]
fn past_the_most_tokens_a_new_one_is_refused_and_no_younger_one_is_lost() {
    let world = keyless(8);
    world.run(async {
        let mut settings = window(60_000);
        settings.tokens.max = 2;
        let writer = world.open_with("a", settings, |_| {}).await.unwrap();
        put(&world, &writer, 1, "a").await.unwrap();
        put(&world, &writer, 2, "b").await.unwrap();
        let error = put(&world, &writer, 3, "c").await.unwrap_err();
        assert!(matches!(error, ShardError::Backpressure { .. }) && error.is_retryable(), "{error}");
        assert!(error.to_string().contains("2 of 2 client tokens"), "{error}");
        writer.shard.put(world.rows.put(4, &[1])).await.unwrap();
        put(&world, &writer, 1, "a").await.unwrap();
        world.pass(Duration::from_secs(60)).await;
        put(&world, &writer, 3, "c").await.unwrap();
        assert_eq!(written(&world), [(1, 2), (2, 2), (3, 2), (4, 1)].into());
    });
}

#[test]
fn a_repeated_conditional_put_is_no_conflict_with_itself() {
    let world = World::new(9);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let start = writer.shard.snapshot(headwater_engine::ReadLevel::Durable).await.unwrap();
        let options = WriteOptions { unchanged: Some(start.unchanged()), ..named("t") };
        let first = writer.shard.put_with(world.rows.put(1, &[1]), options.clone()).await.unwrap();
        assert_eq!(writer.shard.put_with(world.rows.put(1, &[1]), options.clone()).await.unwrap(), first);
        // A refused one leaves nothing behind: with another snapshot the token is free.
        let refused = WriteOptions { token: named("u").token, ..options };
        let error = writer.shard.delete_with(world.rows.keys(&[1]), refused.clone()).await.unwrap_err();
        assert!(matches!(error, ShardError::ConditionFailed { .. }), "{error}");
        let now = writer.shard.snapshot(headwater_engine::ReadLevel::Durable).await.unwrap();
        let options = WriteOptions { unchanged: Some(now.unchanged()), ..refused };
        let deleted = writer.shard.delete_with(world.rows.keys(&[1]), options.clone()).await.unwrap();
        assert_eq!(writer.shard.delete_with(world.rows.keys(&[1]), options).await.unwrap(), deleted);
        assert_eq!(written(&world), [(0, 1), (1, 1)].into());
    });
}

/// A covered entry that is gone is no hole: its rows are in an SSTable. Its tokens are lost with it, as with
/// a manifest of a writer that knows no floor.
#[test]
fn tokens_of_entries_that_are_gone_or_of_a_floor_that_was_dropped_are_lost_and_nothing_else() {
    for gone in [true, false] {
        let world = keyless(10);
        world.run(async {
            let a = world.open("a").await.unwrap();
            put(&world, &a, 1, "t").await.unwrap();
            put(&world, &a, 2, "u").await.unwrap();
            a.shard.put(world.rows.put(3, &[9])).await.unwrap();
            a.shard.close().await.unwrap();
            if gone {
                world.faults.erase(&world.wal_path(1));
            } else {
                let process = world.machine.process("foreign");
                let register: Register<ShardManifest> =
                    Register::for_shard(world.store(&process), world.shard);
                let mut next = ShardManifest::clone(&*world.manifest().await);
                next.version = next.version.next();
                next.token_floor = None;
                register.write(&next).await.unwrap();
            }
            let b = world.open("b").await.unwrap();
            for (op, token) in [(1, "t"), (2, "u")] {
                put(&world, &b, op, token).await.unwrap();
            }
            let found = written(&world);
            let expected = if gone { [(1, 2), (2, 2), (3, 1)] } else { [(1, 4), (2, 4), (3, 1)] };
            assert_eq!(found, expected.into(), "gone: {gone}");
        });
    }
}

#[test]
fn a_damaged_entry_below_the_cursor_stops_nobody() {
    let world = keyless(11);
    world.run(async {
        let a = world.open("a").await.unwrap();
        put(&world, &a, 1, "t").await.unwrap();
        put(&world, &a, 2, "u").await.unwrap();
        a.shard.close().await.unwrap();
        world.faults.overwrite(&world.wal_path(1), bytes::Bytes::from_static(b"damaged"));
        let b = world.open("b").await.unwrap();
        let ack = put(&world, &b, 2, "u").await.unwrap();
        assert_eq!(ack.position.get(), 2);
        b.shard.close().await.unwrap();
    });
}
