//! Putting a world together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_engine::plants::Plants;
use headwater_engine::{ShardError, ShardSettings};
use headwater_format::coord::ShardId;
use headwater_store::env::{Env, SeededEnv, SeededProcess};
use headwater_store::{RetryPolicy, Store};
use object_store::path::Path;
use parking_lot::Mutex;

use super::tally::Tally;
use super::waiting::{run_in, within};
use crate::audit::Audit;
use crate::fault::FaultStore;
use crate::history::History;
use crate::index::IndexGate;
use crate::rows::{KeyShape, Row, Rows, Written};
use crate::table::{Files, ModelTables};
use crate::violation::Violation;

/// Where the table lies in the store.
pub const ROOT: &str = "db/table.lance";
/// Puts of base rows are numbered from here.
const BASE_OPS: u64 = 1 << 40;
/// Rows of the base.
const BASE_ROWS: u32 = 8;
/// Processes that try to create table and shard.
const CREATE_TRIES: usize = 4;
/// Longest that one of them may take.
const CREATE_LIMIT: Duration = Duration::from_secs(600);

/// What kind of world.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// Everything random follows from it.
    pub seed: u64,
    /// Shape of the table's key.
    pub shape: KeyShape,
    /// Settings of every writer.
    pub settings: ShardSettings,
    /// How the store client retries.
    pub retry: RetryPolicy,
    /// Memory of one process's memtables, in bytes.
    pub budget: u64,
    /// Longest that the slow index takes for a batch; none = no index but the key's.
    pub slow_index: Option<Duration>,
    /// A planted fault.
    pub plants: Plants,
}

impl WorldConfig {
    /// A small table with an Int64 key and everything else by default.
    pub fn new(seed: u64) -> Self {
        let retry = RetryPolicy {
            max_attempts: 6,
            base: Duration::from_millis(20),
            cap: Duration::from_millis(500),
            budget: Duration::from_secs(8),
        };
        Self {
            seed,
            shape: KeyShape::Int,
            settings: ShardSettings::default(),
            retry,
            budget: 64 << 20,
            slow_index: Some(Duration::from_millis(5)),
            plants: Plants::None,
        }
    }
}

/// One shard and everything around it. Cheap to clone; every clone is the same.
#[derive(Clone, Debug)]
pub struct World {
    /// The machine.
    pub machine: SeededEnv,
    /// Storage.
    pub store: FaultStore,
    /// The books of storage.
    pub audit: Audit,
    /// What clients did and were told.
    pub history: Arc<Mutex<History>>,
    /// Sums.
    pub tally: Arc<Mutex<Tally>>,
    /// The table.
    pub rows: Arc<Rows>,
    /// The shard.
    pub shard: ShardId,
    /// Holds the slow indexes back.
    pub index_gate: IndexGate,
    /// What was asked for.
    pub config: Arc<WorldConfig>,
    /// Newest rows per key of SSTables read so far, by name.
    pub(super) sstables: Arc<Mutex<BTreeMap<String, Arc<Vec<Row>>>>>,
}

impl World {
    /// An empty world: no table, no shard.
    pub fn new(config: WorldConfig) -> Self {
        let machine = SeededEnv::new(config.seed);
        let store = FaultStore::new(&machine);
        let rows = Rows::new(config.shape);
        let shard = ShardId::new(machine.uuid());
        let audit = Audit::new(rows.clone(), shard, ROOT);
        store.observe(audit.observer());
        let base = (0..BASE_ROWS).map(|key| Row { key, written: Some(base_row(key)) });
        Self {
            history: Arc::new(Mutex::new(History::new(base.collect()))),
            tally: Arc::new(Mutex::new(Tally::default())),
            rows: Arc::new(rows),
            index_gate: IndexGate::default(),
            config: Arc::new(config),
            sstables: Arc::new(Mutex::new(BTreeMap::new())),
            machine,
            store,
            audit,
            shard,
        }
    }

    /// Creates the table, with a few rows in its base, and the shard. Tries again when a process dies or
    /// fails.
    ///
    /// # Errors
    /// L1 when no try succeeds.
    pub async fn create(&self) -> Result<(), Violation> {
        let mut last = "the process died".to_owned();
        for _ in 0..CREATE_TRIES {
            let process = self.machine.process("creator");
            let base = self.base_batch();
            let (files, store, shard) = (self.files(&process), self.client(&process), self.shard);
            let work = async move {
                ModelTables::create(&files, &base).await.map_err(ShardError::from)?;
                headwater_engine::manifest::create_shard(&store, shard, 1, BTreeMap::new()).await.map(|_| ())
            };
            match within(&self.machine, CREATE_LIMIT, run_in(&process, "create", work)).await.flatten() {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => last = error.to_string(),
                None => {}
            }
            process.crash();
        }
        Err(Violation::new("L1", format!("the shard cannot be created: {last}")))
    }

    /// The rows of the base as one batch: each a put of its own.
    fn base_batch(&self) -> arrow_array::RecordBatch {
        let batches: Vec<_> = (0..BASE_ROWS).map(|key| self.rows.put(base_row(key).op, &[key])).collect();
        arrow_select::concat::concat_batches(self.rows.schema(), &batches)
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// The store as `process` uses it.
    pub fn client(&self, process: &SeededProcess) -> Store {
        let client = self.store.client(process);
        Store::new(client, Path::from(ROOT), process.env(), self.config.retry)
    }

    /// The table's files as `process` uses them.
    pub fn files(&self, process: &SeededProcess) -> Files {
        Files::new(self.store.client(process), Path::from(ROOT))
    }

    /// A random number below `below`.
    pub fn chance(&self, below: u64) -> u64 {
        self.machine.random() % below.max(1)
    }

    /// Writes down a broken promise.
    pub fn report(&self, invariant: &'static str, what: impl Into<String>) {
        let violation = Violation::new(invariant, what);
        self.machine.note(&format!("VIOLATION {violation}"));
        self.audit.report(violation);
    }
}

fn base_row(key: u32) -> Written {
    Written { op: BASE_OPS + u64::from(key), part: 0 }
}
