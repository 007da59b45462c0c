//! The keys of one base version, and where their rows are.
//!
//! Owns: [`BaseKeys`], read in one pass over the key columns; [`Addresses`], row numbers to row addresses.
//! Does not own: what is hidden. Duplicates of a key in the base are rows of their own until a newer source
//! replaces them together (P13).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use futures::TryStreamExt;
use headwater_engine::ingest::batch_keys;
use headwater_engine::shadow::{SourceKeys, SourceKeysBuilder};
use headwater_engine::table::TableError;
use headwater_format::key::KeySchema;
use headwater_lance::{BaseVersion, LanceTable};
use lance::Dataset;
use roaring::RoaringBitmap;

use crate::error::QueryError;

/// Which rows of the base have which key.
#[derive(Debug)]
pub(crate) struct BaseKeys {
    /// By row number: rows in scan order, deleted ones left out.
    pub keys: Arc<SourceKeys>,
    addresses: Addresses,
}

/// Rows of the base, by fragment and offset in it.
pub(crate) type BaseRows = BTreeMap<u32, RoaringBitmap>;

impl BaseKeys {
    /// Reads the key columns of every row.
    pub(crate) async fn read(
        table: &LanceTable,
        base: &BaseVersion,
        key: &KeySchema,
    ) -> Result<Self, QueryError> {
        let failed = |error| QueryError::Table(table.base_error(error));
        let names: Vec<&str> = key.columns().iter().map(|column| column.name.as_str()).collect();
        let mut scanner = Dataset::scan(&base.dataset);
        scanner
            .project_with_schema(&base.part(&names))
            .map_err(failed)?
            .with_row_address()
            .scan_in_order(true);
        let mut batches = scanner.try_into_stream().await.map_err(failed)?;
        let (mut builder, mut addresses) = (SourceKeysBuilder::with_duplicates(), Addresses::default());
        while let Some(batch) = batches.try_next().await.map_err(failed)? {
            let corrupt = |reason: String| TableError::Corrupt { path: table.uri().to_owned(), reason };
            let keys = batch_keys(key, &batch).map_err(|error| corrupt(error.to_string()))?;
            builder.push(&keys).map_err(|error| corrupt(error.to_string()))?;
            let at = batch.column_by_name(lance_core::ROW_ADDR);
            let at = at.and_then(|at| at.as_primitive_opt::<UInt64Type>());
            let at = at.ok_or_else(|| corrupt("a scan came back without row addresses".to_owned()))?;
            at.values().iter().for_each(|address| addresses.push(*address));
        }
        Ok(Self { keys: Arc::new(builder.finish()), addresses })
    }

    /// The rows with these numbers, by fragment.
    pub(crate) fn rows(&self, numbers: impl Iterator<Item = u32>) -> BaseRows {
        let mut rows = BaseRows::new();
        for number in numbers {
            if let Some(address) = self.addresses.of(number) {
                rows.entry((address >> 32) as u32).or_default().insert(address as u32);
            }
        }
        rows
    }

    /// Resident bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.keys.bytes() + (self.addresses.runs.capacity() * size_of::<Run>()) as u64
    }
}

/// Row numbers to row addresses, as runs of neighbours.
#[derive(Debug, Default)]
struct Addresses {
    runs: Vec<Run>,
    rows: u32,
}

#[derive(Debug)]
struct Run {
    number: u32,
    address: u64,
}

impl Addresses {
    fn push(&mut self, address: u64) {
        let goes_on =
            self.runs.last().is_some_and(|run| run.address + u64::from(self.rows - run.number) == address);
        if !goes_on {
            self.runs.push(Run { number: self.rows, address });
        }
        self.rows += 1;
    }

    fn of(&self, number: u32) -> Option<u64> {
        let place = self.runs.partition_point(|run| run.number <= number).checked_sub(1)?;
        let run = self.runs.get(place).filter(|_| number < self.rows)?;
        Some(run.address + u64::from(number - run.number))
    }
}
