//! The key sidecar `_pk_index`: which physical rows a key has.
//!
//! Owns: its values (one key column: its own value; several: the order-preserving bytes of `format`),
//! sorting, and the B-tree Lance stores it as. It holds every physical row, replaced ones too (P9,
//! lance#9035).

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_ord::sort::{SortOptions, sort_to_indices};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion_common::ScalarValue;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use headwater_engine::table::TableError;
use headwater_format::key::KeySchema;
use lance_core::cache::LanceCache;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::scalar::btree::{
    BTREE_INDEX_VERSION, BTreeIndexPlugin, DEFAULT_BTREE_BATCH_SIZE, train_btree_index,
};
use lance_index::scalar::lance_format::LanceIndexStore;
use lance_index::scalar::registry::ScalarIndexPlugin;
use lance_index::scalar::{SargableQuery, ScalarIndex};
use lance_io::object_store::ObjectStore;
use object_store::path::Path;

/// The files of a sidecar.
const FILES: [&str; 2] = ["page_lookup.lance", "page_data.lance"];
const VALUE: &str = "value";
const ROW_ADDRESS: &str = "_rowaddr";
/// Keys asked for at once.
const KEYS_PER_PROBE: usize = 4096;

/// The values the sidecar indexes, one a row of `batch`.
///
/// # Errors
/// [`TableError::Invalid`] when a key column is missing, of another type, or null.
pub(crate) fn key_values(key: &KeySchema, batch: &RecordBatch) -> Result<ArrayRef, TableError> {
    match key.columns() {
        [column] => {
            let values = batch.column_by_name(&column.name);
            let values = values.filter(|values| values.data_type() == &column.data_type);
            values.cloned().ok_or_else(|| {
                TableError::invalid(format!(
                    "key column {:?} of type {} is missing",
                    column.name, column.data_type
                ))
            })
        }
        _ => {
            let encoded = key.encode(batch).map_err(|error| TableError::invalid(error.to_string()))?;
            Ok(Arc::new(encoded))
        }
    }
}

/// The rows of the sidecar: values in order, each with its row offset.
///
/// # Errors
/// [`TableError::Invalid`] when the keys of a generation do not fit into one Arrow array (2 GiB of key
/// bytes).
pub(crate) fn sorted_entries(key: &KeySchema, batches: &[RecordBatch]) -> Result<RecordBatch, TableError> {
    let parts = batches.iter().map(|batch| key_values(key, batch)).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<_> = parts.iter().map(|part| part.as_ref()).collect();
    let sorted = || -> Result<RecordBatch, ArrowError> {
        let values = concat(&parts)?;
        let ascending = SortOptions { descending: false, nulls_first: true };
        let order = sort_to_indices(&values, Some(ascending), None)?;
        let sorted = take(&values, &order, None)?;
        let offsets: UInt64Array = order.values().iter().map(|offset| u64::from(*offset)).collect();
        let schema = Schema::new(vec![
            Field::new(VALUE, sorted.data_type().clone(), true),
            Field::new(ROW_ADDRESS, DataType::UInt64, false),
        ]);
        RecordBatch::try_new(Arc::new(schema), vec![sorted, Arc::new(offsets)])
    };
    sorted().map_err(|error| crate::error::of_arrow("sorting the keys of a generation", &error))
}

/// Writes the sidecar into `dir`; returns the bytes of its files.
///
/// # Errors
/// What Lance or storage said.
pub(crate) async fn write_sidecar(
    store: &Arc<ObjectStore>,
    dir: Path,
    entries: RecordBatch,
) -> lance_core::Result<u64> {
    let index = LanceIndexStore::new(Arc::clone(store), dir, Arc::new(LanceCache::no_cache()));
    let schema = entries.schema();
    let batches = Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter([Ok(entries)])));
    let files = train_btree_index(batches, &index, DEFAULT_BTREE_BATCH_SIZE, None, None).await?;
    Ok(files.iter().map(|file| file.size_bytes).sum())
}

/// An open sidecar.
pub(crate) struct Sidecar {
    index: Arc<dyn ScalarIndex>,
    /// The index holds its cache weakly.
    _cache: LanceCache,
}

impl std::fmt::Debug for Sidecar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sidecar").finish_non_exhaustive()
    }
}

impl Sidecar {
    /// Opens the sidecar in `dir`. Reads its page table; pages follow as they are asked for.
    ///
    /// # Errors
    /// What Lance or storage said.
    pub(crate) async fn open(
        store: &Arc<ObjectStore>,
        dir: Path,
        cache: &LanceCache,
    ) -> lance_core::Result<Self> {
        // Lance takes it for granted that a file has bytes, and panics.
        for name in FILES {
            let path = dir.clone().join(name);
            if store.size(&path).await? == 0 {
                return Err(lance_core::Error::corrupt_file(path, "the file is empty"));
            }
        }
        let cache = cache.with_key_prefix(dir.as_ref());
        let files = LanceIndexStore::new(Arc::clone(store), dir, Arc::new(cache.clone()));
        let no_details = prost_types::Any::default();
        let index = BTreeIndexPlugin
            .load_index(Arc::new(files), &no_details, BTREE_INDEX_VERSION, None, &cache)
            .await?;
        Ok(Self { index, _cache: cache })
    }

    /// Row offsets of all rows with one of the `keys`, ascending. May name a row too many, never one too few.
    ///
    /// # Errors
    /// What Lance or storage said.
    pub(crate) async fn candidates(&self, keys: &ArrayRef) -> lance_core::Result<Vec<u32>> {
        let mut found = roaring::RoaringBitmap::new();
        let mut at = 0;
        while at < keys.len() {
            let end = keys.len().min(at.saturating_add(KEYS_PER_PROBE));
            let wanted =
                (at..end).map(|row| ScalarValue::try_from_array(keys, row)).collect::<Result<Vec<_>, _>>()?;
            let answer = self.index.search(&SargableQuery::IsIn(wanted), &NoOpMetricsCollector).await?;
            let rows = answer.row_addrs().true_rows();
            found.extend(rows.row_addrs().into_iter().flatten().map(|address| address.row_offset()));
            at = end;
        }
        Ok(found.iter().collect())
    }
}
