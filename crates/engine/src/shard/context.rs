//! What stays the same for the life of an open shard.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use headwater_format::coord::{Epoch, ShardId};
use headwater_format::key::KeySchema;
use headwater_format::shard_manifest::ShardManifest;
use headwater_store::Store;
use headwater_store::env::EnvRef;
use headwater_store::register::Register;

use arrow_schema::SchemaRef;

use crate::budget::MemoryBudget;
use crate::index::MemIndexFactory;
use crate::ingest::Ingest;
use crate::plants::Plants;
use crate::settings::ShardSettings;
use crate::shard::tokens::Clocks;
use crate::table::TableIo;

/// The components a shard is built from. Settings are apart: they are plain data.
#[derive(Clone, Debug)]
pub struct ShardParts {
    /// Storage below the table root.
    pub store: Store,
    /// The table behind the shard.
    pub table: Arc<dyn TableIo>,
    /// Clock, tasks, chance.
    pub env: EnvRef,
    /// Memory of all shards of the process.
    pub budget: Arc<MemoryBudget>,
    /// Search indexes each memtable carries besides its key index.
    pub indexes: Vec<Arc<dyn MemIndexFactory>>,
    /// A planted fault, for tests of the tests.
    pub plants: Plants,
}

/// A claimed shard's constants.
#[derive(Debug)]
pub(super) struct Context {
    pub shard: ShardId,
    pub epoch: Epoch,
    pub parts: ShardParts,
    pub register: Register<ShardManifest>,
    pub settings: ShardSettings,
    pub ingest: Ingest,
    pub schema: SchemaRef,
    pub key: Option<KeySchema>,
}

impl Context {
    pub fn env(&self) -> &EnvRef {
        &self.parts.env
    }

    pub fn now(&self) -> Duration {
        self.parts.env.now()
    }

    pub fn clocks(&self) -> Clocks {
        let since_epoch = self.parts.env.wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clocks { now: self.now(), wall_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX) }
    }
}
