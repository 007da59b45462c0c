//! Looking for keys in one source.
//!
//! Owns: what a memtable, an SSTable and the base answer to keys. Each takes the keys it has out of those
//! that are still open, tombstones included.

use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::take::take_record_batch;
use headwater_engine::hold::Violation;
use headwater_engine::ingest::batch_keys;
use headwater_engine::memtable::{BatchKeys, MemtableView};
use headwater_engine::table::SsTableReader;
use headwater_format::coord::{RowOffset, Seq};
use headwater_lance::{SsTableFiles, retype_batch};

use super::asked::Asked;
use super::request::keys_error;
use crate::base::BaseLookup;
use crate::error::QueryError;

/// Rows, and the place of the key each has; a row may be there for several keys.
pub(super) struct Rows {
    pub batch: RecordBatch,
    /// Key and row.
    pub places: Vec<(usize, usize)>,
}

impl Rows {
    fn one_each(batch: RecordBatch, keys: Vec<usize>) -> Self {
        Self { batch, places: keys.into_iter().zip(0..).collect() }
    }
}

/// The rows of a memtable.
pub(super) fn from_memtable(
    view: &MemtableView,
    wanted: &BatchKeys,
    open: &mut Vec<usize>,
    at: Seq,
    output: &SchemaRef,
) -> Result<Option<Rows>, Violation> {
    let (mut offsets, mut of) = (Vec::new(), Vec::new());
    open.retain(|row| {
        let Some(offset) = view.find(wanted, *row, at) else { return true };
        if !view.is_tombstone(offset) {
            offsets.push(offset);
            of.push(*row);
        }
        false
    });
    if offsets.is_empty() {
        return Ok(None);
    }
    let rows = retype_batch(&view.take(&offsets)?, output);
    Ok(Some(Rows::one_each(rows.map_err(|error| retype_failed(&error))?, of)))
}

/// Rows in memory are of other columns than the table.
pub(super) fn retype_failed(error: &ArrowError) -> Violation {
    Violation::new("P15", error.to_string())
}

/// Rows of an SSTable that are to be read.
pub(super) struct InSsTable {
    files: Arc<SsTableFiles>,
    offsets: Vec<RowOffset>,
    of: Vec<usize>,
}

impl InSsTable {
    /// Of the rows at `newest`, one answer for each of `open`; `None` when none is alive.
    pub(super) async fn new(
        files: Arc<SsTableFiles>,
        newest: Vec<Option<RowOffset>>,
        open: &mut Vec<usize>,
    ) -> Result<Option<Self>, QueryError> {
        if newest.iter().all(Option::is_none) {
            return Ok(None);
        }
        let tombstones = files.tombstones().await?;
        let (mut offsets, mut of, mut still) = (Vec::new(), Vec::new(), Vec::new());
        for (row, offset) in open.iter().zip(newest) {
            match offset {
                None => still.push(*row),
                Some(offset) if tombstones.contains(offset.get()) => {}
                Some(offset) => {
                    offsets.push(offset);
                    of.push(*row);
                }
            }
        }
        *open = still;
        Ok((!offsets.is_empty()).then_some(Self { files, offsets, of }))
    }

    /// Reads them.
    pub(super) async fn read(self, output: &SchemaRef) -> Result<Option<Rows>, QueryError> {
        Ok(Some(Rows::one_each(self.files.take(&self.offsets, output).await?, self.of)))
    }
}

/// The newest row of each key of `open`, by the bloom filter and the key sidecar.
pub(super) async fn by_sidecar(
    files: &SsTableFiles,
    keys: &RecordBatch,
    open: &[usize],
) -> Result<Vec<Option<RowOffset>>, QueryError> {
    let asked = at(keys, open.iter().map(|row| *row as u32))?;
    let may_have = files.may_have(&asked).await?;
    let mut newest = vec![None; open.len()];
    let places: Vec<usize> = match may_have {
        Some(may_have) => (0..open.len()).filter(|place| may_have.get(*place) == Some(&true)).collect(),
        None => (0..open.len()).collect(),
    };
    if places.is_empty() {
        return Ok(newest);
    }
    let found = files.find_keys(&at(&asked, places.iter().map(|place| *place as u32))?).await?;
    for (place, rows) in places.into_iter().zip(found) {
        if let Some(newest) = newest.get_mut(place) {
            *newest = rows.last().copied();
        }
    }
    Ok(newest)
}

/// The rows of the base: all that have one of the keys.
pub(super) async fn from_base(
    lookup: &BaseLookup,
    keys: &RecordBatch,
    wanted: &BatchKeys,
    open: &[usize],
    output: &SchemaRef,
) -> Result<Option<Rows>, QueryError> {
    let asked = Asked::new(wanted, open)?;
    let distinct = at(keys, asked.one_each())?;
    let distinct = batch_keys(&lookup.key, &distinct).map_err(|error| keys_error(&error))?;
    let is_asked = |keys: &BatchKeys, row: usize| !asked.places(keys, row).is_empty();
    let mut addresses = lookup.rows_of(&distinct, is_asked).await?;
    if lookup.key.single().is_none() && !addresses.is_empty() {
        // The index knows one column: other rows with its value are not read whole.
        let of = lookup.keys(&lookup.take(&addresses, &lookup.key_names()).await?)?;
        let mut row = 0..;
        addresses.retain(|_| row.next().is_some_and(|row| is_asked(&of, row)));
    }
    if addresses.is_empty() {
        return Ok(None);
    }
    let rows = lookup.take(&addresses, &read_columns(lookup, output)).await?;
    let of = lookup.keys(&rows)?;
    let places =
        (0..rows.num_rows()).flat_map(|row| asked.places(&of, row).iter().map(move |key| (*key, row)));
    let places = places.collect();
    Ok(Some(Rows { batch: retype_batch(&rows, output).map_err(QueryError::execution)?, places }))
}

/// Also what was not asked for, to tell which row has which key.
fn read_columns<'a>(lookup: &'a BaseLookup, output: &'a SchemaRef) -> Vec<&'a str> {
    let mut names: Vec<&str> = output.fields().iter().map(|field| field.name().as_str()).collect();
    for column in lookup.key_names() {
        if !names.contains(&column) {
            names.push(column);
        }
    }
    names
}

fn at(keys: &RecordBatch, rows: impl IntoIterator<Item = u32>) -> Result<RecordBatch, QueryError> {
    take_record_batch(keys, &rows.into_iter().collect::<UInt32Array>()).map_err(QueryError::execution)
}
