//! One consistent view per shard of a table.
//!
//! Owns: [`TableSnapshot`]. Does not own: what a shard snapshot pins (`engine::snapshot`), reading SSTables
//! and the base. There is no atomicity across shards: each shard's view is of its own sequence number (P6).

use arrow_array::RecordBatch;
use headwater_engine::snapshot::{ReadLevel, ShardSnapshot};
use headwater_format::coord::ShardId;

use crate::error::Error;

/// One consistent view per shard of a table: of the shards this process writes.
#[derive(Debug)]
pub struct TableSnapshot {
    pub(crate) table: String,
    pub(crate) level: ReadLevel,
    pub(crate) shards: Vec<(ShardId, ShardSnapshot)>,
}

impl TableSnapshot {
    /// The shards it covers, by id.
    pub fn shards(&self) -> &[(ShardId, ShardSnapshot)] {
        &self.shards
    }

    /// Whether undurable rows are read too.
    pub fn level(&self) -> ReadLevel {
        self.level
    }

    /// The live rows that are still in memory: of each key the newest, deleted ones left out, in the table's
    /// own schema; one shard after the other. Rows in SSTables and in the base are not among them.
    ///
    /// # Errors
    /// [`Error::Shard`] naming the shard whose rows could not be read.
    pub fn live_rows(&self) -> Result<Vec<RecordBatch>, Error> {
        let mut rows = Vec::new();
        for (id, snapshot) in &self.shards {
            let part = snapshot.live_rows().map_err(|error| Error::shard(&self.table, *id, error))?;
            rows.extend(part);
        }
        Ok(rows)
    }
}
