//! What can be chosen when a table is opened.
//!
//! Owns: [`OpenOptions`]: settings (plain data) beside components (environment, indexes). Does not own: what
//! they mean to a shard (`headwater_engine::settings`).

use std::collections::BTreeSet;
use std::sync::Arc;

use headwater_engine::budget::MemoryBudget;
use headwater_engine::index::MemIndexFactory;
use headwater_engine::plants::Plants;
use headwater_engine::settings::ShardSettings;
use headwater_lance::{Connection, TableOptions};
use headwater_store::env::{EnvRef, TokioEnv};

/// Bytes all shards of a table may keep in memory together, by default: 1 GiB.
pub const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;

/// What can be chosen when a table is opened. All shards of the table get the same.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// When to freeze, how large WAL entries get, how long to wait: see [`ShardSettings`].
    pub settings: ShardSettings,
    /// Dotted names of the settings that were chosen on purpose ([`crate::settings::SettingsText::given`]). A
    /// table may record settings for its writers; those fill in all others.
    pub given: BTreeSet<String>,
    /// How to reach the table's files: credentials and fsync. Its `retry` is taken from `settings.retry`.
    pub table: TableOptions,
    /// Caches and object-store clients, shared by tables opened with clones of one connection.
    pub connection: Connection,
    /// The memory budget. One budget may be shared by the tables of a process; by default each table has one
    /// of [`DEFAULT_MEMORY_BYTES`].
    pub memory: Option<Arc<MemoryBudget>>,
    /// Clock, tasks and chance; Tokio's by default.
    pub env: Option<EnvRef>,
    /// Search indexes each memtable carries besides its key index.
    pub indexes: Vec<Arc<dyn MemIndexFactory>>,
    /// Known faults, planted by tests; none.
    pub plants: Plants,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            settings: ShardSettings::default(),
            given: BTreeSet::new(),
            table: TableOptions::default(),
            connection: Connection::default(),
            memory: None,
            env: None,
            indexes: Vec::new(),
            plants: Plants::None,
        }
    }
}

impl OpenOptions {
    /// These shard settings, else the defaults.
    pub fn with_settings(settings: ShardSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    pub(crate) fn env(&self) -> EnvRef {
        self.env.clone().unwrap_or_else(|| Arc::new(TokioEnv::new()))
    }

    pub(crate) fn memory(&self) -> Arc<MemoryBudget> {
        self.memory.clone().unwrap_or_else(|| MemoryBudget::new(DEFAULT_MEMORY_BYTES))
    }
}
