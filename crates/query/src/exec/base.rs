//! The rows of the base that nothing newer hides.
//!
//! Lance filters them, through its indexes where it has them, and hidden rows are taken out of each batch
//! afterwards. A condition that can fail must not see a hidden row (P4), so such a one is left to
//! [`super::SourceExec`] as long as there are any.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use futures::{StreamExt, TryStreamExt, stream};
use headwater_engine::shadow::HiddenRows;
use headwater_engine::table::TableError;
use headwater_lance::{BaseVersion, LanceTable, retype_batch};
use lance::dataset::scanner::Scanner;
use lance_core::ROW_ADDR;

use super::batch_rows::batch_rows;
use super::source::{Read, Rows, Source};
use crate::error::QueryError;
use crate::filter::Filter;

/// Bytes Lance may have read ahead of whoever takes the rows of one scan.
pub(super) const READ_AHEAD_BYTES: u64 = 256 << 20;
/// And where few rows are asked for: what is read ahead is read in vain more often than not.
const READ_AHEAD_BYTES_FOR_FEW: u64 = 32 << 20;
/// Fragments read at once then. Lance's own choice is twice as many as requests may be under way.
const FRAGMENTS_FOR_FEW: usize = 8;
/// A limit up to this is one of few rows.
const FEW: usize = 8192;

/// One version of the base.
#[derive(Debug)]
pub(crate) struct BaseSource {
    table: Arc<LanceTable>,
    base: BaseVersion,
    rows: u64,
    hidden: Arc<HiddenRows>,
    hidden_rows: u64,
}

impl BaseSource {
    /// All rows of `base`, which are `rows`, less the `hidden_rows` that are `hidden`.
    pub(crate) fn new(
        table: Arc<LanceTable>,
        base: BaseVersion,
        rows: u64,
        hidden: Arc<HiddenRows>,
        hidden_rows: u64,
    ) -> Self {
        Self { table, base, rows, hidden, hidden_rows }
    }

    fn scanner(&self, read: &Read) -> lance::Result<Scanner> {
        let mut scanner = self.base.dataset.scan();
        let names: Vec<&str> = read.columns.fields().iter().map(|field| field.name().as_str()).collect();
        scanner.project_with_schema(&self.base.part(&names))?;
        scanner.io_buffer_size(READ_AHEAD_BYTES);
        // A scan needs a column, and the address says which rows are hidden.
        if names.is_empty() || self.hidden_rows > 0 {
            scanner.with_row_address();
        }
        if let Some(filter) = read.filter.as_ref().filter(|filter| self.filters(filter)) {
            scanner.filter_expr(filter.expr().clone());
        }
        if read.limit.is_none() {
            scanner.batch_size(batch_rows(&read.columns));
        }
        if let Some(limit) = read.limit {
            // Of so many rows no more than the hidden ones are left out.
            let enough = (limit as u64).saturating_add(self.hidden_rows);
            scanner.limit(Some(i64::try_from(enough).unwrap_or(i64::MAX)), None)?;
            if limit <= FEW {
                scanner.io_buffer_size(READ_AHEAD_BYTES_FOR_FEW).fragment_readahead(FRAGMENTS_FOR_FEW);
            }
        }
        Ok(scanner)
    }
}

impl Source for BaseSource {
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.base.dataset.version_id();
        let alone = if self.base.by_number { " (base only)" } else { "" };
        write!(f, "base, version={version}{alone}, rows={}, hidden={}", self.rows, self.hidden_rows)
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn live(&self) -> u64 {
        self.rows.saturating_sub(self.hidden_rows)
    }

    fn filters(&self, filter: &Filter) -> bool {
        self.hidden_rows == 0 || filter.cannot_fail()
    }

    fn rows(&self, read: &Read) -> Result<Rows, QueryError> {
        if self.base.dataset.fragments().is_empty() {
            return Ok(stream::empty().boxed());
        }
        let table = Arc::clone(&self.table);
        let explain = move |error| QueryError::Table(table.base_error(error));
        let scanner = self.scanner(read).map_err(explain)?;
        let (hidden, columns) = (Arc::clone(&self.hidden), Arc::clone(&read.columns));
        let table = Arc::clone(&self.table);
        let rows = scanned(scanner, &self.table, &self.base).map(move |batch| {
            shown(&batch?, &hidden, &columns).map_err(|error| {
                let (path, reason) = (table.uri().to_owned(), error.to_string());
                QueryError::Table(TableError::Corrupt { path, reason })
            })
        });
        Ok(rows.boxed())
    }
}

/// The batches of a scan of `base`. An error names the file that is damaged.
pub(super) fn scanned(scanner: Scanner, table: &Arc<LanceTable>, base: &BaseVersion) -> Rows {
    let (table, base) = (Arc::clone(table), base.clone());
    let rows = stream::once(async move { scanner.try_into_stream().await }).try_flatten();
    let rows = rows.or_else(move |error| {
        let (table, base) = (Arc::clone(&table), base.clone());
        async move {
            let error = table.base_error(error);
            Err(QueryError::Table(table.name_damaged(&base, error).await))
        }
    });
    rows.boxed()
}

/// `batch` without hidden rows, with the columns of `schema`.
fn shown(batch: &RecordBatch, hidden: &HiddenRows, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if hidden.is_empty() {
        return retype_batch(batch, schema);
    }
    let addresses = batch.column_by_name(ROW_ADDR).and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let addresses = addresses
        .ok_or_else(|| ArrowError::SchemaError("a scan came back without row addresses".to_owned()))?;
    // Columns first: the addresses need not be filtered.
    let rows = retype_batch(batch, schema)?;
    match hidden.kept(addresses.values()) {
        None => Ok(rows),
        Some(kept) => filter_record_batch(&rows, &BooleanArray::new(kept, None)),
    }
}
