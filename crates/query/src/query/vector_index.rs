//! The index on the vectors of the base, and whether a query uses it.
//!
//! Owns: [`VectorIndex`], [`IndexSearch`] and [`choose`]. Does not own: the search itself (Lance), rows that
//! are not in the base (none of them is in an index of ours yet).

use arrow_array::ArrayRef;
use headwater_engine::table::TableError;
use headwater_lance::{BaseVersion, LanceTable};
use lance::dataset::scanner::Scanner;
use lance::index::{DatasetIndexExt, DatasetIndexInternalExt};
use lance_index::metrics::NoOpMetricsCollector;
use lance_linalg::distance::DistanceType;
use lance_table::format::IndexMetadata;

use super::request::VectorSearch;

/// How the type of the details of an index on vectors ends.
const DETAILS: &str = "VectorIndexDetails";

/// The index on a column of vectors.
#[derive(Clone, Debug)]
pub(super) struct VectorIndex {
    pub name: String,
    pub metric: DistanceType,
}

impl VectorIndex {
    /// The one Lance would use on the column at `path`; none when no fragment of `base` is in it.
    ///
    /// # Errors
    /// What storage said.
    pub(super) async fn find(
        table: &LanceTable,
        base: &BaseVersion,
        path: &str,
    ) -> Result<Option<Self>, TableError> {
        Self::look_for(base, path).await.map_err(|error| table.base_error(error))
    }

    async fn look_for(base: &BaseVersion, path: &str) -> lance::Result<Option<Self>> {
        let dataset = &base.dataset;
        let Ok(field) = dataset.schema().field_id(path) else { return Ok(None) };
        let indexes = dataset.load_indices().await?;
        let on_it = |index: &&IndexMetadata| index.fields.first() == Some(&field) && is_of_vectors(index);
        let Some(first) = indexes.iter().find(on_it) else { return Ok(None) };
        let existing = dataset.fragment_bitmap();
        let covers = |index: &IndexMetadata| {
            index.effective_fragment_bitmap(existing).is_some_and(|fragments| !fragments.is_empty())
        };
        if !indexes.iter().any(|index| index.name == first.name && covers(index)) {
            return Ok(None);
        }
        let index = dataset.open_vector_index(path, &first.uuid, &NoOpMetricsCollector).await?;
        Ok(Some(Self { name: first.name.clone(), metric: index.metric_type() }))
    }
}

/// Indexes made by old writers have no details.
fn is_of_vectors(index: &IndexMetadata) -> bool {
    index.index_details.as_ref().is_none_or(|details| details.type_url.ends_with(DETAILS))
}

/// How the base is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through its index.
    Index,
    /// Every row.
    Flat,
    /// Not at all.
    Not,
}

/// What decides how the base is searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// There is an index of the metric.
    pub indexed: bool,
    /// What is asked of the rows can be asked of them before hidden ones are taken out (P4).
    pub filters: bool,
    /// Rows of the base that are not hidden.
    pub live: usize,
    /// Nearest rows wanted.
    pub wanted: usize,
}

/// How the base is searched. An index that would have to name every row is of no use.
pub(super) fn choose(search: &VectorSearch, now: Situation) -> Way {
    if now.live == 0 || (search.fast && !now.indexed) {
        return Way::Not;
    }
    let usable = now.indexed && now.filters && (search.fast || !search.bypass_index);
    match usable && (search.fast || now.wanted < now.live) {
        true => Way::Index,
        false => Way::Flat,
    }
}

/// A search of the index for the nearest rows to one vector.
#[derive(Clone, Debug)]
pub(crate) struct IndexSearch {
    /// The column, as Lance spells it.
    pub path: String,
    /// The name of the index.
    pub index: String,
    /// The vector, in the type of the column.
    pub key: ArrayRef,
    pub metric: DistanceType,
    /// So many rows: at least one, and no more than there are.
    pub wanted: usize,
    /// Rows there are.
    pub live: usize,
    pub lower_bound: Option<f32>,
    pub upper_bound: Option<f32>,
    pub how: VectorSearch,
}

impl IndexSearch {
    /// Tells `scanner`, whose columns are set. Lance sets aside memory by these numbers before it looks at a
    /// row, so none is larger than the base.
    pub(crate) fn apply(&self, scanner: &mut Scanner) -> lance::Result<()> {
        scanner.nearest(&self.path, &self.key, self.wanted)?;
        scanner.distance_metric(self.metric).distance_range(self.lower_bound, self.upper_bound);
        scanner.prefilter(true).disable_scoring_autoprojection();
        let count = |given: u32| usize::try_from(given).unwrap_or(usize::MAX);
        if let Some(least) = self.how.minimum_nprobes {
            scanner.minimum_nprobes(count(least));
        }
        if let Some(most) = self.how.maximum_nprobes.filter(|most| *most > 0) {
            scanner.maximum_nprobes(count(most));
        }
        if let Some(effort) = self.how.effort {
            scanner.search_effort(effort)?;
        }
        let mut candidates = self.wanted;
        if let Some(factor) = self.how.refine_factor {
            let factor = count(factor).min(self.live.div_ceil(self.wanted.max(1))).max(1);
            candidates = self.wanted.saturating_mul(factor);
            scanner.refine(u32::try_from(factor).unwrap_or(u32::MAX));
        }
        if let Some(ef) = self.how.ef {
            // It cannot be less than what is asked for.
            scanner.ef(count(ef).min(self.live).max(candidates));
        }
        if self.how.fast {
            scanner.fast_search();
        }
        Ok(())
    }
}
