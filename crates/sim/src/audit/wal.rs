//! Reading and judging WAL entries.

use std::collections::BTreeMap;

use bytes::Bytes;
use headwater_format::coord::{Epoch, Generation, WalPosition};
use headwater_format::wal_entry::{WalBody, decode};

use crate::rows::{Row, Rows};
use crate::violation::Violation;

/// One WAL entry, as it lies on storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its position.
    pub position: WalPosition,
    /// Epoch of its writer.
    pub epoch: Epoch,
    /// The memtable its rows belong to; none for a sentinel.
    pub generation: Option<Generation>,
    /// Its rows; none for a sentinel.
    pub rows: Option<Vec<Row>>,
}

impl Entry {
    /// Whether it only fences.
    pub fn is_sentinel(&self) -> bool {
        self.rows.is_none()
    }
}

/// Decodes the entry at `position`.
///
/// # Errors
/// [`Violation`] of P9 when it is none, of P4 when a row was never written like that.
pub fn read_entry(rows: &Rows, position: WalPosition, bytes: Bytes) -> Result<Entry, Violation> {
    let entry = decode(bytes)
        .map_err(|error| Violation::new("P9", format!("WAL entry {position} is undecodable: {error}")))?;
    let epoch = entry.epoch;
    let WalBody::Rows { generation, batches } = entry.body else {
        return Ok(Entry { position, epoch, generation: None, rows: None });
    };
    let mut read = Vec::new();
    for batch in &batches {
        let batch = rows
            .read(batch)
            .map_err(|error| Violation::new("P4", format!("WAL entry {position}: {error}")))?;
        read.extend(batch);
    }
    Ok(Entry { position, epoch, generation, rows: Some(read) })
}

/// Judges a new entry against those there are.
pub(super) fn check_entry(entry: &Entry, entries: &BTreeMap<WalPosition, Entry>) -> Vec<Violation> {
    let mut found = Vec::new();
    let Entry { position, epoch, .. } = entry;
    if position.get() > 1 && !entries.contains_key(&position.previous()) {
        found.push(Violation::new("P8", format!("WAL entry {position} was written before the one below it")));
    }
    let higher = entries.range(..position).map(|(_, before)| before).find(|before| before.epoch > *epoch);
    if let (Some(before), false) = (higher, entry.is_sentinel()) {
        let (at, by) = (before.position, before.epoch);
        let what = format!("rows of epoch {epoch} at position {position}, above epoch {by} at position {at}");
        found.push(Violation::new("P7", what));
    }
    if entry.rows.as_ref().is_some_and(Vec::is_empty) {
        found.push(Violation::new("P12", format!("WAL entry {position} has no rows and is no sentinel")));
    }
    found
}
