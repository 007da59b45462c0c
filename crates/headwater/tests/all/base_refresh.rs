//! When a read sees what others did to the base, and shards others made: at once when it is told to look,
//! else within `reads.base_refresh_ms`. What this process did it always sees; and an old base version that is
//! known never costs a row (P5, P6, P12).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arrow_array::{Array, RecordBatchIterator};
use futures::future::BoxFuture;
use headwater::coord::Generation;
use headwater::{
    Env, IndexKind, OpenOptions, ReadLevel, ReadOptions, Reader, ScanRequest, Sharding, Table, TokioEnv,
};
use headwater_format::shard_manifest::ShardManifest;
use headwater_store::env::Task;
use headwater_store::{Register, RegisterWrite};
use lance::Dataset;
use lance::dataset::{MergeInsertBuilder, WhenMatched, WhenNotMatched, WriteMode, WriteParams};
use lance_table::system_index::mem_wal::CompactedSsTable;

use crate::support::{Home, named, options, rows};

/// A clock that can be put forward.
#[derive(Debug, Default)]
pub struct Clock {
    env: TokioEnv,
    ahead_ms: AtomicU64,
}

impl Clock {
    pub fn put_forward(&self, ms: u64) {
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Env for Clock {
    fn now(&self) -> Duration {
        self.env.now() + Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn wall_clock(&self) -> SystemTime {
        self.env.wall_clock()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.env.sleep(duration)
    }

    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) -> Task {
        self.env.spawn(name, future)
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        self.env.run_blocking(work)
    }

    fn random(&self) -> u64 {
        self.env.random()
    }
}

const AN_HOUR_MS: u64 = 3_600_000;

/// What is known serves for an hour of this clock.
fn patient(clock: &Arc<Clock>) -> OpenOptions {
    let mut options = options();
    options.settings.reads.base_refresh_ms = AN_HOUR_MS;
    // A writer's own manifest is not looked at either.
    options.settings.reads.epoch_confirm_ms = 10 * AN_HOUR_MS;
    options.env = Some(clock.clone());
    options
}

async fn table(home: &Home, clock: &Arc<Clock>, sharding: &Sharding) -> Table {
    let key = ["id".to_owned()];
    Table::create(&home.uri(), &crate::support::schema(), &key, sharding, patient(clock)).await.unwrap()
}

/// Another process appends to the base.
async fn append(home: &Home, ids: std::ops::Range<i64>) {
    let batch = named(ids);
    let schema = batch.schema();
    let params = WriteParams { mode: WriteMode::Append, ..WriteParams::default() };
    let batches = RecordBatchIterator::new([Ok(batch)], schema);
    Dataset::write(batches, &home.uri(), Some(params)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_append_is_seen_when_the_time_is_over_or_when_asked_for() {
    let (home, clock) = (Home::new(), Arc::new(Clock::default()));
    let table = table(&home, &clock, &Sharding::Unsharded).await;
    table.put(named(0..3)).await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 3);
    append(&home, 10..20).await;
    assert_eq!(table.count(None).await.unwrap(), 3, "nobody looked");
    clock.put_forward(AN_HOUR_MS - 60_000);
    assert_eq!(table.count(None).await.unwrap(), 3, "it is not time yet");
    clock.put_forward(60_001);
    assert_eq!(table.count(None).await.unwrap(), 13);
    append(&home, 20..30).await;
    table.refresh().await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 23);
    // P6: never back in time.
    assert_eq!(table.read(ReadLevel::Durable).await.unwrap().count(None).await.unwrap(), 23);

    let poll = Duration::ZERO;
    let reader = Reader::open(&home.uri(), patient(&clock), ReadOptions { poll }).await.unwrap();
    assert_eq!(reader.count(None).await.unwrap(), 23);
    append(&home, 30..40).await;
    table.put(named(3..4)).await.unwrap();
    assert_eq!(reader.count(None).await.unwrap(), 24, "the row of the write tier is acknowledged");
    assert_eq!(reader.strong().await.unwrap().count(None).await.unwrap(), 34);
    assert_eq!(reader.count(None).await.unwrap(), 34, "P6: not back in time");
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_no_time_at_all_each_read_asks() {
    let (home, clock) = (Home::new(), Arc::new(Clock::default()));
    table(&home, &clock, &Sharding::Unsharded).await.close().await.unwrap();
    let mut options = options();
    options.settings.reads.base_refresh_ms = 0;
    let table = Table::open(&home.uri(), options).await.unwrap();
    for round in 0..3 {
        append(&home, 10 * round..10 * round + 10).await;
        assert_eq!(table.count(None).await.unwrap() as i64, 10 * (round + 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_process_commits_itself_is_seen_at_once() {
    let (home, clock) = (Home::new(), Arc::new(Clock::default()));
    let table = table(&home, &clock, &Sharding::Unsharded).await;
    append(&home, 0..50).await;
    table.refresh().await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 50);
    let before = table.read(ReadLevel::Durable).await.unwrap().base_version();
    table.create_index("name", IndexKind::BTree, None).await.unwrap();
    let after = table.read(ReadLevel::Durable).await.unwrap().base_version();
    assert!(after > before, "{after} is the version with the index");
    table.drop_index("name_idx", false).await.unwrap();
    assert!(table.read(ReadLevel::Durable).await.unwrap().base_version() > after);
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_others_make_are_seen_when_the_time_is_over_and_own_ones_at_once() {
    let (home, clock) = (Home::new(), Arc::new(Clock::default()));
    let table = table(&home, &clock, &Sharding::Identity { column: "id".to_owned() }).await;
    assert_eq!(table.count(None).await.unwrap(), 0);
    table.put(named([1])).await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 1, "its own");
    let other = home.open().await;
    other.put(named([2])).await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 1, "nobody looked");
    table.refresh().await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 2);
    other.put(rows(&[(2, "changed")])).await.unwrap();
    assert_eq!(table.count(Some("name = 'changed'")).await.unwrap(), 1, "acknowledged, in a shard it knows");
    other.put(named([3])).await.unwrap();
    clock.put_forward(AN_HOUR_MS + 1);
    assert_eq!(table.count(None).await.unwrap(), 3);
    // Somebody takes the table's own shard over. It is not in the listing of before it was made.
    other.put(rows(&[(1, "taken over")])).await.unwrap();
    assert!(table.put(named([1])).await.is_err(), "it is fenced");
    assert_eq!(table.count(Some("name = 'taken over'")).await.unwrap(), 1);
    other.close().await.unwrap();
}

/// Another process folds generation 1 of the only shard into the base: rows and progress in one commit.
async fn fold_first(home: &Home, table: &Table) {
    let shard = *table.stats().shards.keys().next().unwrap();
    let dataset = Arc::new(Dataset::open(&home.uri()).await.unwrap());
    let mut merge = MergeInsertBuilder::try_new(dataset, vec!["id".to_owned()]).unwrap();
    merge.when_matched(WhenMatched::UpdateAll).when_not_matched(WhenNotMatched::InsertAll);
    merge.mark_sstables_as_compacted(vec![CompactedSsTable { shard_id: shard.uuid(), generation: 1 }]);
    let folded = rows(&[(1, "in the first"), (2, "in the first")]);
    let schema = folded.schema();
    let source = RecordBatchIterator::new([Ok(folded)], schema);
    merge.try_build().unwrap().execute_reader(source).await.unwrap();
}

/// It then takes the SSTable off the list, and its files away.
async fn collect_first(home: &Home) {
    let options = headwater::TableOptions { fsync: false, ..Default::default() };
    let env = Arc::new(TokioEnv::new());
    let lance = headwater_lance::LanceTable::open(&home.uri(), &options, env).await.unwrap();
    let shard = *lance.shard_ids().await.unwrap().first().unwrap();
    let register: Register<ShardManifest> = Register::for_shard(lance.store().clone(), shard);
    let latest = register.load().await.unwrap().unwrap();
    let mut next = latest.as_ref().clone();
    next.version = latest.version.next();
    let first = next.sstables.iter().position(|sstable| sstable.generation == Generation::new(1)).unwrap();
    let gone = next.sstables.remove(first);
    assert!(matches!(register.write(&next).await.unwrap(), RegisterWrite::Written));
    let directory = home.path().join("_mem_wal").join(shard.to_string()).join(gone.path);
    std::fs::remove_dir_all(directory).unwrap();
}

async fn names(table: &Table) -> Vec<String> {
    use arrow_array::cast::AsArray;
    use futures::TryStreamExt;
    let stream = table.scan(&ScanRequest::default()).await.unwrap();
    let batches: Vec<arrow_array::RecordBatch> = stream.try_collect().await.unwrap();
    let texts = batches.iter().flat_map(|batch| {
        let column = batch.column_by_name("name").unwrap().as_string::<i32>().clone();
        (0..column.len()).map(move |row| column.value(row).to_owned()).collect::<Vec<_>>()
    });
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_version_from_before_a_compaction_by_others_costs_no_row_and_doubles_none() {
    let (home, clock) = (Home::new(), Arc::new(Clock::default()));
    let table = table(&home, &clock, &Sharding::Unsharded).await;
    append(&home, 0..2).await;
    table.refresh().await.unwrap();
    table.put(rows(&[(1, "in the first"), (2, "in the first")])).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(2, "in the second")])).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(3, "in memory")])).await.unwrap();
    let live = ["in memory", "in the first", "in the second", "name of 0"];
    assert_eq!(names(&table).await, live);
    let held = table.read(ReadLevel::Durable).await.unwrap();

    fold_first(&home, &table).await;
    assert_eq!(names(&table).await, live, "the former base, and all generations");
    let former = table.read(ReadLevel::Durable).await.unwrap().base_version();
    assert_eq!(former, held.base_version());

    // The files are gone, and neither the base nor the manifest that are known say so.
    collect_first(&home).await;
    let cold = Table::open(&home.uri(), patient(&clock)).await.unwrap();
    assert_eq!(names(&cold).await, live, "of a reader that looks for the first time");
    clock.put_forward(10 * AN_HOUR_MS - 1_000);
    assert_eq!(names(&table).await, live);
    let newer = table.read(ReadLevel::Durable).await.unwrap().base_version();
    assert!(newer > former, "{newer} > {former}");
    table.close().await.unwrap();
}

/// The manifest comes to be known first: a generation is then in neither, and the base is asked again.
#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_is_neither_in_the_known_base_nor_in_the_shard_makes_the_read_ask_again() {
    let (home, clock) = (Home::new(), Arc::new(Clock::default()));
    let table = table(&home, &clock, &Sharding::Unsharded).await;
    table.put(rows(&[(1, "in the first"), (2, "in the first")])).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(2, "in the second")])).await.unwrap();
    let live = ["in the first", "in the second"];
    let mut quick = patient(&clock);
    // Longer than the base is known for: the follower learns of the manifest first.
    quick.settings.reads.base_refresh_ms = 100 * AN_HOUR_MS;
    let reader = Table::open(&home.uri(), quick).await.unwrap();
    assert_eq!(names(&reader).await, live);
    let former = reader.read(ReadLevel::Durable).await.unwrap().base_version();
    fold_first(&home, &table).await;
    collect_first(&home).await;
    clock.put_forward(11 * AN_HOUR_MS);
    assert_eq!(names(&reader).await, live);
    assert!(reader.read(ReadLevel::Durable).await.unwrap().base_version() > former);
}
