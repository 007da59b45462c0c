//! Scalar indexes of the base: making, listing and dropping them.
//!
//! Owns: [`LanceTable::create_index`], [`LanceTable::indexes`], [`LanceTable::drop_index`], and which columns
//! can have one. Does not own: the B-tree every table with a key gets (`key_index`), bringing an index up to
//! date (Lance's optimize). Keeps P16: a commit goes onto the version it was planned on, or is planned again,
//! and changes no other index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::DataType;
use headwater_engine::table::TableError;
use headwater_format::key::KeySchema;
use lance::Dataset;
use lance::dataset::transaction::Operation;
use lance::index::{CreateIndexBuilder, DatasetIndexExt};
use lance_core::datatypes::{Schema as LanceSchema, format_field_path};
use lance_index::IndexType;
use lance_index::registry::plugin_name_from_details_url;
use lance_index::scalar::{BuiltinIndexType, ScalarIndexParams};
use lance_table::format::IndexMetadata;
use lance_table::system_index::is_system_index;
use lance_table::system_index::mem_wal::{
    MEM_WAL_INDEX_NAME, load_mem_wal_index_details, new_mem_wal_index_meta,
};
use roaring::RoaringBitmap;

use crate::commit::ATTEMPTS;
use crate::key_index::{Built, NAME as KEY_INDEX, is_btree};
use crate::schema;
use crate::table::{LanceTable, mem_wal_entry};

/// How the names of Lance's own indexes begin.
const SYSTEM_NAMES: &str = "__lance_";

/// A kind of scalar index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// For columns of many values: equality and ranges.
    BTree,
    /// For columns of few values.
    Bitmap,
}

impl IndexKind {
    fn types(self) -> (IndexType, BuiltinIndexType) {
        match self {
            Self::BTree => (IndexType::BTree, BuiltinIndexType::BTree),
            Self::Bitmap => (IndexType::Bitmap, BuiltinIndexType::Bitmap),
        }
    }
}

/// An index of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexInfo {
    /// Its name.
    pub name: String,
    /// Its kind as Lance calls it: `btree`, `bitmap`, `inverted`, `vector`, …
    pub kind: String,
    /// The columns it is on.
    pub columns: Vec<String>,
    /// Fragments of the base.
    pub fragments: u64,
    /// Those it covers.
    pub covered: u64,
    /// Rows of the base in the fragments it does not cover. A filter scans them.
    pub unindexed_rows: u64,
}

impl LanceTable {
    /// Builds an index over the column and commits it. `name` is `{column}_idx` when left out.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when there is no such column, its type cannot be indexed, or the name is taken
    /// or Lance's own; otherwise what storage said.
    pub async fn create_index(
        &self,
        column: &str,
        kind: IndexKind,
        name: Option<&str>,
    ) -> Result<IndexInfo, TableError> {
        let name = name.map_or_else(|| format!("{column}_idx"), str::to_owned);
        check_name(&name)?;
        let (mut lost, mut built): (_, Option<Built>) = (None, None);
        for _ in 0..ATTEMPTS {
            let (dataset, schema) = self.refresh().await?;
            let indexes = self.index_entries(&dataset).await?;
            // After a lost answer the own index in the table is proof that the commit counts.
            let own = built.as_ref().map(|built| built.index.uuid);
            if own.is_some_and(|own| indexes.iter().any(|index| index.uuid == own)) {
                return self.created(&dataset, &name).await;
            }
            check_column(dataset.schema(), column, kind)?;
            check_free(&name, &indexes, dataset.schema())?;
            let usable = built.take().filter(|built| built.fits(&dataset));
            let ready = match usable {
                Some(built) => built,
                None => self.build_index(&dataset, column, kind, &name).await?,
            };
            let new_indices = vec![ready.index.clone()];
            built = Some(ready);
            let operation = Operation::CreateIndex { new_indices, removed_indices: Vec::new() };
            if let Some(dataset) = self.try_commit(&dataset, &schema, operation, &mut lost).await? {
                return self.created(&dataset, &name).await;
            }
        }
        Err(self.busy(lost))
    }

    async fn build_index(
        &self,
        dataset: &Dataset,
        column: &str,
        kind: IndexKind,
        name: &str,
    ) -> Result<Built, TableError> {
        let (index_type, builtin) = kind.types();
        let params = ScalarIndexParams::for_builtin(builtin);
        let path = format_field_path(&[column]);
        let fragments = Arc::clone(dataset.fragments());
        let mut dataset = dataset.clone();
        let has_rows = dataset.count_fragments() > 0;
        let built = CreateIndexBuilder::new(&mut dataset, &[path.as_str()], index_type, &params)
            .name(name.to_owned())
            .train(has_rows)
            .execute_uncommitted()
            .await;
        let index = built.map_err(|error| self.base_error(error))?;
        self.sync(&format!("_indices/{}", index.uuid)).await?;
        Ok(Built { index, fragments })
    }

    /// The index of this name, durable.
    async fn created(&self, dataset: &Dataset, name: &str) -> Result<IndexInfo, TableError> {
        self.sync("_versions").await?;
        let indexes = self.describe(dataset).await?;
        let found = indexes.into_iter().find(|index| index.name == name);
        found.ok_or_else(|| TableError::invalid(format!("index {name:?} was dropped meanwhile")))
    }

    /// The indexes of the newest version of the base, by name; Lance's own left out.
    ///
    /// # Errors
    /// What storage said.
    pub async fn indexes(&self) -> Result<Vec<IndexInfo>, TableError> {
        let (dataset, _) = self.refresh().await?;
        self.describe(&dataset).await
    }

    async fn describe(&self, dataset: &Dataset) -> Result<Vec<IndexInfo>, TableError> {
        let indexes = self.index_entries(dataset).await?;
        let mut by_name: BTreeMap<&str, Vec<&IndexMetadata>> = BTreeMap::new();
        for index in indexes.iter().filter(|index| !is_system_index(index)) {
            by_name.entry(index.name.as_str()).or_default().push(index);
        }
        let rows = self.rows_by_fragment(dataset).await?;
        Ok(by_name.into_iter().map(|(name, parts)| info(name, &parts, dataset.schema(), &rows)).collect())
    }

    async fn index_entries(&self, dataset: &Dataset) -> Result<Arc<Vec<IndexMetadata>>, TableError> {
        dataset.load_indices().await.map_err(|error| self.base_error(error))
    }

    /// Rows of each fragment, deleted ones left out.
    async fn rows_by_fragment(&self, dataset: &Dataset) -> Result<BTreeMap<u32, u64>, TableError> {
        let mut rows = BTreeMap::new();
        for fragment in dataset.fragments().iter() {
            let count = match fragment.num_rows() {
                Some(known) => known,
                // Old writers did not record it.
                None => self.count_fragment(dataset, fragment.id).await?,
            };
            if let Ok(id) = u32::try_from(fragment.id) {
                rows.insert(id, count as u64);
            }
        }
        Ok(rows)
    }

    async fn count_fragment(&self, dataset: &Dataset, id: u64) -> Result<usize, TableError> {
        let fragment = usize::try_from(id).ok().and_then(|id| dataset.get_fragment(id));
        let fragment = fragment.ok_or_else(|| TableError::Corrupt {
            path: self.uri.clone(),
            reason: format!("fragment {id} is listed and cannot be opened"),
        })?;
        fragment.count_rows(None).await.map_err(|error| self.base_error(error))
    }

    /// Drops the index called `name`, all its parts. Without it writers need not maintain it either, so it is
    /// taken off the list of those they must in the same commit.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when there is no such index, it is Lance's own, or it is the one that rows are
    /// looked up by key in and `force` is not set; otherwise what storage said.
    pub async fn drop_index(&self, name: &str, force: bool) -> Result<(), TableError> {
        let mut lost = None;
        for _ in 0..ATTEMPTS {
            let (dataset, schema) = self.refresh().await?;
            let indexes = self.index_entries(&dataset).await?;
            let removed: Vec<IndexMetadata> =
                indexes.iter().filter(|index| index.name == name).cloned().collect();
            if removed.is_empty() && lost.is_some() {
                // The answer was lost, the commit was not.
                return self.sync("_versions").await;
            }
            check_drop(name, &indexes, &dataset, schema.key.as_ref(), force)?;
            let operation = self.plan_drop(&dataset, name, removed).await?;
            if self.try_commit(&dataset, &schema, operation, &mut lost).await?.is_some() {
                return self.sync("_versions").await;
            }
        }
        Err(self.busy(lost))
    }

    async fn plan_drop(
        &self,
        dataset: &Dataset,
        name: &str,
        mut removed_indices: Vec<IndexMetadata>,
    ) -> Result<Operation, TableError> {
        let failed = |error| self.base_error(error);
        let mut new_indices = Vec::new();
        if let Some(entry) = mem_wal_entry(dataset).await.map_err(failed)? {
            let mut details = load_mem_wal_index_details(entry.clone()).map_err(failed)?;
            if details.maintained_indexes.iter().any(|maintained| maintained == name) {
                details.maintained_indexes.retain(|maintained| maintained != name);
                let rewritten = new_mem_wal_index_meta(dataset.version_id(), details);
                new_indices.push(rewritten.map_err(failed)?);
                removed_indices.push(entry);
            }
        }
        Ok(Operation::CreateIndex { new_indices, removed_indices })
    }
}

/// What the parts of one index say together.
fn info(name: &str, parts: &[&IndexMetadata], schema: &LanceSchema, rows: &BTreeMap<u32, u64>) -> IndexInfo {
    let existing: RoaringBitmap = rows.keys().copied().collect();
    let mut covered = RoaringBitmap::new();
    for part in parts {
        if let Some(fragments) = part.effective_fragment_bitmap(&existing) {
            covered |= fragments;
        }
    }
    let details = parts.first().and_then(|part| part.index_details.as_ref());
    let fields = parts.first().map(|part| part.keyed_fields()).unwrap_or_default();
    let column = |id: &i32| schema.field_path(*id).unwrap_or_else(|_| format!("field {id}"));
    IndexInfo {
        name: name.to_owned(),
        kind: details
            .map_or_else(|| "unknown".to_owned(), |details| plugin_name_from_details_url(&details.type_url)),
        columns: fields.iter().map(column).collect(),
        fragments: existing.len(),
        covered: covered.len(),
        unindexed_rows: rows.iter().filter(|(id, _)| !covered.contains(**id)).map(|(_, rows)| rows).sum(),
    }
}

fn check_name(name: &str) -> Result<(), TableError> {
    if name.trim().is_empty() {
        return Err(TableError::invalid("an index needs a name that is not empty"));
    }
    if name.starts_with(SYSTEM_NAMES) {
        return Err(TableError::invalid(format!(
            "index name {name:?}: names that begin with {SYSTEM_NAMES} are Lance's own; take another"
        )));
    }
    Ok(())
}

fn check_free(name: &str, indexes: &[IndexMetadata], schema: &LanceSchema) -> Result<(), TableError> {
    let Some(taken) = indexes.iter().find(|index| index.name == name) else { return Ok(()) };
    let column = |id: &i32| schema.field_path(*id).unwrap_or_else(|_| format!("field {id}"));
    let columns: Vec<String> = taken.keyed_fields().iter().map(column).collect();
    Err(TableError::invalid(format!(
        "the table has an index {name:?} already, on {}: drop it first, or give the new one another name",
        columns.join(", ")
    )))
}

/// Whether there is such a column, and an index can be on it.
fn check_column(schema: &LanceSchema, column: &str, kind: IndexKind) -> Result<(), TableError> {
    let Some(field) = schema::column(schema, column) else {
        let known: Vec<&str> = schema.fields.iter().map(|field| field.name.as_str()).collect();
        return Err(TableError::invalid(format!(
            "there is no column {column:?} to index; the table has {}",
            known.join(", ")
        )));
    };
    let data_type = field.data_type();
    if is_indexable(&data_type) {
        return Ok(());
    }
    let kind = match kind {
        IndexKind::BTree => "B-tree",
        IndexKind::Bitmap => "bitmap",
    };
    Err(TableError::invalid(format!(
        "column {column:?} is {data_type}: a {kind} is on numbers, booleans, text, bytes, dates or times"
    )))
}

/// The types whose values Lance's scalar indexes can compare. It takes some others and panics over their
/// values.
fn is_indexable(data_type: &DataType) -> bool {
    use DataType::{
        Binary, Boolean, Date32, Date64, Decimal128, Decimal256, Duration, FixedSizeBinary, Float32, Float64,
        LargeBinary, LargeUtf8, Time32, Time64, Timestamp, Utf8,
    };
    data_type.is_integer()
        || matches!(
            data_type,
            Binary
                | Boolean
                | Date32
                | Date64
                | Decimal128(..)
                | Decimal256(..)
                | Duration(_)
                | FixedSizeBinary(_)
                | Float32
                | Float64
                | LargeBinary
                | LargeUtf8
                | Time32(_)
                | Time64(_)
                | Timestamp(..)
                | Utf8
        )
}

/// Whether the index may be dropped.
fn check_drop(
    name: &str,
    indexes: &[IndexMetadata],
    dataset: &Dataset,
    key: Option<&KeySchema>,
    force: bool,
) -> Result<(), TableError> {
    if name == MEM_WAL_INDEX_NAME {
        return Err(TableError::invalid(format!(
            "{name} is the record of the write tier itself: without it rows that are not in the base are lost"
        )));
    }
    let Some(found) = indexes.iter().find(|index| index.name == name) else {
        let own = indexes.iter().filter(|index| !is_system_index(index));
        let known: BTreeSet<&str> = own.map(|index| index.name.as_str()).collect();
        let known: Vec<&str> = known.into_iter().collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(TableError::invalid(format!("there is no index {name:?}; the table has {known}")));
    };
    if is_system_index(found) {
        return Err(TableError::invalid(format!("{name} is Lance's own and no index to look rows up in")));
    }
    if !force && is_key_index(name, indexes, dataset.schema(), key) {
        return Err(TableError::invalid(format!(
            "index {name:?} is the one that rows of the base are looked up by key in: without it every \
             lookup reads the key columns of the base whole; to drop it all the same, force it (--force)"
        )));
    }
    Ok(())
}

/// Whether rows are looked up by key in the index of this name: it was made for that, or no other B-tree is
/// on a key column.
fn is_key_index(
    name: &str,
    indexes: &[IndexMetadata],
    schema: &LanceSchema,
    key: Option<&KeySchema>,
) -> bool {
    let columns = key.into_iter().flat_map(|key| key.columns());
    let fields: BTreeSet<i32> =
        columns.filter_map(|column| schema::column(schema, &column.name)).map(|field| field.id).collect();
    let on_key = |index: &&IndexMetadata| {
        is_btree(index) && index.keyed_field().is_some_and(|field| fields.contains(&field))
    };
    let numbered = name.strip_prefix(KEY_INDEX).and_then(|rest| rest.strip_prefix('_'));
    let is_ours =
        name == KEY_INDEX || numbered.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let is_on_key = indexes.iter().filter(on_key).any(|index| index.name == name);
    is_on_key && (is_ours || indexes.iter().filter(on_key).all(|index| index.name == name))
}
