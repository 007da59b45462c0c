//! The plan of a search for nearest rows.
//!
//! For each vector: every source, filtered by itself → exact distance → so many nearest → postfilter →
//! order → offset and limit → columns. What the index of the base gives takes the same way as rows of any
//! other source: its own distances may be approximate, and those of two sources must compare.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{SchemaRef, SortOptions};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::filter::FilterExec;
use lance::index::vector::utils::{default_distance_type_for, validate_distance_type_for};
use lance_linalg::distance::DistanceType;

use super::checked::{Checked, part};
use super::plan::{Plan, finished, sorted};
use super::vector::Nearest;
use super::vector_index::{IndexSearch, Situation, VectorIndex, Way, choose};
use crate::error::QueryError;
use crate::exec::{
    Asked, ConcatExec, DISTANCE, DistanceExec, Measure, NearestSource, Source, SourceExec, Start,
};
use crate::snapshot::ReadSnapshot;

/// What the search for each vector of a query has in common.
pub(super) struct Search<'a> {
    snapshot: &'a ReadSnapshot,
    checked: &'a Checked,
    nearest: &'a Nearest,
    metric: DistanceType,
    /// The index of the base, if it is of this metric.
    index: Option<VectorIndex>,
    /// The base first.
    sources: Vec<Arc<dyn Source>>,
    /// Rows of all sources.
    live: usize,
    /// Columns needed once distances are known.
    columns: SchemaRef,
}

impl<'a> Search<'a> {
    /// Looks for an index, and at the sources of `snapshot`.
    ///
    /// # Errors
    /// [`QueryError::Request`] when the metric does not compare such vectors; otherwise what storage said.
    pub(super) async fn of(
        snapshot: &'a ReadSnapshot,
        checked: &'a Checked,
        nearest: &'a Nearest,
    ) -> Result<Self, QueryError> {
        let search = &nearest.search;
        let index = match nearest.metric.is_none() || search.fast || !search.bypass_index {
            true => VectorIndex::find(snapshot.table(), snapshot.base(), &nearest.path).await?,
            false => None,
        };
        let metric = metric(nearest, index.as_ref())?;
        let index = index.filter(|index| index.metric == metric);
        let sources = snapshot.live_sources().await?;
        let live = sources.iter().map(|source| source.live()).fold(0, u64::saturating_add);
        let live = usize::try_from(live).unwrap_or(usize::MAX);
        let columns = checked.reads(snapshot.schema());
        Ok(Self { snapshot, checked, nearest, metric, index, sources, live, columns })
    }

    /// The nearest rows to each vector, one after the other.
    pub(super) async fn plan(&self) -> Result<Plan, QueryError> {
        let mut plans = Vec::with_capacity(self.nearest.keys.len());
        for (place, key) in self.nearest.keys.iter().enumerate() {
            let place = (self.nearest.keys.len() > 1).then_some(place);
            plans.push(finished(self.near(key).await?, self.checked, place)?);
        }
        let schema = plans.first().map(|plan| plan.schema());
        match (plans.pop(), schema) {
            (Some(only), _) if plans.is_empty() => Ok(only),
            (Some(last), Some(schema)) => {
                plans.push(last);
                Ok(Arc::new(ConcatExec::new(plans, schema, Start::WhenNeeded)))
            }
            _ => Err(QueryError::request("vector", "there is none: give one or more")),
        }
    }

    /// The rows nearest to `key`, nearest first.
    async fn near(&self, key: &ArrayRef) -> Result<Plan, QueryError> {
        let Nearest { column, lower_bound, upper_bound, .. } = self.nearest;
        let measure = Measure {
            column: column.clone(),
            key: Arc::clone(key),
            metric: self.metric,
            lower_bound: *lower_bound,
            upper_bound: *upper_bound,
        };
        let table = self.snapshot.schema();
        let needed =
            |name: &str| self.columns.field_with_name(name).is_ok() || column.columns().contains(name);
        let read = part(table, needed);
        let filter = self.checked.prefilter().cloned();
        let asked = Asked { output: Arc::clone(&read), filter, limit: None, table: None };
        let sources = self.sources(key).await?.into_iter();
        let rows = sources.map(|source| Ok(Arc::new(SourceExec::new(source, &asked, table)?) as Plan));
        let rows = Arc::new(ConcatExec::new(rows.collect::<Result<_, QueryError>>()?, read, Start::OneAhead));
        let rows: Plan = Arc::new(DistanceExec::new(rows, measure, &self.columns)?);
        let by = col(DISTANCE, &rows.schema())?;
        let order = LexOrdering::from([PhysicalSortExpr::new(by, SortOptions::new(false, false))]);
        // A limit that keeps every row is none.
        let rows = sorted(rows, order, self.checked.enough().filter(|enough| *enough < self.live));
        match self.checked.postfilter() {
            None => Ok(rows),
            Some(filter) => Ok(Arc::new(FilterExec::try_new(filter.on(&rows.schema())?, rows)?)),
        }
    }

    /// The sources `key` is looked for in, the base as it is to be searched.
    async fn sources(&self, key: &ArrayRef) -> Result<Vec<Arc<dyn Source>>, QueryError> {
        let Some((base, others)) = self.sources.split_first() else { return Ok(Vec::new()) };
        let live = usize::try_from(base.live()).unwrap_or(usize::MAX);
        let wanted = self.checked.enough().unwrap_or(usize::MAX).min(live);
        let situation = Situation {
            indexed: self.index.is_some(),
            filters: self.checked.prefilter().is_none_or(|filter| base.filters(filter)),
            live,
            wanted,
        };
        let base: Option<Arc<dyn Source>> = match (choose(&self.nearest.search, situation), &self.index) {
            (Way::Not, _) => None,
            (Way::Index, Some(index)) => {
                let search = IndexSearch {
                    path: self.nearest.path.clone(),
                    index: index.name.clone(),
                    key: Arc::clone(key),
                    metric: self.metric,
                    // Lance looks for one row at least.
                    wanted: wanted.max(1),
                    live,
                    lower_bound: self.nearest.lower_bound,
                    upper_bound: self.nearest.upper_bound,
                    how: self.nearest.search.clone(),
                };
                let (snapshot, live) = (self.snapshot, base.live());
                let hidden = &snapshot.masks().await?.base;
                Some(Arc::new(
                    NearestSource::new(snapshot.table(), snapshot.base(), hidden, live, search).await?,
                ))
            }
            (Way::Flat | Way::Index, _) => Some(Arc::clone(base)),
        };
        Ok(base.into_iter().chain(others.iter().cloned()).collect())
    }
}

/// How distances are measured.
fn metric(nearest: &Nearest, index: Option<&VectorIndex>) -> Result<DistanceType, QueryError> {
    let metric = match (nearest.metric, index) {
        (Some(asked), _) => asked.into(),
        (None, Some(index)) => index.metric,
        (None, None) => default_distance_type_for(&nearest.element),
    };
    validate_distance_type_for(metric, &nearest.element).map_err(|_| {
        let reason = format!("{metric} does not compare vectors of {}", nearest.element);
        QueryError::request("distance_type", reason)
    })?;
    Ok(metric)
}
