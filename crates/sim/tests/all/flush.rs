//! Flush over model tables: complete or absent, in order, once.

use std::time::Duration;

use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::{Generation, RowOffset};
use headwater_sim::fault::{FaultKind, ObjectKind, Op, Script};
use headwater_sim::history::{Level, OpKind};
use headwater_sim::rows::KeyShape;
use headwater_sim::world::{World, WorldConfig, Writer};
use headwater_store::env::Env;

const LIMIT: Duration = Duration::from_secs(60);

/// A world with an open writer that has put keys 1, 2, 3, 1, 3.
fn world(config: WorldConfig) -> (World, Writer) {
    let world = World::new(config);
    let machine = world.machine.clone();
    let writer = machine.block_on(async {
        world.create().await.unwrap();
        let writer = world.open("writer", LIMIT).await.unwrap();
        for key in [1, 2, 3, 1, 3] {
            world.write(&writer, OpKind::Put(vec![key]), false);
            settle(&world, &writer).await;
        }
        writer
    });
    assert_eq!(world.history.lock().acked(), 5);
    (world, writer)
}

async fn settle(world: &World, writer: &Writer) {
    while writer.in_flight.count() > 0 {
        world.machine.sleep(Duration::from_millis(1)).await;
    }
}

fn generations(world: &World) -> Vec<Generation> {
    world.audit.manifest().unwrap().sstables.iter().map(|sstable| sstable.generation).collect()
}

#[test]
fn a_flush_waits_until_every_index_has_every_row_lance_9035() {
    let mut config = WorldConfig::new(1);
    config.slow_index = Some(Duration::from_millis(1));
    let (world, writer) = world(config);
    world.index_gate.close();
    let machine = world.machine.clone();
    machine.block_on(async {
        world.write(&writer, OpKind::Put(vec![4]), false);
        settle(&world, &writer).await;
        world.seal(&writer);
        machine.sleep(Duration::from_secs(3600)).await;
    });
    assert_eq!(generations(&world), []);
    assert!(world.store.log().iter().all(|request| request.kind != ObjectKind::SsTable));
    world.index_gate.open();
    machine.block_on(settle(&world, &writer));
    assert_eq!(generations(&world), [Generation::new(1)]);
    assert_eq!(world.audit.violations(), []);
}

#[test]
fn a_sealed_memtable_is_read_from_memory_until_its_sstable_is_named() {
    let (world, writer) = world(WorldConfig::new(2));
    let gate = world.store.gate(|request| request.kind == ObjectKind::SsTable && request.op.is_write());
    let machine = world.machine.clone();
    machine.block_on(async {
        world.seal(&writer);
        machine.sleep(Duration::from_secs(1)).await;
        assert!(gate.held() > 0);
        let held = world.read_once(&writer, Level::Durable, false).await;
        assert!(held.is_some());
        gate.release();
        settle(&world, &writer).await;
        assert!(world.read_once(&writer, Level::Durable, false).await.is_some());
    });
    let history = world.history.lock();
    let rows: Vec<_> = history.reads.iter().map(|read| read.rows.clone()).collect();
    assert_eq!(rows[0].len(), 8);
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn an_sstable_answers_for_every_key_written_and_for_no_other() {
    for shape in [KeyShape::Int, KeyShape::Text, KeyShape::Composite] {
        let mut config = WorldConfig::new(3);
        config.shape = shape;
        let (world, writer) = world(config);
        let machine = world.machine.clone();
        machine.block_on(async {
            world.seal(&writer);
            settle(&world, &writer).await;
            let sstable = world.audit.manifest().unwrap().sstables[0].clone();
            assert_eq!(sstable.physical_rows, Some(5));
            assert!(sstable.primary_key_bytes.unwrap() > 0 && sstable.in_memory_bytes.unwrap() > 0);
            let reader = writer.tables.open_sstable(world.shard, &sstable).await.unwrap();
            let found = reader.find_keys(&world.rows.keys(&[1, 2, 3, 4])).await.unwrap();
            let offsets = |offsets: &[u32]| offsets.iter().map(|at| RowOffset::new(*at)).collect::<Vec<_>>();
            assert_eq!(found, [offsets(&[0, 3]), offsets(&[1]), offsets(&[2, 4]), offsets(&[])]);
            let newest: Vec<_> = reader
                .scan()
                .await
                .unwrap()
                .iter()
                .flat_map(|batch| world.rows.read(batch).unwrap())
                .collect();
            assert_eq!(newest.iter().map(|row| row.key).collect::<Vec<_>>(), [2, 1, 3]);
            let rows = reader.read_rows(&offsets(&[4, 0])).await.unwrap();
            let keys: Vec<_> = world.rows.read(&rows).unwrap().iter().map(|row| row.key).collect();
            assert_eq!(keys, [3, 1]);
            assert!(matches!(reader.read_rows(&offsets(&[5])).await, Err(TableError::Invalid { .. })));
        });
    }
}

#[test]
fn without_a_key_an_sstable_has_no_sidecar_and_no_key_bytes() {
    let mut config = WorldConfig::new(4);
    config.shape = KeyShape::None;
    let (world, writer) = world(config);
    let machine = world.machine.clone();
    machine.block_on(async {
        world.seal(&writer);
        settle(&world, &writer).await;
    });
    let sstable = world.audit.manifest().unwrap().sstables[0].clone();
    assert_eq!((sstable.physical_rows, sstable.primary_key_bytes), (Some(5), None));
    assert!(world.store.log().iter().all(|request| !request.path.contains("_pk_index")));
    assert_eq!(world.audit.violations(), []);
}

#[test]
fn warm_is_called_once_before_publication_and_its_failure_stops_nothing() {
    let story = |fail_at: Option<u64>| {
        let (world, writer) = world(WorldConfig::new(5));
        if let Some(number) = fail_at {
            world.store.set_script(Script::new().at(number, FaultKind::ErrorBefore));
        }
        let machine = world.machine.clone();
        machine.block_on(async {
            world.seal(&writer);
            settle(&world, &writer).await;
        });
        let log = world.store.log();
        let warm =
            log.iter().find(|request| request.kind == ObjectKind::SsTable && request.op == Op::Get).unwrap();
        let named = log.iter().rfind(|request| request.kind == ObjectKind::Manifest && request.op.is_write());
        assert!(warm.number < named.unwrap().number, "warm comes before publication");
        assert_eq!(writer.tables.warmed(), 1);
        assert_eq!(generations(&world), [Generation::new(1)]);
        assert_eq!(world.store.counts().get(FaultKind::ErrorBefore), u64::from(fail_at.is_some()));
        warm.number
    };
    let number = story(None);
    assert_eq!(story(Some(number)), number);
}

#[test]
fn a_failed_flush_is_tried_again_under_a_new_name_and_blocks_later_ones_lance_8293() {
    let (world, writer) = world(WorldConfig::new(6));
    let machine = world.machine.clone();
    world.store.set_full(true);
    machine.block_on(async {
        world.seal(&writer);
        machine.sleep(Duration::from_secs(30)).await;
        assert!(writer.shard.stats().counters.flush_failures > 1);
        assert_eq!(generations(&world), []);
        world.store.set_full(false);
        settle(&world, &writer).await;
        world.write(&writer, OpKind::Put(vec![9]), false);
        settle(&world, &writer).await;
        world.seal(&writer);
        settle(&world, &writer).await;
    });
    assert_eq!(generations(&world), [Generation::new(1), Generation::new(2)]);
    let mut names: Vec<String> = world
        .store
        .log()
        .iter()
        .filter(|request| request.kind == ObjectKind::SsTable)
        .filter_map(|request| request.path.split('/').find(|part| part.contains("_gen_")).map(str::to_owned))
        .collect();
    names.sort();
    names.dedup();
    assert!(names.len() > 3, "each attempt has a name of its own: {names:?}");
    assert_eq!(world.audit.violations(), []);
}

#[test]
fn a_seal_under_sustained_writes_waits_for_its_own_generation_only() {
    let mut config = WorldConfig::new(7);
    config.settings.freeze.max_rows = 5;
    config.settings.backpressure.max_frozen = 4;
    let (world, writer) = world(config);
    let machine = world.machine.clone();
    machine.block_on(async {
        let (busy, other) = (world.clone(), writer.clone());
        let writes = async move {
            for key in 0..3_000_u32 {
                busy.write(&other, OpKind::Put(vec![key % 30]), false);
                busy.machine.sleep(Duration::from_millis(2)).await;
            }
        };
        machine.spawn("writes", Box::pin(writes)).detach();
        machine.sleep(Duration::from_millis(200)).await;
        let seal = writer.shard.seal().await.unwrap();
        let started = machine.now();
        seal.wait().await.unwrap();
        assert!(machine.now() - started < Duration::from_secs(2), "{:?}", machine.now() - started);
        assert!(writer.in_flight.count() > 0 || writer.shard.stats().active_rows > 0);
    });
}
