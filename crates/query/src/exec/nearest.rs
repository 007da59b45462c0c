//! The rows of the base that its vector index finds nearest.
//!
//! Hidden rows are masked before Lance looks for the nearest, so none of them takes a place among those (P4).
//! Fragments the index does not cover are searched by Lance row by row, unless that is not wanted. Distances
//! are left to [`super::DistanceExec`]: those of an index may be approximate.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use headwater_engine::shadow::HiddenRows;
use headwater_engine::table::TableError;
use headwater_lance::{BaseVersion, LanceTable, retype_batch};
use lance::dataset::rowids::row_addrs_to_row_ids;
use lance::dataset::scanner::{RowAddrMask, RowAddrTreeMap, Scanner};

use super::base::{READ_AHEAD_BYTES, scanned};
use super::source::{Read, Rows, Source};
use crate::error::QueryError;
use crate::filter::Filter;
use crate::query::IndexSearch;

/// One version of the base, asked for the nearest rows to a vector.
#[derive(Debug)]
pub(crate) struct NearestSource {
    table: Arc<LanceTable>,
    base: BaseVersion,
    hidden: Option<RowAddrMask>,
    hidden_rows: u64,
    live: u64,
    search: IndexSearch,
}

impl NearestSource {
    /// Of the `live` rows of `base` that are not `hidden`.
    ///
    /// # Errors
    /// [`QueryError::Table`]: what storage said.
    pub(crate) async fn new(
        table: &Arc<LanceTable>,
        base: &BaseVersion,
        hidden: &HiddenRows,
        live: u64,
        search: IndexSearch,
    ) -> Result<Self, QueryError> {
        let hidden_rows = hidden.rows();
        let hidden = match hidden.is_empty() {
            true => None,
            false => Some(mask(table, base, hidden).await?),
        };
        Ok(Self { table: Arc::clone(table), base: base.clone(), hidden, hidden_rows, live, search })
    }

    fn scanner(&self, read: &Read) -> lance::Result<Scanner> {
        let mut scanner = self.base.dataset.scan();
        let names: Vec<&str> = read.columns.fields().iter().map(|field| field.name().as_str()).collect();
        scanner.project_with_schema(&self.base.part(&names))?;
        scanner.io_buffer_size(READ_AHEAD_BYTES);
        self.search.apply(&mut scanner)?;
        if let Some(filter) = &read.filter {
            scanner.filter_expr(filter.expr().clone());
        }
        if let Some(hidden) = &self.hidden {
            scanner.with_row_id_prefilter(hidden.clone());
        }
        Ok(scanner)
    }
}

impl Source for NearestSource {
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, hidden) = (self.base.dataset.version_id(), self.hidden_rows);
        let IndexSearch { index, wanted, metric, .. } = &self.search;
        write!(f, "base, version={version}, live={}, hidden={hidden}", self.live)?;
        write!(f, ", index={index}, metric={metric}, nearest={wanted}")
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn live(&self) -> u64 {
        self.live
    }

    fn hands_out_all(&self) -> bool {
        false
    }

    /// Only what [`super::BaseSource`] filters comes here.
    fn filters(&self, _: &Filter) -> bool {
        true
    }

    fn rows(&self, read: &Read) -> Result<Rows, QueryError> {
        let scanner = self.scanner(read).map_err(|error| QueryError::Table(self.table.base_error(error)))?;
        let (columns, uri) = (Arc::clone(&read.columns), self.table.uri().to_owned());
        let rows = scanned(scanner, &self.table, &self.base).map(move |batch| {
            retype_batch(&batch?, &columns).map_err(|error| {
                QueryError::Table(TableError::Corrupt { path: uri.clone(), reason: error.to_string() })
            })
        });
        Ok(rows.boxed())
    }
}

/// `hidden` as Lance takes it: by row id, which is the address unless the table has stable ones.
async fn mask(
    table: &LanceTable,
    base: &BaseVersion,
    hidden: &HiddenRows,
) -> Result<RowAddrMask, QueryError> {
    let mut ids = RowAddrTreeMap::new();
    if !base.dataset.manifest().uses_stable_row_ids() {
        for (fragment, rows) in hidden.fragments() {
            ids.insert_bitmap(fragment, rows.as_ref().clone());
        }
        return Ok(RowAddrMask::from_block(ids));
    }
    let addresses = hidden.fragments().flat_map(|(fragment, rows)| {
        rows.iter().map(move |row| Some(u64::from(fragment) << 32 | u64::from(row)))
    });
    let addresses: Vec<Option<u64>> = addresses.collect();
    let found = row_addrs_to_row_ids(&base.dataset, addresses).await;
    let found = found.map_err(|error| QueryError::Table(table.base_error(error)))?;
    for id in found {
        let id = id.ok_or_else(|| TableError::Corrupt {
            path: table.uri().to_owned(),
            reason: "a row that is replaced has no row id".to_owned(),
        })?;
        ids.insert(id);
    }
    Ok(RowAddrMask::from_block(ids))
}
