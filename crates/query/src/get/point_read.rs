//! How a get goes through the sources.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::FutureExt;
use futures::future::{try_join, try_join_all};
use headwater_engine::ingest::batch_keys;
use headwater_engine::memtable::BatchKeys;
use headwater_format::coord::RowOffset;
use headwater_format::key::KeySchema;
use headwater_format::shard_manifest::SsTable;
use headwater_lance::SsTableFiles;

use super::found::Found;
use super::request::{GetRequest, in_key_types, keys_error};
use super::sources::{InSsTable, by_sidecar, from_base, from_memtable};
use crate::error::QueryError;
use crate::snapshot::{ReadSnapshot, ShardSources};

/// The keys of one get.
struct Wanted<'a> {
    key: &'a KeySchema,
    /// In the types of the table.
    columns: RecordBatch,
    keys: BatchKeys,
}

impl ReadSnapshot {
    /// The live rows of `request.keys`, in the order of the keys. A key without a row gives none, a key asked
    /// for twice gives its row twice, and a key that the base has in several rows gives all of them.
    ///
    /// # Errors
    /// [`QueryError::Keys`] when the table has no key, or the columns are not those of its key;
    /// [`QueryError::Column`]; otherwise as [`ReadSnapshot::scan`].
    pub async fn get(&self, request: &GetRequest) -> Result<RecordBatch, QueryError> {
        // Boxed, as the masks of a snapshot are: deep types.
        match self.look_up(request).boxed().await {
            Ok(rows) => Ok(rows),
            Err(error) => Err(self.explained(error).await),
        }
    }

    async fn look_up(&self, request: &GetRequest) -> Result<RecordBatch, QueryError> {
        let output = self.output(request.columns.as_deref())?;
        let Some(key) = &self.base().key else {
            let reason = "the table has no key: its rows are found by a filter only".to_owned();
            return Err(QueryError::Keys { reason });
        };
        let columns = in_key_types(key, &request.keys)?;
        let keys = batch_keys(key, &columns).map_err(|error| keys_error(&error))?;
        let wanted = Wanted { key, columns, keys };
        let mut open: Vec<usize> = (0..wanted.columns.num_rows()).collect();
        let (mut found, mut in_sstables) = (Found::default(), Vec::new());
        for shard in self.shards() {
            let (id, at) = (shard.snapshot.shard(), shard.snapshot.seq());
            for view in shard.views(self.base().mem_wal.compacted(id))?.iter().rev() {
                let rows = from_memtable(view, &wanted.keys, &mut open, at, &output);
                found.add(rows.map_err(|error| QueryError::shard(id, error))?);
            }
            if !open.is_empty() {
                in_sstables.extend(self.in_sstables(shard, &wanted, &mut open).await?);
            }
            if open.is_empty() {
                break;
            }
        }
        let in_base = async {
            if open.is_empty() || self.base().dataset.fragments().is_empty() {
                return Ok(None);
            }
            let lookup = self.cache().lookup(self.table(), self.base(), key).await?;
            from_base(&lookup, &wanted.columns, &wanted.keys, &open, &output).await
        };
        let in_sstables = try_join_all(in_sstables.into_iter().map(|rows| rows.read(&output)));
        let (in_sstables, in_base) = try_join(in_sstables, in_base).await?;
        in_sstables.into_iter().chain([in_base]).for_each(|rows| found.add(rows));
        found.finish(&output)
    }

    /// Where the keys of `open` are in the SSTables of `shard`, newest first.
    async fn in_sstables(
        &self,
        shard: &ShardSources,
        wanted: &Wanted<'_>,
        open: &mut Vec<usize>,
    ) -> Result<Vec<InSsTable>, QueryError> {
        let mut rows = Vec::new();
        let files = shard.open(self.table()).await?;
        for (sstable, files) in shard.sstables.iter().zip(files).rev() {
            if open.is_empty() {
                break;
            }
            let newest = self.newest_in(shard, sstable, &files, wanted, open).await?;
            rows.extend(InSsTable::new(files, newest, open).await?);
        }
        Ok(rows)
    }

    async fn newest_in(
        &self,
        shard: &ShardSources,
        sstable: &SsTable,
        files: &Arc<SsTableFiles>,
        wanted: &Wanted<'_>,
        open: &[usize],
    ) -> Result<Vec<Option<RowOffset>>, QueryError> {
        let id = shard.snapshot.shard();
        match self.cache().sstable_keys_if_worth(id, &sstable.path, files, wanted.key).await? {
            Some(known) => Ok(open.iter().map(|row| known.newest(&wanted.keys, *row)).collect()),
            None => by_sidecar(files, &wanted.columns, open).await,
        }
    }
}
