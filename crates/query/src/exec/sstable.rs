//! The live rows of an SSTable that nothing newer hides.
//!
//! Where the filter names keys, they are looked up in the key sidecar and only their rows are read.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::{StreamExt, TryStreamExt, stream};
use headwater_engine::table::SsTableReader;
use headwater_format::coord::{Generation, RowOffset, ShardId};
use headwater_lance::SsTableFiles;
use roaring::RoaringBitmap;

use super::source::{Read, Rows, Source};
use crate::error::QueryError;
use crate::filter::Filter;

/// One SSTable.
#[derive(Debug)]
pub(crate) struct SsTableSource {
    shard: ShardId,
    generation: Generation,
    files: Arc<SsTableFiles>,
    hidden: Arc<RoaringBitmap>,
    /// Hidden rows, those it hides itself, and tombstones.
    gone: Arc<RoaringBitmap>,
}

impl SsTableSource {
    /// The live rows of `files` that are not in `hidden`. Reads which rows are tombstones, once per SSTable.
    ///
    /// # Errors
    /// [`QueryError::Table`]: what storage said.
    pub(crate) async fn new(
        shard: ShardId,
        generation: Generation,
        files: Arc<SsTableFiles>,
        hidden: Arc<RoaringBitmap>,
    ) -> Result<Self, QueryError> {
        let gone = &(files.replaced() | &*files.tombstones().await?) | &*hidden;
        Ok(Self { shard, generation, files, hidden, gone: Arc::new(gone) })
    }
}

impl Source for SsTableSource {
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, hidden) = (self.files.rows(), self.hidden.len());
        let (shard, generation) = (self.shard, self.generation);
        write!(f, "sstable, shard={shard}, generation={generation}, rows={rows}, hidden={hidden}")?;
        write!(f, ", live={}", self.live())
    }

    fn looks_up(&self) -> bool {
        true
    }

    fn live(&self) -> u64 {
        self.files.rows().saturating_sub(self.gone.len())
    }

    fn filters(&self, _: &Filter) -> bool {
        false
    }

    fn rows(&self, read: &Read) -> Result<Rows, QueryError> {
        let (files, columns) = (Arc::clone(&self.files), Arc::clone(&read.columns));
        let Some(keys) = read.filter.as_ref().and_then(|filter| filter.keys().cloned()) else {
            return Ok(files.stream(columns, Arc::clone(&self.hidden)).map_err(QueryError::from).boxed());
        };
        let gone = Arc::clone(&self.gone);
        Ok(stream::once(async move { found(&files, &keys, &gone, &columns).await }).boxed())
    }
}

/// The rows that have one of `keys` and are not `gone`.
async fn found(
    files: &SsTableFiles,
    keys: &RecordBatch,
    gone: &RoaringBitmap,
    columns: &SchemaRef,
) -> Result<RecordBatch, QueryError> {
    let found = files.find_keys(keys).await?.into_iter().flatten();
    let live: RoaringBitmap = found.map(RowOffset::get).filter(|offset| !gone.contains(*offset)).collect();
    if live.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::clone(columns)));
    }
    let offsets: Vec<RowOffset> = live.iter().map(RowOffset::new).collect();
    Ok(files.take(&offsets, columns).await?)
}
