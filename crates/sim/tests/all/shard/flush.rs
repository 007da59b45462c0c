//! Flushing: complete or absent, in order, until it works.

use std::time::Duration;

use headwater_engine::snapshot::ReadLevel;
use headwater_engine::table::TableIo;
use headwater_engine::{Shard, ShardSettings, ShardSnapshot, ShardStatus};
use headwater_sim::fault::{FaultKind, ObjectKind, Op, Request, Script};
use headwater_sim::index::IndexGate;
use headwater_sim::rows::KeyShape;

use super::world::{World, ops, rows_limit, slow_index};

async fn published(world: &World) -> Vec<u64> {
    world.manifest().await.sstables.iter().map(|sstable| sstable.generation.get()).collect()
}

#[test]
fn a_sealed_generation_is_published_with_its_sizes_and_the_cursor_moves_p11() {
    let world = World::new(1);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1, 2, 3])).await.unwrap();
        writer.shard.put(world.rows.put(2, &[1, 3])).await.unwrap();
        let seal = writer.shard.seal().await.unwrap();
        assert_eq!(seal.generation.unwrap().get(), 1);
        seal.wait().await.unwrap();
        let manifest = world.manifest().await;
        let sstable = manifest.sstables.first().unwrap();
        assert_eq!((manifest.replay_after.get(), manifest.current_generation.get()), (2, 2));
        assert_eq!(sstable.physical_rows, Some(5));
        assert_eq!(sstable.primary_key_bytes, Some(40));
        assert!(sstable.in_memory_bytes.unwrap() > 100);
        assert_eq!(writer.live_everywhere(&world.rows).await, [(1, 2), (2, 1), (3, 2)].into());
        assert_eq!(writer.live(&world.rows, ReadLevel::Durable).await, []);
        assert_eq!(writer.table.warmed(), 1);
        assert_eq!(writer.budget.used(), 0, "L5: a flushed memtable gives its memory back");
    });
}

#[test]
fn sealing_an_empty_memtable_freezes_nothing_but_covers_what_is_under_way() {
    let world = World::new(2);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let seal = writer.shard.seal().await.unwrap();
        assert_eq!(seal.generation, None);
        seal.wait().await.unwrap();
        let gate = world.gate_puts(ObjectKind::SsTable);
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let first = writer.shard.seal().await.unwrap();
        let second = writer.shard.seal().await.unwrap();
        assert_eq!((first.generation.map(|g| g.get()), second.generation), (Some(1), None));
        gate.release();
        second.wait().await.unwrap();
        assert_eq!(published(&world).await, [1]);
        first.wait().await.unwrap();
    });
}

#[test]
fn waiting_for_a_seal_ends_under_sustained_writes_l6() {
    let world = World::new(3);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let mut sealed = std::pin::pin!(async { writer.shard.seal().await.unwrap().wait().await.unwrap() });
        let mut op = 1;
        loop {
            op += 1;
            let put = std::pin::pin!(writer.shard.put(world.rows.put(op, &[op as u32])));
            match futures::future::select(&mut sealed, put).await {
                futures::future::Either::Left(_) => break,
                futures::future::Either::Right((ack, _)) => ack.unwrap(),
            };
            assert!(op < 1000);
        }
    });
}

#[test]
fn a_generation_that_fails_blocks_the_next_and_nothing_is_lost_lance_8293() {
    let world = World::new(4);
    world.run(async {
        let writer = world.open_with("a", rows_limit(1), |_| {}).await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        let gate = world.gate_puts(ObjectKind::SsTable);
        writer.shard.put(world.rows.put(2, &[2])).await.unwrap();
        writer.shard.put(world.rows.put(3, &[3])).await.unwrap();
        world.pass(Duration::from_millis(1)).await;
        let failing = world.faults.requests() + 1;
        let script = (failing..failing + 6).fold(Script::new(), |s, n| s.at(n, FaultKind::ErrorBefore));
        world.faults.set_script(script);
        gate.release();
        world.pass(Duration::from_secs(30)).await;
        assert!(writer.shard.stats().counters.flush_failures >= 1 || published(&world).await == [1, 2, 3]);
        assert_eq!(published(&world).await, [1, 2, 3]);
        writer.process.crash();
        let again = world.open("b").await.unwrap();
        assert_eq!(again.live_everywhere(&world.rows).await, [(1, 1), (2, 2), (3, 3)].into());
    });
}

#[test]
fn while_one_generation_keeps_failing_later_ones_are_not_published_lance_8293() {
    let world = World::new(5);
    world.run(async {
        let writer = world.open_with("a", rows_limit(1), |_| {}).await.unwrap();
        let gate = world.faults.gate(|request| {
            request.kind == ObjectKind::SsTable && request.path.contains("_gen_1/") && request.op.is_write()
        });
        for op in 1..=3 {
            writer.shard.put(world.rows.put(op, &[op as u32])).await.unwrap();
        }
        world.pass(Duration::from_secs(60)).await;
        assert_eq!(published(&world).await, Vec::<u64>::new());
        assert_eq!(world.manifest().await.replay_after.get(), 0);
        gate.release();
        world.pass(Duration::from_secs(60)).await;
        assert_eq!(published(&world).await, [1, 2, 3]);
    });
}

#[test]
fn frozen_rows_stay_readable_until_their_sstable_is_named_p5_lance_6814() {
    let world = World::new(6);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        for kind in [ObjectKind::SsTable, ObjectKind::Manifest] {
            let gate = world.gate_puts(kind);
            let seal = writer.shard.seal().await.unwrap();
            world.pass(Duration::from_secs(1)).await;
            assert_eq!(writer.live_everywhere(&world.rows).await, [(1, 1)].into(), "{kind:?}");
            gate.release();
            seal.wait().await.unwrap();
            assert_eq!(writer.live_everywhere(&world.rows).await, [(1, 1)].into(), "{kind:?}");
            writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        }
    });
}

/// A reader can learn of a published generation from storage before its writer hands it over.
#[test]
fn a_generation_that_is_published_and_still_in_memory_is_read_once_p5_p12() {
    let world = World::with_key(12, KeyShape::None);
    world.run(async {
        let mut settings = ShardSettings::default();
        settings.reads.epoch_confirm_ms = 500;
        let writer = world.open_with("a", settings, |_| {}).await.unwrap();
        writer.shard.put(world.rows.put(1, &[1, 1, 2])).await.unwrap();
        // The manifest is written; what comes before the hand-over, the hint, is not.
        let gate = world.gate_puts(ObjectKind::Hint);
        let seal = writer.shard.seal().await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(gate.held(), 1);
        let between = writer.shard.snapshot(ReadLevel::Durable).await.unwrap();
        assert_eq!(between.manifest().sstables.len(), 1, "it is published");
        let rows = |snapshot: &ShardSnapshot| -> usize {
            snapshot.live_rows().unwrap().iter().map(|batch| batch.num_rows()).sum()
        };
        assert_eq!((rows(&between), between.sstables().unwrap().len()), (3, 0), "read from memory alone");
        gate.release();
        seal.wait().await.unwrap();
        let after = writer.shard.snapshot(ReadLevel::Durable).await.unwrap();
        assert_eq!((rows(&after), after.sstables().unwrap().len()), (0, 1));
        assert_eq!((rows(&between), between.sstables().unwrap().len()), (3, 0), "P6");
    });
}

#[test]
fn a_flush_waits_until_every_index_has_every_row_lance_9035_p9() {
    let world = World::new(7);
    world.run(async {
        let gate = IndexGate::default();
        gate.close();
        let index = slow_index(&world, &gate);
        let writer = world.open_with("a", rows_limit(2), |parts| parts.indexes.push(index)).await.unwrap();
        writer.shard.put(world.rows.put(1, &[1, 2])).await.unwrap();
        let seal = writer.shard.seal().await.unwrap();
        world.pass(Duration::from_secs(60)).await;
        assert_eq!(published(&world).await, Vec::<u64>::new());
        gate.open();
        seal.wait().await.unwrap();
        let snapshot = writer.shard.snapshot(ReadLevel::Durable).await.unwrap();
        let sstable = snapshot.sstables().unwrap().first().unwrap();
        let reader = writer.table.open_sstable(world.shard, sstable).await.unwrap();
        let found = reader.find_keys(&world.rows.keys(&[1, 2, 3])).await.unwrap();
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
    });
}

#[test]
fn the_key_sidecar_answers_for_every_key_written_replaced_ones_too_and_for_no_other() {
    let world = World::new(8);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1, 2, 3, 1, 3])).await.unwrap();
        writer.shard.seal().await.unwrap().wait().await.unwrap();
        let snapshot = writer.shard.snapshot(ReadLevel::Durable).await.unwrap();
        let sstable = snapshot.sstables().unwrap().first().unwrap();
        let reader = writer.table.open_sstable(world.shard, sstable).await.unwrap();
        let found = reader.find_keys(&world.rows.keys(&[1, 2, 3, 4])).await.unwrap();
        let offsets: Vec<Vec<u32>> =
            found.iter().map(|rows| rows.iter().map(|row| row.get()).collect()).collect();
        assert_eq!(offsets, [vec![0, 3], vec![1], vec![2, 4], vec![]]);
    });
}

#[test]
fn a_failing_warm_up_stops_nothing() {
    let world = World::new(9);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let reads = |request: &headwater_sim::fault::Request| {
            request.kind == ObjectKind::SsTable && request.op == Op::Get
        };
        // The warm-up read is held and then fails; it comes after the files and before the manifest.
        let gate = world.faults.gate(reads);
        let seal = writer.shard.seal().await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(gate.held(), 1);
        assert_eq!(published(&world).await, Vec::<u64>::new(), "warmed before it is named");
        let path = world.faults.read(|objects| {
            objects
                .under("table/_mem_wal/")
                .map(|(path, _)| path.clone())
                .find(|p| p.contains("manifest.json"))
        });
        if let Some(path) = path {
            world.faults.erase(&path);
        }
        gate.release();
        seal.wait().await.unwrap();
        assert_eq!(published(&world).await, [1]);
        assert_eq!(writer.table.warmed(), 1);
    });
}

/// Two generations are published; the script applies from the start. The number of the second publish.
fn two_publishes(script: Script) -> (World, u64) {
    let world = World::new(10);
    world.faults.set_script(script);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        for op in [1, 2] {
            writer.shard.put(world.rows.put(op, &[op as u32])).await.unwrap();
            writer.shard.seal().await.unwrap().wait().await.unwrap();
        }
        assert_eq!(published(&world).await, [1, 2]);
        assert_eq!(writer.live_everywhere(&world.rows).await, [(1, 1), (2, 2)].into());
    });
    let publishes =
        |request: &&Request| request.kind == ObjectKind::Manifest && request.op == Op::Put { create: true };
    let last = world.faults.log().iter().rfind(publishes).unwrap().number;
    (world, last)
}

#[test]
fn a_publish_whose_answer_is_lost_is_recognised_as_done_p12() {
    // Up to the publish, a run with a fault there is the run without: its number is the same.
    let (_, publish) = two_publishes(Script::new());
    for fault in [FaultKind::AnswerLost, FaultKind::OwnPrecondition, FaultKind::ErrorBefore] {
        let (world, _) = two_publishes(Script::new().at(publish, fault));
        assert_eq!(world.faults.counts().get(fault), 1, "{fault} took effect");
        let met = world.faults.log().into_iter().find(|request| request.number == publish).unwrap();
        assert_eq!((met.kind, met.op), (ObjectKind::Manifest, Op::Put { create: true }));
    }
}

#[test]
fn keys_of_every_shape_are_flushed_and_found() {
    for shape in [KeyShape::Int, KeyShape::Text, KeyShape::Composite, KeyShape::None] {
        let world = World::with_key(11, shape);
        world.run(async {
            let writer = world.open("a").await.unwrap();
            writer.shard.put(world.rows.put(1, &[1, 2])).await.unwrap();
            writer.shard.put(world.rows.put(2, &[2, 3])).await.unwrap();
            assert!(matches!(writer.shard.stats().status, ShardStatus::Serving));
            close(&writer.shard).await;
            let sstable = world.manifest().await.sstables.first().unwrap().clone();
            assert_eq!(sstable.physical_rows, Some(4));
            assert_eq!(sstable.primary_key_bytes.is_some(), shape != KeyShape::None);
            let reader = writer.table.open_sstable(world.shard, &sstable).await.unwrap();
            let rows: Vec<_> = reader
                .scan()
                .await
                .unwrap()
                .iter()
                .flat_map(|batch| world.rows.read(batch).unwrap())
                .collect();
            let expected = if shape == KeyShape::None { 4 } else { 3 };
            assert_eq!(ops(&rows).len(), expected, "{shape:?}");
        });
    }
}

async fn close(shard: &Shard) {
    shard.close().await.unwrap();
}
