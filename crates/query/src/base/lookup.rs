//! The key index of one base version, opened once, and reading its rows.
//!
//! Owns: [`BaseLookup`]. An index names candidates: whoever asks compares keys. What it says is taken for
//! fragments it covers only; deleted rows are left out. With stable row ids an index may store ids or
//! addresses, and tells which.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use datafusion::common::ScalarValue;
use futures::TryStreamExt;
use futures::future::try_join_all;
use headwater_engine::table::TableError;
use headwater_format::key::KeySchema;
use headwater_lance::{BaseVersion, LanceTable};
use lance::dataset::rowids::get_row_id_index;
use lance::dataset::{ProjectionRequest, TakeBuilder};
use lance::index::{DatasetIndexExt, DatasetIndexInternalExt};
use lance_core::ROW_ADDR;
use lance_core::datatypes::format_field_path;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::{SargableQuery, ScalarIndex};
use lance_table::format::{Fragment, IndexMetadata};
use roaring::RoaringBitmap;

use crate::error::QueryError;

/// Keys the index is asked for at once.
const KEYS_PER_PROBE: usize = 4096;
/// Kinds of index that answer exactly which rows have a value, by the end of the type of their details.
const EXACT_KINDS: [&str; 2] = ["BTreeIndexDetails", "BitmapIndexDetails"];

/// A base version and the index on its key, if it has one.
pub(crate) struct BaseLookup {
    pub table: Arc<LanceTable>,
    pub base: BaseVersion,
    pub key: KeySchema,
    /// Which key column the index is on, by its place in the key.
    pub column: usize,
    /// Fragments the index covers.
    pub covered: RoaringBitmap,
    segments: Vec<Segment>,
}

/// One part of an index.
struct Segment {
    index: Arc<dyn ScalarIndex>,
    fragments: RoaringBitmap,
}

impl std::fmt::Debug for BaseLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.base.dataset.version_id();
        f.debug_struct("BaseLookup").field("version", &version).field("covered", &self.covered.len()).finish()
    }
}

impl BaseLookup {
    /// Opens the index that covers most of the base, among exact ones on one key column. Of several that do
    /// it takes the one on the earlier key column.
    pub(crate) async fn open(
        table: &Arc<LanceTable>,
        base: &BaseVersion,
        key: &KeySchema,
    ) -> Result<Self, QueryError> {
        let failed = |error| QueryError::Table(table.base_error(error));
        let indexes = base.dataset.load_indices().await.map_err(failed)?;
        let existing = base.dataset.fragment_bitmap();
        let mut best: (usize, RoaringBitmap, Vec<(&IndexMetadata, RoaringBitmap)>) = Default::default();
        for (place, column) in key.columns().iter().enumerate() {
            let field = base.dataset.schema().fields.iter().find(|field| field.name == column.name);
            let Some(field) = field else { continue };
            let on_it = indexes.iter().filter(|index| index.fields == [field.id] && is_exact(index));
            let parts = on_it.filter_map(|index| Some((index, index.effective_fragment_bitmap(existing)?)));
            let parts: Vec<_> = parts.filter(|(_, fragments)| !fragments.is_empty()).collect();
            let covered = parts.iter().fold(RoaringBitmap::new(), |all, (_, fragments)| all | fragments);
            if covered.len() > best.1.len() {
                best = (place, covered, parts);
            }
        }
        let (column, covered, parts) = best;
        let path = key.columns().get(column).map(|column| format_field_path(&[column.name.as_str()]));
        let path = path.unwrap_or_default();
        let open = parts.into_iter().map(|(index, fragments)| {
            let (dataset, path, uuid) = (&base.dataset, path.as_str(), index.uuid);
            async move {
                let index = dataset.open_scalar_index(path, &uuid, &NoOpMetricsCollector).await?;
                Ok::<_, lance::Error>(Segment { index, fragments })
            }
        });
        let segments = try_join_all(open).await.map_err(failed)?;
        let (table, base, key) = (Arc::clone(table), base.clone(), key.clone());
        Ok(Self { table, base, key, column, covered, segments })
    }

    /// Physical rows in those of `fragments` that are there.
    pub(crate) fn rows_in(&self, fragments: &RoaringBitmap) -> u64 {
        let there = self.base.dataset.fragments().iter();
        let there = there.filter(|fragment| fragments.contains(fragment.id as u32));
        there.map(|fragment| fragment.physical_rows.unwrap_or_default() as u64).sum()
    }

    /// Addresses, ascending, of the rows of `fragments` whose indexed column has one of `values`, as far as
    /// the index covers them. Deleted rows are not among them.
    pub(crate) async fn candidates(
        &self,
        values: &ArrayRef,
        fragments: &RoaringBitmap,
    ) -> Result<Vec<u64>, QueryError> {
        let found = self.search(values, fragments).await;
        let found = found.map_err(|error| self.failed(error))?;
        self.without_deleted(found).await.map_err(|error| self.failed(error))
    }

    async fn search(&self, values: &ArrayRef, fragments: &RoaringBitmap) -> lance::Result<Vec<u64>> {
        let mut found = Vec::new();
        for start in (0..values.len()).step_by(KEYS_PER_PROBE) {
            let some = values.slice(start, KEYS_PER_PROBE.min(values.len() - start));
            let wanted = (0..some.len()).map(|row| ScalarValue::try_from_array(&some, row));
            let query = SargableQuery::IsIn(wanted.collect::<Result<_, _>>()?);
            for segment in &self.segments {
                let answer = segment.index.search(&query, &NoOpMetricsCollector).await?;
                let rows = answer.row_addrs().true_rows();
                let rows = rows.row_addrs().into_iter().flatten().map(u64::from).collect();
                let addresses = self.addresses(rows, segment.index.results_are_row_addresses()).await?;
                let taken = |address: &u64| {
                    let fragment = (*address >> 32) as u32;
                    segment.fragments.contains(fragment) && fragments.contains(fragment)
                };
                found.extend(addresses.into_iter().filter(taken));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The addresses of `rows`, which an index named by id or by address.
    async fn addresses(&self, rows: Vec<u64>, are_addresses: bool) -> lance::Result<Vec<u64>> {
        if are_addresses || rows.is_empty() {
            return Ok(rows);
        }
        let Some(ids) = get_row_id_index(&self.base.dataset).await? else { return Ok(rows) };
        Ok(ids.get_many(&rows)?.into_iter().flatten().map(u64::from).collect())
    }

    async fn without_deleted(&self, addresses: Vec<u64>) -> lance::Result<Vec<u64>> {
        let mut live = Vec::with_capacity(addresses.len());
        for rows in addresses.chunk_by(|one, next| one >> 32 == next >> 32) {
            let Some(first) = rows.first() else { continue };
            let fragment = self.base.dataset.get_fragment((first >> 32) as usize);
            let deleted = match fragment.filter(|fragment| fragment.metadata().deletion_file.is_some()) {
                Some(fragment) => fragment.get_deletion_vector().await?,
                None => None,
            };
            match deleted {
                None => live.extend_from_slice(rows),
                Some(deleted) => {
                    live.extend(rows.iter().filter(|address| !deleted.contains(**address as u32)));
                }
            }
        }
        Ok(live)
    }

    /// The columns of these names of the rows at `addresses`, which ascend and are not deleted.
    pub(crate) async fn take(&self, addresses: &[u64], names: &[&str]) -> Result<RecordBatch, QueryError> {
        let rows = self.start_take(addresses, names);
        let rows = match rows {
            Ok(rows) => rows.execute().await,
            Err(error) => Err(error),
        };
        let rows = rows.map_err(|error| self.failed(error))?;
        if rows.num_rows() != addresses.len() {
            let reason = format!("{} rows were asked for, {} came back", addresses.len(), rows.num_rows());
            return Err(self.corrupt(reason));
        }
        Ok(rows)
    }

    fn start_take(&self, addresses: &[u64], names: &[&str]) -> lance::Result<TakeBuilder> {
        let dataset = &self.base.dataset;
        let columns = ProjectionRequest::Schema(Arc::new(self.base.part(names)));
        let columns = Arc::new(columns.into_projection_plan(Arc::clone(dataset))?);
        TakeBuilder::try_new_from_addresses(Arc::clone(dataset), addresses.to_vec(), columns)
    }

    /// Calls `each` with the key columns and the addresses of all live rows of `fragments`, in any order.
    pub(crate) async fn pass(
        &self,
        fragments: &RoaringBitmap,
        mut each: impl FnMut(&RecordBatch, &[u64]) -> Result<(), QueryError> + Send,
    ) -> Result<(), QueryError> {
        let failed = |error| self.failed(error);
        let there = self.base.dataset.fragments().iter();
        let there: Vec<Fragment> =
            there.filter(|fragment| fragments.contains(fragment.id as u32)).cloned().collect();
        if there.is_empty() {
            return Ok(());
        }
        let mut scanner = self.base.dataset.scan();
        scanner
            .project_with_schema(&self.base.part(&self.key_names()))
            .map_err(failed)?
            .with_row_address()
            .with_fragments(there)
            .scan_in_order(false);
        let mut batches = scanner.try_into_stream().await.map_err(failed)?;
        while let Some(batch) = batches.try_next().await.map_err(failed)? {
            let at = batch.column_by_name(ROW_ADDR).and_then(|at| at.as_primitive_opt::<UInt64Type>());
            let at = at.ok_or_else(|| self.corrupt("a scan came back without row addresses".to_owned()))?;
            each(&batch, at.values())?;
        }
        Ok(())
    }

    /// The names of the key columns.
    pub(crate) fn key_names(&self) -> Vec<&str> {
        self.key.columns().iter().map(|column| column.name.as_str()).collect()
    }

    pub(crate) fn failed(&self, error: lance::Error) -> QueryError {
        QueryError::Table(self.table.base_error(error))
    }

    pub(crate) fn corrupt(&self, reason: String) -> QueryError {
        TableError::Corrupt { path: self.table.uri().to_owned(), reason }.into()
    }
}

fn is_exact(index: &IndexMetadata) -> bool {
    let details = index.index_details.as_ref().map(|details| details.type_url.as_str());
    details.is_some_and(|details| EXACT_KINDS.iter().any(|kind| details.ends_with(kind)))
}
