//! A view: the rows of a memtable as they were when it was taken, readable at every S up to then.
//!
//! Owns: [`MemtableView`]. Does not own: rows of other generations; the snapshot puts views together. A view
//! is a few `Arc`s; it stays right while the writer appends, replaces, merges and freezes (P6). Newest-wins
//! was decided when rows arrived (P4), so no key is compared here, and filters run after it (lance#6929).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave_record_batch;
use headwater_format::coord::{Generation, RowOffset, Seq};
use parking_lot::RwLock;

use super::chunks::{Chunk, Chunks};
use super::keys::BatchKeys;
use super::lookup::Lookup;
use super::marks::Marks;
use super::shared::Shared;
use crate::hold::Violation;
use crate::ingest::{InvalidInput, batch_keys};

/// Rows of one memtable, fixed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MemtableView {
    pub(super) shared: Arc<Shared>,
    pub(super) chunks: Chunks,
    pub(super) marks: Marks,
    pub(super) lookup: Arc<RwLock<Lookup>>,
}

/// Where a row of a view is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Rows in the storage schema, this one among them.
    pub batch: &'a RecordBatch,
    /// Which of them it is.
    pub row: usize,
    /// Whether it is a delete.
    pub tombstone: bool,
}

impl MemtableView {
    /// The memtable's generation.
    pub fn generation(&self) -> Generation {
        self.shared.generation
    }

    /// The storage schema: `_tombstone` last.
    pub fn schema(&self) -> &SchemaRef {
        &self.shared.schema
    }

    /// The schema of [`live`](Self::live): without `_tombstone`.
    pub fn logical_schema(&self) -> &SchemaRef {
        &self.shared.logical
    }

    /// Bytes its memtable is charged for: they stay in memory as long as a view does (B2).
    pub fn charged_bytes(&self) -> u64 {
        self.shared.charge.bytes()
    }

    /// Rows in the view, replaced ones included.
    pub fn rows(&self) -> u64 {
        u64::from(self.chunks.rows())
    }

    /// Seq of the first row.
    pub fn first_seq(&self) -> Seq {
        self.shared.first_seq
    }

    /// Seq after the last row.
    pub fn end_seq(&self) -> Seq {
        self.shared.seq(self.chunks.rows())
    }

    /// How many rows of the view were there at `at` (exclusive): those with a smaller Seq.
    pub fn rows_at(&self, at: Seq) -> u64 {
        at.get().saturating_sub(self.shared.first_seq.get()).min(self.rows())
    }

    /// All rows in insert order, replaced ones included, in the storage schema.
    pub fn batches(&self) -> Vec<RecordBatch> {
        self.chunks.iter().map(|chunk| chunk.batch.clone()).collect()
    }

    /// The newest row of each key at `at`, tombstones included, in insert order, in the storage schema.
    /// Without a key: every row. Rows nobody replaced are handed out without a copy.
    ///
    /// # Errors
    /// [`Violation`] when Arrow refuses to select rows, which it never should.
    pub fn visible(&self, at: Seq) -> Result<Vec<RecordBatch>, Violation> {
        let end = self.rows_at(at);
        let mut batches = Vec::new();
        for chunk in self.chunks.iter() {
            let rows = rows_within(chunk, end);
            let kept = self.marks.unreplaced(chunk.first, rows, at);
            let batch = take_rows(&chunk.batch, rows, kept).map_err(|error| self.refused(chunk, &error))?;
            if batch.num_rows() > 0 {
                batches.push(batch);
            }
        }
        Ok(batches)
    }

    /// As [`visible`](Self::visible) without tombstones, in the logical schema.
    ///
    /// # Errors
    /// [`Violation`] when Arrow refuses to select rows, which it never should.
    pub fn live(&self, at: Seq) -> Result<Vec<RecordBatch>, Violation> {
        self.live_batches(at).collect()
    }

    /// [`live`](Self::live), a batch at a time: rows are selected when they are asked for.
    pub fn live_batches(&self, at: Seq) -> impl Iterator<Item = Result<RecordBatch, Violation>> + use<> {
        let (view, end) = (self.clone(), self.rows_at(at));
        let chunks: Vec<Arc<Chunk>> = self.chunks.iter().cloned().collect();
        let parts = chunks.into_iter().map(move |chunk| {
            let rows = rows_within(&chunk, end);
            view.live_part(&chunk, rows, at).map_err(|error| view.refused(&chunk, &error))
        });
        parts.filter(|part| part.as_ref().map_or(true, |batch| batch.num_rows() > 0))
    }

    /// The live ones of the first `rows` rows of `chunk`.
    fn live_part(&self, chunk: &Chunk, rows: usize, at: Seq) -> Result<RecordBatch, ArrowError> {
        let logical = &self.shared.logical;
        let kept = without_tombstones(chunk, rows, self.marks.unreplaced(chunk.first, rows, at));
        let batch = take_rows(&chunk.batch, rows, kept)?;
        let columns = batch.columns().iter().take(logical.fields().len()).cloned().collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(logical), columns, &options)
    }

    /// Seq of the first later row with the key of the row at `offset`, in this memtable or a newer one;
    /// `Seq::MAX` when there is none. May change from `Seq::MAX` to a Seq not below the view's end.
    pub fn superseded_by(&self, offset: RowOffset) -> Seq {
        self.marks.superseded_by(offset.get())
    }

    /// The row of this memtable which the row at `offset` replaced.
    pub fn predecessor(&self, offset: RowOffset) -> Option<RowOffset> {
        self.marks.predecessor(offset.get())
    }

    /// How many rows [`live`](Self::live) would return.
    pub fn live_rows(&self, at: Seq) -> u64 {
        let chunks = self.chunks.iter().map(|chunk| {
            let rows = rows_within(chunk, self.rows_at(at));
            let kept = without_tombstones(chunk, rows, self.marks.unreplaced(chunk.first, rows, at));
            kept.map_or(rows, |kept| kept.count_set_bits()) as u64
        });
        chunks.sum()
    }

    /// The newest row at `at` with the key that `keys` has at `row`; a tombstone is a row. Exact.
    pub fn find(&self, keys: &BatchKeys, row: usize, at: Seq) -> Option<RowOffset> {
        self.lookup.read().newest_below(keys, row, self.rows_at(at))
    }

    /// Leaves out of `rows` of `keys` those whose key the memtable has, in or after the view.
    pub(crate) fn leave_out_known(&self, keys: &BatchKeys, rows: &mut Vec<usize>) {
        let lookup = self.lookup.read();
        rows.retain(|row| lookup.newest(keys, *row).is_none());
    }

    /// Where the row at `offset` is; none when it is not in the view.
    pub fn place(&self, offset: RowOffset) -> Option<Place<'_>> {
        let chunk = self.chunks.holding(offset.get())?;
        let row = (offset.get() - chunk.first) as usize;
        let deletes = || chunk.tombstone_column().is_some_and(|marks| marks.value(row));
        Some(Place { batch: &chunk.batch, row, tombstone: chunk.tombstones > 0 && deletes() })
    }

    /// Whether the row at `offset` is a delete.
    pub fn is_tombstone(&self, offset: RowOffset) -> bool {
        self.place(offset).is_some_and(|place| place.tombstone)
    }

    /// The rows at `offsets`, in that order, in the storage schema. A single row is not copied.
    ///
    /// # Errors
    /// [`Violation`] for an offset that is not in the view.
    pub fn take(&self, offsets: &[RowOffset]) -> Result<RecordBatch, Violation> {
        let beyond = |offset: &RowOffset| {
            Violation::new("P13", format!("row {offset} is not in generation {}", self.generation()))
        };
        if let [offset] = offsets {
            let place = self.place(*offset).ok_or_else(|| beyond(offset))?;
            return Ok(place.batch.slice(place.row, 1));
        }
        let (mut batches, mut numbers, mut places) = (Vec::new(), BTreeMap::new(), Vec::new());
        for offset in offsets {
            let chunk = self.chunks.holding(offset.get()).ok_or_else(|| beyond(offset))?;
            let number = *numbers.entry(chunk.first).or_insert_with(|| {
                batches.push(&chunk.batch);
                batches.len() - 1
            });
            places.push((number, (offset.get() - chunk.first) as usize));
        }
        if places.is_empty() {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.shared.schema)));
        }
        interleave_record_batch(&batches, &places)
            .map_err(|error| Violation::new("P13", format!("generation {}: {error}", self.generation())))
    }

    /// The keys of the rows with Seqs in `range`, batch by batch, each with the Seq of its first row. None on
    /// a table without a key.
    ///
    /// # Errors
    /// [`InvalidInput`] for rows without a usable key, which ingest never lets in.
    pub fn keys(&self, range: Range<Seq>) -> Result<Vec<(Seq, BatchKeys)>, InvalidInput> {
        let Some(key) = &self.shared.key else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for chunk in self.chunks.iter() {
            let first = self.shared.seq(chunk.first);
            let end = first.plus(chunk.batch.num_rows() as u64);
            let (from, to) = (first.max(range.start), end.min(range.end));
            if from >= to {
                continue;
            }
            let skip = from.get() - first.get();
            let rows = chunk.batch.slice(skip as usize, (to.get() - from.get()) as usize);
            found.push((from, batch_keys(key, &rows)?));
        }
        Ok(found)
    }

    fn refused(&self, chunk: &Chunk, error: &ArrowError) -> Violation {
        let generation = self.generation();
        Violation::new("P13", format!("generation {generation}, rows from {}: {error}", chunk.first))
    }
}

/// How many rows of `chunk` have an offset below `end`.
fn rows_within(chunk: &Chunk, end: u64) -> usize {
    let ahead = end.saturating_sub(u64::from(chunk.first));
    chunk.batch.num_rows().min(usize::try_from(ahead).unwrap_or(usize::MAX))
}

/// The first `rows` rows of `batch`, or those of them that are `kept`.
fn take_rows(
    batch: &RecordBatch,
    rows: usize,
    kept: Option<BooleanBuffer>,
) -> Result<RecordBatch, ArrowError> {
    let batch = if rows == batch.num_rows() { batch.clone() } else { batch.slice(0, rows) };
    match kept {
        None => Ok(batch),
        Some(kept) => filter_record_batch(&batch, &BooleanArray::new(kept, None)),
    }
}

/// `kept` (none = all) less the tombstones among the first `rows` rows of `chunk`.
fn without_tombstones(chunk: &Chunk, rows: usize, kept: Option<BooleanBuffer>) -> Option<BooleanBuffer> {
    let tombstones = chunk.tombstone_column().filter(|_| chunk.tombstones > 0);
    let Some(tombstones) = tombstones else { return kept };
    let alive = !&tombstones.values().slice(0, rows);
    Some(match kept {
        None => alive,
        Some(kept) => &kept & &alive,
    })
}
