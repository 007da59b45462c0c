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
use headwater_engine::table::TableError;
use headwater_lance::{BaseVersion, LanceTable, retype_batch};
use lance::dataset::scanner::Scanner;
use lance_core::ROW_ADDR;
use roaring::RoaringBitmap;

use super::source::{Read, Rows, Source};
use crate::base_keys::BaseRows;
use crate::error::QueryError;
use crate::filter::Filter;

/// Bytes Lance may have read ahead of whoever takes the rows of one scan.
const READ_AHEAD_BYTES: u64 = 256 << 20;

/// One version of the base.
#[derive(Debug)]
pub(crate) struct BaseSource {
    table: Arc<LanceTable>,
    base: BaseVersion,
    rows: u64,
    hidden: Arc<BaseRows>,
    hidden_rows: u64,
}

impl BaseSource {
    /// All rows of `base`, which are `rows`, less the `hidden_rows` that are `hidden`.
    pub(crate) fn new(
        table: Arc<LanceTable>,
        base: BaseVersion,
        rows: u64,
        hidden: Arc<BaseRows>,
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
        if let Some(limit) = read.limit {
            // Of so many rows no more than the hidden ones are left out.
            let enough = (limit as u64).saturating_add(self.hidden_rows);
            scanner.limit(Some(i64::try_from(enough).unwrap_or(i64::MAX)), None)?;
        }
        Ok(scanner)
    }
}

impl Source for BaseSource {
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.base.dataset.version_id();
        write!(f, "base, version={version}, rows={}, hidden={}", self.rows, self.hidden_rows)
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
        let scanner = self.scanner(read).map_err(&explain)?;
        let (hidden, columns) = (Arc::clone(&self.hidden), Arc::clone(&read.columns));
        let table = Arc::clone(&self.table);
        let rows = stream::once(async move { scanner.try_into_stream().await }).try_flatten();
        let rows = rows.map_err(explain).map(move |batch| {
            shown(&batch?, &hidden, &columns).map_err(|error| {
                let (path, reason) = (table.uri().to_owned(), error.to_string());
                QueryError::Table(TableError::Corrupt { path, reason })
            })
        });
        Ok(rows.boxed())
    }
}

/// `batch` without hidden rows, with the columns of `schema`.
fn shown(batch: &RecordBatch, hidden: &BaseRows, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if hidden.is_empty() {
        return retype_batch(batch, schema);
    }
    let addresses = batch.column_by_name(ROW_ADDR).and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let addresses = addresses
        .ok_or_else(|| ArrowError::SchemaError("a scan came back without row addresses".to_owned()))?;
    let kept = kept(addresses.values(), hidden);
    match kept {
        None => retype_batch(batch, schema),
        Some(kept) => retype_batch(&filter_record_batch(batch, &kept)?, schema),
    }
}

/// Which of the rows at `addresses` are not hidden; none when that is all of them.
fn kept(addresses: &[u64], hidden: &BaseRows) -> Option<BooleanArray> {
    let mut fragment: Option<(u32, Option<&RoaringBitmap>)> = None;
    let mut every = true;
    let mut keep = |address: &u64| {
        let (id, offset) = ((*address >> 32) as u32, *address as u32);
        let rows = match fragment {
            Some((known, rows)) if known == id => rows,
            _ => {
                let rows = hidden.get(&id);
                fragment = Some((id, rows));
                rows
            }
        };
        let keep = !rows.is_some_and(|rows| rows.contains(offset));
        every &= keep;
        keep
    };
    let kept: BooleanArray = addresses.iter().map(|address| Some(keep(address))).collect();
    (!every).then_some(kept)
}
