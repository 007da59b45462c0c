//! The live rows of a memtable at S.
//!
//! Where the filter names keys, they are looked up in the key index.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::{StreamExt, stream};
use headwater_engine::hold::Violation;
use headwater_engine::ingest::batch_keys;
use headwater_engine::memtable::MemtableView;
use headwater_format::coord::{RowOffset, Seq, ShardId};
use headwater_format::key::KeySchema;
use headwater_lance::retype_batch;

use super::source::{Read, Rows, Source};
use crate::error::QueryError;
use crate::filter::Filter;

/// One memtable.
#[derive(Debug)]
pub(crate) struct MemtableSource {
    shard: ShardId,
    view: MemtableView,
    at: Seq,
    key: Option<KeySchema>,
    live: u64,
}

impl MemtableSource {
    /// The rows of `view` that are live at `at`.
    pub(crate) fn new(shard: ShardId, view: MemtableView, at: Seq, key: Option<KeySchema>) -> Self {
        let live = view.live_rows(at);
        Self { shard, view, at, key, live }
    }

    /// The live rows that have one of the keys the filter names; none when it names none.
    fn found(&self, filter: &Filter) -> Result<Option<RecordBatch>, QueryError> {
        let (Some(keys), Some(key)) = (filter.keys(), &self.key) else { return Ok(None) };
        let wanted = batch_keys(key, keys).map_err(QueryError::execution)?;
        let found = (0..keys.num_rows()).filter_map(|row| self.view.find(&wanted, row, self.at));
        // Newer memtables may have replaced what is the newest row here.
        let live = |offset: &RowOffset| {
            self.view.superseded_by(*offset) >= self.at && !self.view.is_tombstone(*offset)
        };
        let offsets: BTreeSet<RowOffset> = found.filter(live).collect();
        let offsets: Vec<RowOffset> = offsets.into_iter().collect();
        let rows = self.view.take(&offsets);
        rows.map(Some).map_err(|violation| QueryError::shard(self.shard, violation))
    }
}

impl Source for MemtableSource {
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shard, generation) = (self.shard, self.view.generation());
        let (rows, live) = (self.view.rows_at(self.at), self.live);
        write!(f, "memtable, shard={shard}, generation={generation}, rows={rows}, live={live}")
    }

    fn looks_up(&self) -> bool {
        true
    }

    fn live(&self) -> u64 {
        self.live
    }

    fn filters(&self, _: &Filter) -> bool {
        false
    }

    fn rows(&self, read: &Read) -> Result<Rows, QueryError> {
        let (shard, columns) = (self.shard, Arc::clone(&read.columns));
        let retyped = move |batch: Result<RecordBatch, Violation>| {
            let batch = batch.map_err(|violation| QueryError::shard(shard, violation))?;
            retype_batch(&batch, &columns).map_err(QueryError::execution)
        };
        let found = match &read.filter {
            Some(filter) => self.found(filter)?,
            None => None,
        };
        Ok(match found {
            Some(rows) => stream::iter([Ok(rows)]).map(retyped).boxed(),
            None => stream::iter(self.view.live_batches(self.at)).map(retyped).boxed(),
        })
    }
}
