//! One attempt to flush one generation: write the files, warm them, publish. Run as a task by the conductor.

use std::sync::Arc;

use headwater_format::coord::{Epoch, ShardId, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::{ShardManifest, SsTable, TokenFloor};
use headwater_store::env::EnvRef;
use headwater_store::register::Register;

use crate::error::ShardError;
use crate::hold::hold;
use crate::manifest::{Publish, Published};
use crate::memtable::FrozenMemtable;
use crate::plants::Plants;
use crate::table::TableIo;

/// Everything one attempt needs.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The shard.
    pub shard: ShardId,
    /// This writer's epoch.
    pub epoch: Epoch,
    /// Writes the files.
    pub table: Arc<dyn TableIo>,
    /// Names them.
    pub register: Register<ShardManifest>,
    /// Draws names.
    pub env: EnvRef,
    /// The memtable.
    pub frozen: FrozenMemtable,
    /// Position of the last WAL entry with rows of it.
    pub last_position: WalPosition,
    /// Which entries up to there tell of client tokens that are alive.
    pub token_floor: Option<TokenFloor>,
    /// The SSTable an earlier attempt wrote but may not have published: it is published, not written again.
    pub written: Option<SsTable>,
    /// The newest manifest this writer knows.
    pub manifest: Arc<ShardManifest>,
    /// A planted fault.
    pub plants: Plants,
}

/// A failed attempt.
#[derive(Debug)]
pub struct AttemptFailed {
    /// Why.
    pub error: ShardError,
    /// The SSTable that is complete on storage, when only its publication failed.
    pub written: Option<SsTable>,
}

impl Attempt {
    /// Writes (unless an earlier attempt did), warms and publishes.
    ///
    /// # Errors
    /// What failed, with the SSTable already written when there is one. What a
    /// failed write left has a name that no manifest will have.
    pub async fn run(mut self) -> Result<Published, AttemptFailed> {
        let sstable = match self.written.take() {
            Some(sstable) => sstable,
            None => self.write().await.map_err(|error| AttemptFailed { error, written: None })?,
        };
        let publish = Publish {
            sstable: sstable.clone(),
            last_position: self.last_position,
            token_floor: self.token_floor,
            epoch: self.epoch,
            in_order: !self.plants.has(Plants::FlushErrorDropped),
        };
        let known = Arc::clone(&self.manifest);
        let published = publish.run(&self.register, known, || self.env.uuid()).await;
        published.map_err(|error| AttemptFailed { error, written: Some(sstable) })
    }

    async fn write(&self) -> Result<SsTable, ShardError> {
        let generation = self.frozen.generation();
        #[expect(clippy::cast_possible_truncation, reason = "any 32 random bits will do")]
        let name = path::sstable_name(self.env.random() as u32, generation);
        let written = self.table.write_sstable(self.shard, &name, &self.frozen).await?;
        hold!(
            P9,
            written.physical_rows == self.frozen.rows(),
            "SSTable {name} has {} of {} rows",
            written.physical_rows,
            self.frozen.rows()
        );
        let sstable = SsTable {
            generation,
            path: name,
            in_memory_bytes: Some(self.frozen.payload_bytes()),
            physical_rows: Some(written.physical_rows),
            primary_key_bytes: self.frozen.key_bytes(),
        };
        if let Err(error) = self.table.warm(self.shard, &sstable).await {
            tracing::warn!(shard = %self.shard, sstable = sstable.path, %error, "warming failed");
        }
        Ok(sstable)
    }
}
