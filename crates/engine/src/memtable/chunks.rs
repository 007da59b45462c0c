//! The append log of rows: record batches in insert order, small ones merged.
//!
//! Owns: [`Chunks`]. Does not own: marks or keys, which go by row offset and so do not move when pieces
//! merge. Many one-row puts must not cost a record batch each (M1): pieces wait in a tail and merge sixteen
//! at a time into larger ones, so a row is copied about three times before it lies in a chunk of
//! [`SEAL_WEIGHT`]. Batches of [`WHOLE_WEIGHT`] or more stay as they came, without a copy. Clones share
//! everything and stay as they are.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat::concat_batches;

use crate::ingest::compact;

/// A piece at least this heavy is kept as it came.
const WHOLE_WEIGHT: u64 = 64 << 10;
/// A tail at least this heavy becomes one chunk.
const SEAL_WEIGHT: u64 = 256 << 10;
/// Pieces of one level that are merged into one of the next.
const FAN_IN: usize = 16;
/// Pieces below these weights are of level 0, 1; all others of level 2, which merge only into a sealed chunk.
const LEVEL_WEIGHTS: [u64; 2] = [2 << 10, 24 << 10];
/// What a row weighs beside its payload.
const ROW_WEIGHT: u64 = 16;

// A whole batch is heavier than any piece that merges, and a seal takes several pieces.
const _: () = assert!(LEVEL_WEIGHTS[0] < LEVEL_WEIGHTS[1] && LEVEL_WEIGHTS[1] < WHOLE_WEIGHT);
const _: () = assert!(WHOLE_WEIGHT < SEAL_WEIGHT);

/// Consecutive rows of a memtable.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Offset of the first row.
    pub(crate) first: u32,
    /// The rows, in the storage schema.
    pub(crate) batch: RecordBatch,
    /// How many of them are tombstones.
    pub(crate) tombstones: usize,
    weight: u64,
    level: usize,
    bytes: u64,
}

impl Chunk {
    fn new(first: u32, batch: RecordBatch, buffers: u64, weight: u64, level: usize) -> Arc<Self> {
        let tombstones = tombstone_column(&batch).map_or(0, BooleanArray::true_count);
        let bytes = buffers + compact::overhead_bytes(&batch) + size_of::<Self>() as u64;
        Arc::new(Self { first, batch, tombstones, weight, level, bytes })
    }

    /// The `_tombstone` column: the last one of the storage schema.
    pub(crate) fn tombstone_column(&self) -> Option<&BooleanArray> {
        tombstone_column(&self.batch)
    }
}

fn tombstone_column(batch: &RecordBatch) -> Option<&BooleanArray> {
    batch.columns().last()?.as_any().downcast_ref()
}

/// All rows of a memtable, in insert order.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    schema: SchemaRef,
    /// Finished chunks.
    sealed: Arc<Vec<Arc<Chunk>>>,
    /// Pieces after them that may still merge.
    tail: Arc<Vec<Arc<Chunk>>>,
    rows: u32,
    bytes: u64,
    /// Whether merged columns may still hold on to the buffers of their parts.
    has_views: bool,
}

impl Chunks {
    /// No rows.
    pub(crate) fn new(schema: SchemaRef) -> Self {
        let has_views = schema.fields().iter().any(|field| compact::holds_views(field.data_type()));
        Self { schema, sealed: Arc::default(), tail: Arc::default(), rows: 0, bytes: 0, has_views }
    }

    /// How many rows.
    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// Resident bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let lists = (self.sealed.capacity() + self.tail.capacity()) * size_of::<Arc<Chunk>>();
        self.bytes + lists as u64
    }

    /// All chunks in insert order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.sealed.iter().chain(self.tail.iter())
    }

    /// The chunk that has the row at `offset`.
    pub(crate) fn holding(&self, offset: u32) -> Option<&Arc<Chunk>> {
        let of =
            |chunks: &'_ [Arc<Chunk>]| chunks.partition_point(|chunk| chunk.first <= offset).checked_sub(1);
        let found = match of(&self.tail) {
            Some(place) => self.tail.get(place),
            None => self.sealed.get(of(&self.sealed)?),
        };
        found.filter(|chunk| ((offset - chunk.first) as usize) < chunk.batch.num_rows())
    }

    /// Adds rows, which are in the storage schema and not empty. `payload` is their logical size in bytes,
    /// `buffers` that of the buffers they hold on to.
    pub(crate) fn push(&mut self, batch: RecordBatch, payload: u64, buffers: u64) {
        let rows = batch.num_rows();
        let weight = payload + rows as u64 * ROW_WEIGHT;
        let chunk = Chunk::new(self.rows, batch, buffers, weight, level_of(weight));
        self.rows = self.rows.saturating_add(u32::try_from(rows).unwrap_or(u32::MAX));
        self.bytes += chunk.bytes;
        if weight >= WHOLE_WEIGHT {
            self.seal_tail();
            Arc::make_mut(&mut self.sealed).push(chunk);
            return;
        }
        let tail = Arc::make_mut(&mut self.tail);
        tail.push(chunk);
        if tail.iter().map(|piece| piece.weight).sum::<u64>() >= SEAL_WEIGHT {
            self.seal_tail();
        } else {
            self.merge_levels();
        }
    }

    /// Makes one finished chunk of the tail.
    fn seal_tail(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        self.merge_from(0, LEVEL_WEIGHTS.len());
        let tail = Arc::make_mut(&mut self.tail);
        Arc::make_mut(&mut self.sealed).append(tail);
    }

    /// Merges the end of the tail as long as it ends in sixteen neighbours of one level, or of that level and
    /// pieces below it that were left between them.
    fn merge_levels(&mut self) {
        for level in 0..LEVEL_WEIGHTS.len() {
            let ends_in_it = self.tail.last().is_some_and(|piece| piece.level == level);
            let trailing = self.tail.iter().rev().take_while(|piece| piece.level <= level).count();
            if ends_in_it && trailing >= FAN_IN {
                self.merge_from(self.tail.len() - trailing, level + 1);
            }
        }
    }

    /// Merges the pieces of the tail from `start` on into one of at least `level`. When Arrow refuses (more
    /// dictionary values than its key type can count), they are finished as they are: the rows stay the same.
    fn merge_from(&mut self, start: usize, level: usize) {
        let Some(pieces) = self.tail.get(start..).filter(|pieces| pieces.len() > 1) else { return };
        match self.merged(pieces, level) {
            Ok(merged) => {
                let before: u64 = pieces.iter().map(|piece| piece.bytes).sum();
                self.bytes = self.bytes.saturating_sub(before) + merged.bytes;
                let tail = Arc::make_mut(&mut self.tail);
                tail.truncate(start);
                tail.push(merged);
            }
            Err(error) => {
                tracing::debug!(%error, pieces = pieces.len(), "pieces of a memtable stay unmerged");
                let tail = Arc::make_mut(&mut self.tail);
                Arc::make_mut(&mut self.sealed).append(tail);
            }
        }
    }

    fn merged(&self, pieces: &[Arc<Chunk>], level: usize) -> Result<Arc<Chunk>, ArrowError> {
        let mut batch = concat_batches(&self.schema, pieces.iter().map(|piece| &piece.batch))?;
        if self.has_views {
            batch = compact::without_shared_views(&batch)?;
        }
        let first = pieces.first().map_or(0, |piece| piece.first);
        let weight = pieces.iter().map(|piece| piece.weight).sum();
        let buffers = compact::own_bytes(&batch);
        Ok(Chunk::new(first, batch, buffers, weight, level.max(level_of(weight))))
    }
}

fn level_of(weight: u64) -> usize {
    LEVEL_WEIGHTS.iter().take_while(|limit| weight >= **limit).count()
}
