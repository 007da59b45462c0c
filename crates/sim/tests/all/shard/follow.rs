//! Readers elsewhere: what a follower shows, what its refreshes cost, and when it starts again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_engine::budget::MemoryBudget;
use headwater_engine::manifest::create_shard;
use headwater_engine::settings::ShardSettings;
use headwater_engine::snapshot::{Lineage, ShardSnapshot};
use headwater_engine::table::TableIo;
use headwater_engine::{Follower, ShardError, ShardParts};
use headwater_format::coord::{Generation, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_format::wal_entry::WalBody;
use headwater_sim::fault::{ObjectKind, Op, Request};
use headwater_sim::table::ModelTables;
use headwater_store::register::Register;
use headwater_store::{Kind, MeterSnapshot, Request as Class, Store};

use super::world::{ROOT, World, Writer, live_of, rows_limit};

/// Longer than a manifest that was confirmed is relied on.
const LATER: Duration = Duration::from_secs(6);

/// A process that follows the shard.
struct Reader {
    follower: Arc<Follower>,
    store: Store,
    table: Arc<ModelTables>,
    budget: Arc<MemoryBudget>,
}

impl Reader {
    fn new(world: &World, name: &str) -> Self {
        Self::with_budget(world, name, 1 << 30, ShardSettings::default())
    }

    fn with_budget(world: &World, name: &str, bytes: u64, settings: ShardSettings) -> Self {
        let process = world.machine.process(name);
        let (table, store) = (Arc::new(ModelTables::new(world.files(&process))), world.store(&process));
        let budget = MemoryBudget::new(bytes);
        let parts = ShardParts {
            store: store.clone(),
            table: Arc::clone(&table) as Arc<dyn TableIo>,
            env: process.env(),
            budget: Arc::clone(&budget),
            indexes: Vec::new(),
            plants: Default::default(),
        };
        let follower = Arc::new(Follower::open(world.shard, parts, settings).unwrap());
        Self { follower, store, table, budget }
    }

    async fn refresh(&self) -> ShardSnapshot {
        self.follower.refresh().await.unwrap().unwrap()
    }

    async fn live(&self, world: &World) -> BTreeMap<u32, u64> {
        live_of(&world.rows, &self.table, &self.refresh().await).await
    }

    fn meter(&self) -> MeterSnapshot {
        self.store.meter().snapshot()
    }

    /// A refresh, and the requests it took: of the WAL, of the manifest, of anything else.
    async fn cost(&self) -> (u64, u64, u64) {
        let before = self.meter();
        self.refresh().await;
        let spent = self.meter().since(&before);
        let of = |kind| spent.of_kind(kind).requests;
        let total = spent.total().requests;
        (of(Kind::Wal), of(Kind::Manifest), total - of(Kind::Wal) - of(Kind::Manifest))
    }
}

async fn put(world: &World, writer: &Writer, ops: std::ops::RangeInclusive<u64>) {
    for op in ops {
        writer.shard.put(world.rows.put(op, &[op as u32])).await.unwrap();
    }
}

async fn flush(writer: &Writer) {
    writer.shard.seal().await.unwrap().wait().await.unwrap();
}

fn expected(ops: std::ops::RangeInclusive<u64>) -> BTreeMap<u32, u64> {
    ops.map(|op| (op as u32, op)).collect()
}

/// Deletes the entries with rows below the cursor, as collection may.
async fn collect(world: &World) {
    let cursor = world.manifest().await.replay_after;
    for (position, entry) in world.entries() {
        if position < cursor && entry.body != WalBody::FenceSentinel {
            assert!(world.faults.erase(&world.wal_path(position.get())));
        }
    }
}

fn generations(snapshot: &ShardSnapshot) -> (Vec<u64>, Vec<u64>) {
    let sstables = snapshot.sstables().unwrap().iter().map(|sstable| sstable.generation.get());
    let memtables = snapshot.memtables().unwrap().iter().map(|view| view.generation().get());
    (sstables.collect(), memtables.collect())
}

#[test]
fn an_idle_refresh_asks_once_and_now_and_then_for_the_manifest_too_q1() {
    let world = World::new(1);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        put(&world, &writer, 1..=1).await;
        let reader = Reader::new(&world, "r");
        reader.refresh().await;
        for _ in 0..3 {
            assert_eq!(reader.cost().await, (1, 0, 0));
            world.pass(Duration::from_secs(1)).await;
        }
        world.pass(LATER).await;
        assert_eq!(reader.cost().await, (1, 1, 0), "both in one round");
        assert_eq!(reader.cost().await, (1, 0, 0));
        // Once a minute: is it the same shard, and does nothing lie behind the end of the WAL?
        world.pass(Duration::from_secs(61)).await;
        assert_eq!(reader.cost().await, (3, 2, 0));
        assert_eq!(reader.cost().await, (1, 0, 0));
    });
}

#[test]
fn a_refresh_costs_what_is_new_q1() {
    let world = World::new(2);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let reader = Reader::new(&world, "r");
        reader.refresh().await;
        // Entries, and those asked for in vain behind the last: windows of 1, 2, 4, …
        let mut next = 1;
        for (entries, wal) in [(1, 3), (2, 3), (3, 7), (20, 31), (60, 63)] {
            put(&world, &writer, next..=next + entries - 1).await;
            next += entries;
            let (gets, manifests, others) = reader.cost().await;
            assert_eq!((gets, others), (wal, 0), "{entries} entries");
            assert!(manifests <= 1);
        }
        assert_eq!(reader.live(&world).await, expected(1..=next - 1));
        flush(&writer).await;
        world.pass(LATER).await;
        assert_eq!(reader.cost().await, (1, 2, 0), "the new manifest, and that there is none after it");
        assert_eq!(generations(&reader.refresh().await), (vec![1], vec![2]));
        assert_eq!(reader.budget.used(), writer.budget.used(), "rows of SSTables are held no more");
    });
}

#[test]
fn generations_move_to_their_sstables_within_one_lineage_p5_p12() {
    let world = World::new(3);
    world.run(async {
        let writer = world.open_with("a", rows_limit(4), |_| {}).await.unwrap();
        let reader = Reader::new(&world, "r");
        let lineage = reader.refresh().await.lineage();
        let mut seq = 0;
        for round in 0..12 {
            put(&world, &writer, round * 3 + 1..=round * 3 + 3).await;
            if round % 3 == 0 {
                world.pass(LATER).await;
            }
            let snapshot = reader.refresh().await;
            assert_eq!(snapshot.lineage(), lineage);
            assert_eq!(snapshot.seq().get(), round * 3 + 4, "Seqs are those of the rows, flushed or not");
            assert!(snapshot.seq().get() > seq, "P6");
            seq = snapshot.seq().get();
            let (sstables, memtables) = generations(&snapshot);
            let all: Vec<u64> = sstables.iter().chain(&memtables).copied().collect();
            assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>(), "each generation once");
            let live = live_of(&world.rows, &reader.table, &snapshot).await;
            assert_eq!(live, expected(1..=round * 3 + 3));
        }
    });
}

#[test]
fn a_blocked_flush_keeps_its_rows_in_the_readers_memory_until_it_is_published_p5() {
    let world = World::new(4);
    world.run(async {
        let writer = world.open_with("a", rows_limit(2), |_| {}).await.unwrap();
        let reader = Reader::new(&world, "r");
        let gate = world.gate_puts(ObjectKind::SsTable);
        put(&world, &writer, 1..=5).await;
        world.pass(LATER).await;
        let before = reader.refresh().await;
        assert_eq!(generations(&before), (vec![], vec![1, 2, 3]));
        let publish = world.gate_puts(ObjectKind::Manifest);
        gate.release();
        world.pass(LATER).await;
        assert_eq!(generations(&reader.refresh().await), (vec![], vec![1, 2, 3]), "complete, not named");
        publish.release();
        world.pass(LATER).await;
        let after = reader.refresh().await;
        assert_eq!(generations(&after), (vec![1, 2], vec![3]));
        for snapshot in [before, after] {
            let live = live_of(&world.rows, &reader.table, &snapshot).await;
            assert_eq!(live, expected(1..=5), "P6: the old snapshot shows the same");
        }
    });
}

#[test]
fn a_fence_and_a_successor_do_not_disturb_the_reader_p7() {
    let world = World::new(5);
    world.run(async {
        let reader = Reader::new(&world, "r");
        let a = world.open_with("a", rows_limit(3), |_| {}).await.unwrap();
        let gate = world.gate_puts(ObjectKind::SsTable);
        put(&world, &a, 1..=5).await;
        let lineage = reader.refresh().await.lineage();
        let b = world.open_with("b", rows_limit(100), |_| {}).await.unwrap();
        assert!(a.shard.put(world.rows.put(99, &[99])).await.is_err());
        put(&world, &b, 6..=7).await;
        assert_eq!(reader.live(&world).await, expected(1..=7));
        gate.release();
        flush(&b).await;
        put(&world, &b, 8..=8).await;
        world.pass(LATER).await;
        assert_eq!(reader.live(&world).await, expected(1..=8));
        let snapshot = reader.refresh().await;
        assert_eq!((snapshot.lineage(), generations(&snapshot)), (lineage, (vec![1, 2], vec![3])));
    });
}

#[test]
fn entries_passed_over_but_still_there_are_read_and_the_lineage_goes_on() {
    let world = World::new(6);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let reader = Reader::new(&world, "r");
        let lineage = reader.refresh().await.lineage();
        put(&world, &writer, 1..=20).await;
        flush(&writer).await;
        world.pass(LATER).await;
        let snapshot = reader.refresh().await;
        assert_eq!((snapshot.lineage(), generations(&snapshot)), (lineage, (vec![1], vec![2])));
        assert_eq!(reader.live(&world).await, expected(1..=20));
    });
}

#[test]
fn a_reader_that_is_far_behind_starts_from_the_newest_manifest() {
    let world = World::new(7);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let reader = Reader::new(&world, "r");
        let lineage = reader.refresh().await.lineage();
        put(&world, &writer, 1..=400).await;
        flush(&writer).await;
        put(&world, &writer, 401..=402).await;
        world.pass(LATER).await;
        let before = reader.meter();
        let snapshot = reader.refresh().await;
        assert_ne!(snapshot.lineage(), lineage);
        assert_eq!(snapshot.seq().get(), 3);
        let spent = reader.meter().since(&before).get(Class::Get, Kind::Wal).requests;
        assert!(spent <= 5, "{spent} requests for two entries");
        assert_eq!(reader.live(&world).await, expected(1..=402));
    });
}

#[test]
fn entries_collected_before_they_were_read_are_read_from_their_sstable() {
    let world = World::new(8);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        put(&world, &writer, 1..=2).await;
        let reader = Reader::new(&world, "r");
        let lineage = reader.refresh().await.lineage();
        put(&world, &writer, 3..=9).await;
        flush(&writer).await;
        put(&world, &writer, 10..=10).await;
        world.pass(LATER).await;
        collect(&world).await;
        assert_eq!(reader.live(&world).await, expected(1..=10));
        assert_ne!(reader.refresh().await.lineage(), lineage);
    });
}

/// The manifest is asked for before the WAL is, and both move on before the WAL answers.
#[test]
fn entries_collected_while_they_are_read_are_read_from_their_sstable() {
    for held in 1..=9 {
        let world = World::new(9);
        world.run(async {
            let writer = world.open("a").await.unwrap();
            put(&world, &writer, 1..=9).await;
            // Collected sooner than the default relies on.
            let mut settings = ShardSettings::default();
            settings.reads.epoch_confirm_ms = 100;
            let reader = Reader::with_budget(&world, "r", 1 << 30, settings);
            let path = world.wal_path(held);
            let gate =
                world.faults.gate(move |request: &Request| request.process == "r" && request.path == path);
            let moves_on = async {
                world.pass(Duration::from_secs(1)).await;
                assert_eq!(gate.held(), 1);
                flush(&writer).await;
                put(&world, &writer, 10..=11).await;
                collect(&world).await;
                gate.release();
            };
            let (live, ()) = futures::join!(reader.live(&world), moves_on);
            assert_eq!(live, expected(1..=11), "position {held} was held back");
        });
    }
}

#[test]
fn a_hole_in_the_wal_is_corrupt_p8() {
    let world = World::new(10);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        put(&world, &writer, 1..=6).await;
        world.faults.erase(&world.wal_path(3));
        let reader = Reader::new(&world, "r");
        let error = reader.follower.refresh().await.unwrap_err();
        assert!(
            matches!(&error, ShardError::Corrupt { path, .. } if world.wal_path(3).ends_with(path)),
            "{error}"
        );
    });
}

#[test]
fn a_manifest_with_other_boundaries_starts_the_reading_again() {
    let world = World::new(11);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        put(&world, &writer, 1..=4).await;
        let reader = Reader::new(&world, "r");
        let lineage = reader.refresh().await.lineage();
        let register: Register<ShardManifest> = Register::for_shard(reader.store.clone(), world.shard);
        let mut next = ShardManifest::clone(&*world.manifest().await);
        next.version = next.version.next();
        next.current_generation = Generation::new(2);
        next.replay_after = WalPosition::new(2);
        register.write(&next).await.unwrap();
        world.pass(LATER).await;
        let snapshot = reader.refresh().await;
        assert_ne!(snapshot.lineage(), lineage);
        // What is tagged with a published generation is in its SSTable, wherever the cursor stands (P12).
        assert_eq!(snapshot.seq().get(), 1);
    });
}

#[test]
fn a_sealed_shard_is_read_and_one_that_was_deleted_is_not_there() {
    let world = World::new(12);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        put(&world, &writer, 1..=3).await;
        let reader = Reader::new(&world, "r");
        assert_eq!(reader.live(&world).await, expected(1..=3));
        let register: Register<ShardManifest> = Register::for_shard(reader.store.clone(), world.shard);
        let mut sealed = ShardManifest::clone(&*world.manifest().await);
        sealed.version = sealed.version.next();
        sealed.status = ShardStatus::Sealed;
        register.write(&sealed).await.unwrap();
        world.pass(LATER).await;
        assert_eq!(reader.live(&world).await, expected(1..=3));
        writer.process.crash();
        let prefix = format!("{ROOT}/{}/", path::shard_dir(world.shard));
        let all: Vec<String> =
            world.faults.read(|objects| objects.under(&prefix).map(|(path, _)| path.clone()).collect());
        all.iter().for_each(|path| assert!(world.faults.erase(path)));
        world.pass(Duration::from_secs(61)).await;
        assert!(reader.follower.refresh().await.unwrap().is_none());
        // The same id again: another shard.
        create_shard(&reader.store, world.shard, 1, BTreeMap::new()).await.unwrap();
        let writer = world.open("b").await.unwrap();
        put(&world, &writer, 7..=7).await;
        assert_eq!(reader.live(&world).await, expected(7..=7));
    });
}

#[test]
fn rows_that_do_not_fit_are_refused_and_fit_once_they_are_flushed_b2() {
    let world = World::new(13);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let mut settings = ShardSettings::default();
        settings.backpressure.timeout_ms = 1_000;
        let reader = Reader::with_budget(&world, "r", 20_000, settings);
        for op in 1..=400 {
            writer.shard.put(world.rows.put(op, &[op as u32])).await.unwrap();
        }
        let error = reader.follower.refresh().await.unwrap_err();
        assert!(matches!(error, ShardError::Backpressure { .. }) && error.is_retryable(), "{error}");
        assert!(reader.budget.used() < 40_000, "{} bytes", reader.budget.used());
        flush(&writer).await;
        put(&world, &writer, 401..=402).await;
        assert_eq!(reader.live(&world).await.len(), 402);
        assert!(!reader.budget.over());
        reader.follower.let_go();
        assert_eq!(reader.budget.used(), 0, "L5");
        assert_eq!(reader.live(&world).await.len(), 402);
    });
}

#[test]
fn those_who_wait_share_a_refresh_and_a_recent_one_serves_the_patient() {
    let world = World::new(14);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        put(&world, &writer, 1..=1).await;
        let reader = Reader::new(&world, "r");
        reader.refresh().await;
        let before = reader.meter();
        let all = (0..20).map(|_| reader.follower.refresh());
        let snapshots: Vec<_> = futures::future::join_all(all).await;
        assert!(snapshots.iter().all(|snapshot| snapshot.as_ref().unwrap().is_some()));
        assert_eq!(
            reader.meter().since(&before).total().requests,
            2,
            "the first one's, and that of all others"
        );
        put(&world, &writer, 2..=2).await;
        let before = reader.meter();
        let old = reader.follower.snapshot(Duration::from_secs(60)).await.unwrap().unwrap();
        assert_eq!((old.seq().get(), reader.meter().since(&before).total().requests), (2, 0));
        world.pass(Duration::from_secs(2)).await;
        let new = reader.follower.snapshot(Duration::from_secs(1)).await.unwrap().unwrap();
        assert_eq!(new.seq().get(), 3);
    });
}

#[test]
fn a_refresh_ends_however_fast_the_wal_grows_l6() {
    let world = World::new(15);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        put(&world, &writer, 1..=1_000).await;
        let mut settings = ShardSettings::default();
        settings.wal.replay_parallelism = 1;
        let reader = Reader::with_budget(&world, "r", 1 << 30, settings);
        // An entry is written for every one that is read, and a few.
        let grows = async {
            let gets = |request: &Request| {
                request.process == "r" && request.kind == ObjectKind::Wal && request.op == Op::Get
            };
            let mut op = 1_001;
            loop {
                let gate = world.faults.gate(gets);
                world.pass(Duration::from_millis(50)).await;
                put(&world, &writer, op..=op + 1).await;
                op += 2;
                gate.release();
                world.pass(Duration::from_micros(10)).await;
            }
        };
        let refresh = std::pin::pin!(reader.refresh());
        let grows = std::pin::pin!(grows);
        let futures::future::Either::Left((snapshot, _)) = futures::future::select(refresh, grows).await;
        let rows = snapshot.seq().get() - 1;
        assert!((1_000..=2_200).contains(&rows), "{rows} rows");
    });
}

#[test]
fn a_refresh_given_up_in_the_middle_is_gone_on_with() {
    let world = World::new(16);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        put(&world, &writer, 1..=50).await;
        let reader = Reader::new(&world, "r");
        let lineage = Lineage::Follower { reader: uuid::Uuid::nil(), start: 1 };
        for millis in 1..40 {
            let given_up = std::pin::pin!(reader.refresh());
            let patience = world.machine.env().sleep(Duration::from_millis(millis));
            let _ = futures::future::select(given_up, patience).await;
        }
        let snapshot = reader.refresh().await;
        assert!(
            matches!(snapshot.lineage(), Lineage::Follower { start: 1.., .. })
                && snapshot.lineage() != lineage
        );
        assert_eq!(snapshot.seq().get(), 51, "no row twice, none missing");
        assert_eq!(reader.live(&world).await, expected(1..=50));
    });
}

#[test]
fn a_distrusted_manifest_is_asked_for_however_young_it_is() {
    let world = World::new(17);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        put(&world, &writer, 1..=1).await;
        let reader = Reader::new(&world, "r");
        reader.refresh().await;
        flush(&writer).await;
        assert_eq!(generations(&reader.refresh().await), (vec![], vec![1]), "it is relied on");
        reader.follower.distrust().await;
        assert_eq!(generations(&reader.refresh().await), (vec![1], vec![2]));
    });
}
