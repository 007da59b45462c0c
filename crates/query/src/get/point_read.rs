//! How a get goes through the sources.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::FutureExt;
use futures::future::{try_join, try_join_all};
use headwater_engine::ingest::batch_keys;
use headwater_engine::memtable::BatchKeys;
use headwater_format::coord::RowOffset;
use headwater_format::key::KeySchema;
use headwater_format::shard_manifest::SsTable;
use headwater_lance::{SsTableFiles, retype_row};

use super::found::Found;
use super::request::{GetRequest, in_key_types, keys_error};
use super::sources::{InSsTable, by_sidecar, from_base, from_memtable, retype_failed};
use crate::error::QueryError;
use crate::snapshot::{ReadSnapshot, ShardSources};

/// The keys of one get.
struct Wanted<'a> {
    key: &'a KeySchema,
    /// In the types of the table.
    columns: Cow<'a, RecordBatch>,
    keys: BatchKeys,
    /// Columns to return.
    output: SchemaRef,
}

impl ReadSnapshot {
    /// The live rows of `request.keys`, in the order of the keys. A key without a row gives none, a key asked
    /// for twice gives its row twice, and a key that the base has in several rows gives all of them.
    ///
    /// # Errors
    /// [`QueryError::Keys`] when the table has no key, or the columns are not those of its key;
    /// [`QueryError::Column`]; otherwise as [`ReadSnapshot::scan`].
    pub async fn get(&self, request: &GetRequest) -> Result<RecordBatch, QueryError> {
        let wanted = self.wanted(request)?;
        if wanted.keys.len() == 1
            && let Some(found) = self.one_in_memory(&wanted)?
        {
            return Ok(found);
        }
        let (mut open, mut found) = ((0..wanted.columns.num_rows()).collect(), Found::default());
        // Memory first: a key is in one shard only, so nothing newer of it can be in a file of another.
        for shard in self.shards() {
            self.in_memtables(shard, &wanted, &mut open, &mut found)?;
        }
        if !open.is_empty() {
            // Boxed, as the masks of a snapshot are: deep types; and a get from memory need not carry them.
            match self.in_files(&wanted, open, &mut found).boxed().await {
                Ok(()) => {}
                Err(error) => return Err(self.explained(error).await),
            }
        }
        found.finish(&wanted.output)
    }

    fn wanted<'a>(&'a self, request: &'a GetRequest) -> Result<Wanted<'a>, QueryError> {
        let output = self.output(request.columns.as_deref())?;
        let Some(key) = &self.base().key else {
            let reason = "the table has no key: its rows are found by a filter only".to_owned();
            return Err(QueryError::Keys { reason });
        };
        let columns = in_key_types(key, &request.keys)?;
        let keys = batch_keys(key, &columns).map_err(|error| keys_error(&error))?;
        Ok(Wanted { key, columns, keys, output })
    }

    /// What memory has of a single key, handed out as it lies there: without the lists that many keys take.
    fn one_in_memory(&self, wanted: &Wanted<'_>) -> Result<Option<RecordBatch>, QueryError> {
        for shard in self.shards() {
            let (id, at) = (shard.snapshot.shard(), shard.snapshot.seq());
            for view in shard.views(self.base().mem_wal.compacted(id))?.iter().rev() {
                let Some(place) = view.find(&wanted.keys, 0, at).and_then(|offset| view.place(offset)) else {
                    continue;
                };
                if place.tombstone {
                    return Ok(Some(RecordBatch::new_empty(Arc::clone(&wanted.output))));
                }
                let row = retype_row(place.batch, place.row, &wanted.output);
                return row.map(Some).map_err(|error| QueryError::shard(id, retype_failed(&error)));
            }
        }
        Ok(None)
    }

    fn in_memtables(
        &self,
        shard: &ShardSources,
        wanted: &Wanted<'_>,
        open: &mut Vec<usize>,
        found: &mut Found,
    ) -> Result<(), QueryError> {
        let (id, at) = (shard.snapshot.shard(), shard.snapshot.seq());
        for view in shard.views(self.base().mem_wal.compacted(id))?.iter().rev() {
            if open.is_empty() {
                break;
            }
            let rows = from_memtable(view, &wanted.keys, open, at, &wanted.output);
            found.add(rows.map_err(|error| QueryError::shard(id, error))?);
        }
        Ok(())
    }

    /// What SSTables and base have of the keys of `open`.
    async fn in_files(
        &self,
        wanted: &Wanted<'_>,
        mut open: Vec<usize>,
        found: &mut Found,
    ) -> Result<(), QueryError> {
        let (output, mut in_sstables) = (&wanted.output, Vec::new());
        for shard in self.shards() {
            if open.is_empty() {
                break;
            }
            in_sstables.extend(self.in_sstables(shard, wanted, &mut open).await?);
        }
        let in_base = async {
            if open.is_empty() || self.base().dataset.fragments().is_empty() {
                return Ok(None);
            }
            let lookup = self.cache().lookup(self.table(), self.base(), wanted.key).await?;
            from_base(&lookup, &wanted.columns, &wanted.keys, &open, output).await
        };
        let in_sstables = try_join_all(in_sstables.into_iter().map(|rows| rows.read(output)));
        let (in_sstables, in_base) = try_join(in_sstables, in_base).await?;
        in_sstables.into_iter().chain([in_base]).for_each(|rows| found.add(rows));
        Ok(())
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
