//! The write tier of a table as a whole: what storage says of it now, and taking it away.
//!
//! Owns: [`TierState`], [`Table::tier`], [`Table::check_folded`], [`Table::disable`]. Does not own: what is
//! in a shard, or how it is sealed (`headwater-lance`).

use headwater_engine::table::TableError;
use headwater_lance::{MemWal, ShardInfo};

use crate::error::Error;
use crate::table::Table;

/// The write tier as it is on storage.
#[derive(Debug)]
pub struct TierState {
    /// What the newest version of the base records: sharding, progress of compaction.
    pub mem_wal: MemWal,
    /// Every shard there is, by id, written here or elsewhere.
    pub shards: Vec<ShardInfo>,
}

impl Table {
    /// What storage says of the write tier now. Claims nothing. Lists the shards, and reads the newest
    /// manifest of each.
    ///
    /// # Errors
    /// [`Error::Table`] when the table has no write tier any more, or with what storage said.
    pub async fn tier(&self) -> Result<TierState, Error> {
        let lance = &self.shards.common().lance;
        let failed = |error| Error::table(self.uri(), error);
        let Some(mem_wal) = lance.mem_wal().await.map_err(failed)? else {
            return Err(failed(TableError::invalid("the table has no write tier any more: open it again")));
        };
        Ok(TierState { mem_wal, shards: lance.shards().await.map_err(failed)? })
    }

    /// Refuses when a shard holds rows that are not in the base, whoever wrote them. Claims every shard, so
    /// that what was acknowledged is known.
    ///
    /// # Errors
    /// [`Error::Table`] naming the shards and how many rows they hold; otherwise what storage said.
    pub async fn check_folded(&self) -> Result<(), Error> {
        self.open_shards().await?;
        let checked = self.shards.common().lance.check_folded().await;
        checked.map_err(|error| Error::table(self.uri(), error))
    }

    /// Takes the write tier away: what is left is an ordinary Lance table. Possible only while no shard holds
    /// a row that is not in the base: ask [`Table::check_folded`] first. Claims every shard, so that no other
    /// writer adds one, then closes the table, whatever comes of it.
    ///
    /// # Errors [`Error::Table`] naming shards with such rows, or one that another process writes; otherwise
    /// what storage said. Doing it again goes on where it stopped.
    pub async fn disable(&self) -> Result<(), Error> {
        self.open_shards().await?;
        let claimed = self.shards.open_now().into_iter().map(|(id, shard)| (id, shard.epoch())).collect();
        self.close().await?;
        let disabled = self.shards.common().lance.disable_mem_wal(&claimed).await;
        disabled.map_err(|error| Error::table(self.uri(), error))
    }
}
