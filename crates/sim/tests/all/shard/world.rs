//! A machine, a store, a table and one shard, for tests of single behaviours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use headwater_engine::budget::MemoryBudget;
use headwater_engine::index::MemIndexFactory;
use headwater_engine::manifest::create_shard;
use headwater_engine::plants::Plants;
use headwater_engine::settings::ShardSettings;
use headwater_engine::snapshot::ReadLevel;
use headwater_engine::table::TableIo;
use headwater_engine::{Follower, Shard, ShardError, ShardParts, ShardSnapshot};
use headwater_format::coord::{ShardId, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{self, WalEntry};
use headwater_sim::fault::{FaultStore, ObjectKind, Op, Request};
use headwater_sim::index::{IndexGate, SlowIndexFactory};
use headwater_sim::rows::{KeyShape, Row, Rows};
use headwater_sim::table::{Files, ModelTables};
use headwater_store::env::{SeededEnv, SeededProcess};
use headwater_store::register::Register;
use headwater_store::{RetryPolicy, Store};
use object_store::path::Path;
use uuid::Uuid;

pub const ROOT: &str = "table";

/// Everything below one table.
pub struct World {
    pub machine: SeededEnv,
    pub faults: FaultStore,
    pub rows: Rows,
    pub shard: ShardId,
}

/// One process with a shard open in it.
pub struct Writer {
    pub process: SeededProcess,
    pub shard: Shard,
    pub table: Arc<ModelTables>,
    pub budget: Arc<MemoryBudget>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self::with_key(seed, KeyShape::Int)
    }

    pub fn with_key(seed: u64, key: KeyShape) -> Self {
        let machine = SeededEnv::new(seed);
        let faults = FaultStore::new(&machine);
        let rows = Rows::new(key);
        let shard = ShardId::new(Uuid::from_u128(7));
        let world = Self { machine, faults, rows, shard };
        let process = world.machine.process("init");
        world.run(async {
            let base = RecordBatch::new_empty(Arc::clone(world.rows.schema()));
            ModelTables::create(&world.files(&process), &base).await.unwrap();
            create_shard(&world.store(&process), world.shard, 1, BTreeMap::new()).await.unwrap();
        });
        world
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.machine.block_on(future)
    }

    pub fn store(&self, process: &SeededProcess) -> Store {
        let retry = RetryPolicy {
            max_attempts: 4,
            base: Duration::from_millis(10),
            cap: Duration::from_millis(100),
            budget: Duration::from_secs(5),
        };
        Store::new(self.faults.client(process), Path::from(ROOT), process.env(), retry)
    }

    pub fn files(&self, process: &SeededProcess) -> Files {
        Files::new(self.faults.client(process), Path::from(ROOT))
    }

    pub async fn open(&self, name: &str) -> Result<Writer, ShardError> {
        self.open_with(name, ShardSettings::default(), |_| {}).await
    }

    pub async fn open_with(
        &self,
        name: &str,
        settings: ShardSettings,
        change: impl FnOnce(&mut ShardParts),
    ) -> Result<Writer, ShardError> {
        let process = self.machine.process(name);
        let (table, mut parts) = self.parts(&process);
        change(&mut parts);
        let budget = Arc::clone(&parts.budget);
        let shard = Shard::open(self.shard, parts, settings).await?;
        Ok(Writer { process, shard, table, budget })
    }

    fn parts(&self, process: &SeededProcess) -> (Arc<ModelTables>, ShardParts) {
        let table = Arc::new(ModelTables::new(self.files(process)));
        let parts = ShardParts {
            store: self.store(process),
            table: Arc::clone(&table) as Arc<dyn TableIo>,
            env: process.env(),
            budget: MemoryBudget::new(1 << 30),
            indexes: Vec::new(),
            plants: Plants::None,
        };
        (table, parts)
    }

    /// The shard as a process without a claim sees it.
    pub async fn look(&self) -> ShardSnapshot {
        let (_, parts) = self.parts(&self.machine.process("reader"));
        let follower = Follower::open(self.shard, parts, ShardSettings::default()).unwrap();
        follower.refresh().await.unwrap().unwrap()
    }

    pub fn gate_puts(&self, kind: ObjectKind) -> headwater_sim::fault::Gate {
        self.faults
            .gate(move |request: &Request| request.kind == kind && matches!(request.op, Op::Put { .. }))
    }

    pub async fn manifest(&self) -> Arc<ShardManifest> {
        let process = self.machine.process("looker");
        Register::for_shard(self.store(&process), self.shard).load().await.unwrap().unwrap()
    }

    /// Every WAL entry, by position.
    pub fn entries(&self) -> BTreeMap<WalPosition, WalEntry> {
        let prefix = format!("{ROOT}/{}/", path::wal_dir(self.shard));
        self.faults.read(|objects| {
            objects
                .under(&prefix)
                .map(|(path, object)| {
                    let name = path.rsplit('/').next().unwrap();
                    let entry = wal_entry::decode(object.bytes.clone()).unwrap();
                    (path::parse_wal_name(name).unwrap(), entry)
                })
                .collect()
        })
    }

    pub fn wal_path(&self, position: u64) -> String {
        format!("{ROOT}/{}", path::wal_path(self.shard, WalPosition::new(position)))
    }

    /// Lets time pass and tasks run.
    pub async fn pass(&self, time: Duration) {
        self.machine.env().sleep(time).await;
    }
}

impl Writer {
    /// Live rows of the memtables.
    pub async fn live(&self, rows: &Rows, level: ReadLevel) -> Vec<Row> {
        let snapshot = self.shard.snapshot(level).await.unwrap();
        let mut live: Vec<Row> =
            snapshot.live_rows().unwrap().iter().flat_map(|batch| rows.read(batch).unwrap()).collect();
        live.sort();
        live
    }

    /// Keys and writers of every live row of memtables and SSTables, newest per key.
    pub async fn live_everywhere(&self, rows: &Rows) -> BTreeMap<u32, u64> {
        let snapshot = self.shard.snapshot(ReadLevel::Durable).await.unwrap();
        live_of(rows, &self.table, &snapshot).await
    }
}

/// Keys and writers of every live row of a snapshot's memtables and SSTables, newest per key.
pub async fn live_of(rows: &Rows, table: &ModelTables, snapshot: &ShardSnapshot) -> BTreeMap<u32, u64> {
    let mut newest = BTreeMap::new();
    for sstable in snapshot.sstables().unwrap() {
        let reader = table.open_sstable(snapshot.shard(), sstable).await.unwrap();
        for batch in reader.scan().await.unwrap() {
            for row in rows.read(&batch).unwrap() {
                newest.insert(row.key, row.written.map(|written| written.op));
            }
        }
    }
    for memtable in snapshot.memtables().unwrap() {
        for batch in memtable.visible(snapshot.seq()).unwrap() {
            for row in rows.read(&batch).unwrap() {
                newest.insert(row.key, row.written.map(|written| written.op));
            }
        }
    }
    newest.into_iter().filter_map(|(key, op)| op.map(|op| (key, op))).collect()
}

/// Settings with a memtable of at most `rows` rows.
pub fn rows_limit(rows: u32) -> ShardSettings {
    let mut settings = ShardSettings::default();
    settings.freeze.max_rows = rows;
    settings
}

/// An index that applies nothing while `gate` is closed.
pub fn slow_index(world: &World, gate: &IndexGate) -> Arc<dyn MemIndexFactory> {
    Arc::new(SlowIndexFactory::new(world.machine.env(), Duration::from_millis(1), gate.clone()))
}

/// Keys and the puts that wrote them.
pub fn ops(rows: &[Row]) -> Vec<(u32, u64)> {
    rows.iter().map(|row| (row.key, row.written.map_or(0, |written| written.op))).collect()
}
