//! The B-tree on the key of the base: what looks up base rows by key.
//!
//! Owns: which column it is on, building it, and whether what was built may still be committed. Lance indexes
//! single columns, so a composite key is indexed on its most selective column and candidates are checked
//! exactly on the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ord::partition::partition;
use arrow_ord::sort::sort;
use arrow_select::concat::concat_batches;
use futures::TryStreamExt;
use headwater_engine::table::TableError;
use headwater_format::key::{KeyColumn, KeySchema, KeyType};
use lance::Dataset;
use lance::index::{CreateIndexBuilder, DatasetIndexExt};
use lance_core::datatypes::format_field_path;
use lance_index::IndexType;
use lance_index::scalar::{BuiltinIndexType, ScalarIndexParams};
use lance_table::format::{Fragment, IndexMetadata};

use crate::{error, schema};

/// Name of the index; a number follows when the table has another index of that name.
pub(crate) const NAME: &str = "headwater_key";
/// Rows looked at to find the most selective column.
const SAMPLE_ROWS: i64 = 65_536;

/// A key index that is built and not committed yet.
pub(crate) struct Built {
    /// What a commit adds to the base.
    pub index: IndexMetadata,
    /// What it was built over.
    pub fragments: Arc<Vec<Fragment>>,
}

impl Built {
    /// Whether every fragment it was built over is part of `dataset` as it was; others are searched flat.
    pub fn fits(&self, dataset: &Dataset) -> bool {
        let now: BTreeMap<u64, &Fragment> =
            dataset.fragments().iter().map(|fragment| (fragment.id, fragment)).collect();
        self.fragments.iter().all(|fragment| now.get(&fragment.id).is_some_and(|now| *now == fragment))
    }
}

/// Builds the key index of `dataset` without committing it; `None` when there is a B-tree on that column
/// already. `earlier` is what was built for a commit that others got in before: it is used again where they
/// only appended, so that a table that is appended to all the time gets its index, however long that takes.
///
/// # Errors
/// What Lance or storage said.
pub(crate) async fn build(
    dataset: &Dataset,
    key: &KeySchema,
    earlier: Option<Built>,
) -> Result<Option<Built>, TableError> {
    let uri = dataset.uri();
    let column = most_selective(dataset, key).await.map_err(|error| error::of_table(uri, error))?;
    let Some(field) = schema::column(dataset.schema(), &column.name) else {
        return Err(TableError::invalid(format!("key column {:?} is not in the table", column.name)));
    };
    let indexes = dataset.load_indices().await.map_err(|error| error::of_table(uri, error))?;
    if indexes.iter().any(|index| index.fields == [field.id] && is_btree(index)) {
        return Ok(None);
    }
    let taken: BTreeSet<&str> = indexes.iter().map(|index| index.name.as_str()).collect();
    let usable = |built: &Built| {
        built.index.fields == [field.id] && !taken.contains(built.index.name.as_str()) && built.fits(dataset)
    };
    if let Some(earlier) = earlier.filter(usable) {
        return Ok(Some(earlier));
    }
    let params = ScalarIndexParams::for_builtin(BuiltinIndexType::BTree);
    let path = format_field_path(&[column.name.as_str()]);
    let fragments = Arc::clone(dataset.fragments());
    let mut dataset = dataset.clone();
    let has_rows = dataset.count_fragments() > 0;
    let built = CreateIndexBuilder::new(&mut dataset, &[path.as_str()], IndexType::BTree, &params)
        .name(free_name(&taken))
        .train(has_rows)
        .execute_uncommitted()
        .await;
    let index = built.map_err(|error| error::of_table(uri, error))?;
    Ok(Some(Built { index, fragments }))
}

/// Whether an index is a B-tree, by the type of its details.
pub(crate) fn is_btree(index: &IndexMetadata) -> bool {
    index.index_details.as_ref().is_some_and(|details| details.type_url.ends_with("BTreeIndexDetails"))
}

fn free_name(taken: &BTreeSet<&str>) -> String {
    let numbered = (2_u32..).map(|number| format!("{NAME}_{number}"));
    std::iter::once(NAME.to_owned())
        .chain(numbered)
        .find(|name| !taken.contains(name.as_str()))
        .unwrap_or_else(|| NAME.to_owned())
}

/// The key column with the most distinct values among the first rows; by type on an empty table.
async fn most_selective<'a>(dataset: &Dataset, key: &'a KeySchema) -> lance_core::Result<&'a KeyColumn> {
    let [first, others @ ..] = key.columns() else {
        return Err(lance_core::Error::invalid_input("a key has at least one column"));
    };
    if others.is_empty() {
        return Ok(first);
    }
    let sample = sample(dataset, key).await?;
    let mut best = (first, selectivity(first, &sample));
    for column in others {
        let found = selectivity(column, &sample);
        if found > best.1 {
            best = (column, found);
        }
    }
    Ok(best.0)
}

async fn sample(dataset: &Dataset, key: &KeySchema) -> lance_core::Result<RecordBatch> {
    let columns: Vec<String> =
        key.columns().iter().map(|column| format_field_path(&[column.name.as_str()])).collect();
    let mut scanner = dataset.scan();
    scanner.project(&columns)?.limit(Some(SAMPLE_ROWS), None)?;
    let stream = scanner.try_into_stream().await?;
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    Ok(concat_batches(key.schema(), &batches)?)
}

/// Distinct values in the sample, then how many values the type has.
fn selectivity(column: &KeyColumn, sample: &RecordBatch) -> (usize, u8) {
    let distinct = sample
        .column_by_name(&column.name)
        .and_then(|values| sort(values, None).ok())
        .and_then(|sorted| partition(&[sorted]).ok())
        .map_or(0, |groups| groups.ranges().len());
    let width = match column.key_type {
        KeyType::Boolean => 0,
        KeyType::Int8 | KeyType::UInt8 => 1,
        KeyType::Int16 | KeyType::UInt16 => 2,
        KeyType::Int32 | KeyType::UInt32 => 3,
        _ => 4,
    };
    (distinct, width)
}
