//! The plan of a query.
//!
//! Rows: every source, filtered by itself → order → offset and limit → columns. Nearest rows, for each vector:
//! every source, filtered by itself → exact distance → so many nearest → postfilter → order → offset and limit
//! → columns. What the index of the base gives takes the same way as rows of any other source: its own
//! distances may be approximate, and those of two sources must compare.

use std::sync::Arc;

use arrow_schema::{SchemaRef, SortOptions};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{Literal, col};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, displayable, execute_stream};
use futures::{FutureExt, TryStreamExt};
use lance::index::vector::utils::{default_distance_type_for, validate_distance_type_for};
use lance_linalg::distance::DistanceType;

use super::checked::{Checked, QUERY_INDEX, part};
use super::request::QueryRequest;
use super::vector::Nearest;
use super::vector_index::{IndexSearch, Situation, VectorIndex, Way, choose};
use crate::error::QueryError;
use crate::exec::{Asked, ConcatExec, DISTANCE, DistanceExec, Measure, NearestSource, Source, SourceExec};
use crate::snapshot::ReadSnapshot;
use crate::sql::{guarded, planned};

type Plan = Arc<dyn ExecutionPlan>;

impl ReadSnapshot {
    /// Streams what `request` asks for. Sorting is done in bounded memory, with temporary files where it has
    /// to be. Dropping the stream stops the work.
    ///
    /// # Errors
    /// [`QueryError::Request`], [`QueryError::Column`] and [`QueryError::Filter`] with what is wrong with the
    /// request, [`QueryError::RowIds`] and [`QueryError::FullText`] for what a table with a write tier does
    /// not do, [`QueryError::Memory`]; otherwise as [`ReadSnapshot::scan`]. The stream's own errors are
    /// `QueryError`s too: convert them with `QueryError::from`.
    pub async fn query(&self, request: &QueryRequest) -> Result<SendableRecordBatchStream, QueryError> {
        let plan = self.query_plan(request).await?;
        Ok(guarded(execute_stream(plan, self.cache().context().await?)?))
    }

    /// The plan of a query, for people: its steps, and the sources with what is hidden of each. `verbose`
    /// tells every detail of each step. No row is read.
    ///
    /// # Errors
    /// As [`ReadSnapshot::query`].
    pub async fn explain_query(&self, request: &QueryRequest, verbose: bool) -> Result<String, QueryError> {
        let plan = self.query_plan(request).await?;
        Ok(displayable(plan.as_ref()).indent(verbose).to_string())
    }

    /// The plan of a query with what each step took and gave, for people: it is run, and its rows are let go.
    ///
    /// # Errors
    /// As [`ReadSnapshot::query`], and those of its stream.
    pub async fn analyze_query(&self, request: &QueryRequest) -> Result<String, QueryError> {
        let plan = self.query_plan(request).await?;
        let mut rows = guarded(execute_stream(Arc::clone(&plan), self.cache().context().await?)?);
        while rows.try_next().await?.is_some() {}
        Ok(DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(true).to_string())
    }

    async fn query_plan(&self, request: &QueryRequest) -> Result<Plan, QueryError> {
        // Boxed, as the plan of a scan is: deep types.
        let plan = async {
            let mut checked = Checked::new(request, self.schema())?;
            let key = self.base().key.as_ref();
            checked.filter = checked.filter.map(|filter| Arc::new(filter.as_ref().clone().naming_keys(key)));
            match &checked.nearest {
                None => self.plan_rows(&checked).await,
                Some(nearest) => self.plan_nearest(&checked, nearest).await,
            }
        };
        planned(plan.boxed()).await
    }

    async fn plan_rows(&self, checked: &Checked) -> Result<Plan, QueryError> {
        let columns = checked.reads(self.schema());
        // What comes first in an order may be in any source.
        let limit = checked.enough().filter(|_| checked.order.is_empty());
        let asked =
            Asked { output: Arc::clone(&columns), filter: checked.filter.clone(), limit, table: None };
        let rows = Arc::new(ConcatExec::new(self.sources(&asked).await?, columns));
        finished(rows, checked, None)
    }

    async fn plan_nearest(&self, checked: &Checked, nearest: &Nearest) -> Result<Plan, QueryError> {
        let base = self.base();
        let index = match nearest.metric.is_none() || nearest.search.fast || !nearest.search.bypass_index {
            true => VectorIndex::find(self.table(), base, &nearest.path).await?,
            false => None,
        };
        let metric = metric(nearest, index.as_ref())?;
        let index = index.filter(|index| index.metric == metric);
        let sources = self.live_sources().await?;
        let live = sources.iter().map(|source| source.live()).fold(0, u64::saturating_add);
        let live = usize::try_from(live).unwrap_or(usize::MAX);
        let mut plans = Vec::with_capacity(nearest.keys.len());
        for (place, key) in nearest.keys.iter().enumerate() {
            let (lower_bound, upper_bound) = (nearest.lower_bound, nearest.upper_bound);
            let measure = Measure {
                column: nearest.column.clone(),
                key: Arc::clone(key),
                metric,
                lower_bound,
                upper_bound,
            };
            let sources = self.searched(checked, nearest, &measure, index.as_ref(), &sources).await?;
            let columns = checked.reads(self.schema());
            let read = part(self.schema(), |name| {
                columns.field_with_name(name).is_ok() || nearest.column.columns().contains(name)
            });
            let asked = Asked {
                output: Arc::clone(&read),
                filter: checked.prefilter().cloned(),
                limit: None,
                table: None,
            };
            let rows = sources
                .into_iter()
                .map(|source| Ok(Arc::new(SourceExec::new(source, &asked, self.schema())?) as Plan));
            let rows = Arc::new(ConcatExec::new(rows.collect::<Result<_, QueryError>>()?, read));
            let rows: Plan = Arc::new(DistanceExec::new(rows, measure, &columns)?);
            // A limit that keeps every row is none: then they are sorted, in bounded memory.
            let wanted = checked.enough().filter(|enough| *enough < live);
            let rows = nearest_first(rows, wanted)?;
            let rows = match checked.postfilter() {
                None => rows,
                Some(filter) => Arc::new(FilterExec::try_new(filter.on(&rows.schema())?, rows)?),
            };
            let place = (nearest.keys.len() > 1).then_some(place);
            plans.push(finished(rows, checked, place)?);
        }
        match (plans.len(), plans.pop()) {
            (1, Some(only)) => Ok(only),
            (_, last) => {
                plans.extend(last);
                let schema = plans.first().map(|plan| plan.schema());
                let schema = schema.ok_or_else(|| QueryError::execution("a search without a vector"))?;
                Ok(Arc::new(ConcatExec::new(plans, schema)))
            }
        }
    }

    /// The sources one vector is looked for in: `sources`, with the base, the first of them, as it is to be
    /// searched.
    async fn searched(
        &self,
        checked: &Checked,
        nearest: &Nearest,
        measure: &Measure,
        index: Option<&VectorIndex>,
        sources: &[Arc<dyn Source>],
    ) -> Result<Vec<Arc<dyn Source>>, QueryError> {
        let mut sources = sources.to_vec();
        let Some(base) = sources.first() else { return Ok(sources) };
        let live = usize::try_from(base.live()).unwrap_or(usize::MAX);
        let wanted = checked.enough().unwrap_or(usize::MAX).min(live).max(1);
        let now = Situation {
            indexed: index.is_some(),
            filters: checked.prefilter().is_none_or(|filter| base.filters(filter)),
            live: live as u64,
            wanted: wanted as u64,
        };
        match (choose(&nearest.search, now), index) {
            (Way::Index, Some(index)) => {
                let search = IndexSearch {
                    path: nearest.path.clone(),
                    index: index.name.clone(),
                    key: Arc::clone(&measure.key),
                    metric: measure.metric,
                    wanted,
                    live,
                    lower_bound: measure.lower_bound,
                    upper_bound: measure.upper_bound,
                    how: nearest.search.clone(),
                };
                let hidden = &self.masks().await?.base;
                let base = NearestSource::new(self.table(), self.base(), hidden, base.live(), search).await?;
                if let Some(first) = sources.first_mut() {
                    *first = Arc::new(base);
                }
            }
            (Way::Not, _) => {
                sources.remove(0);
            }
            (Way::Flat | Way::Index, _) => {}
        }
        Ok(sources)
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

/// The `wanted` nearest rows, none = all, nearest first.
fn nearest_first(rows: Plan, wanted: Option<usize>) -> Result<Plan, QueryError> {
    let by = col(DISTANCE, &rows.schema())?;
    let order = LexOrdering::from([PhysicalSortExpr::new(by, SortOptions::new(false, false))]);
    Ok(sorted(rows, order, wanted))
}

fn sorted(rows: Plan, order: LexOrdering, wanted: Option<usize>) -> Plan {
    // A heap of no rows is none; the limit above takes care of it.
    Arc::new(SortExec::new(order, rows).with_fetch(wanted.map(|rows| rows.max(1))))
}

/// `rows` in their order, cut off, with the columns asked for; `place` is that of the query vector, if there
/// are several.
fn finished(rows: Plan, checked: &Checked, place: Option<usize>) -> Result<Plan, QueryError> {
    let schema = rows.schema();
    let by = checked.order.iter().map(|(by, options)| Ok(PhysicalSortExpr::new(by.on(&schema)?, *options)));
    let by: Vec<PhysicalSortExpr> = by.collect::<Result<_, QueryError>>()?;
    let rows = match LexOrdering::new(by) {
        None => rows,
        Some(order) => sorted(rows, order, checked.enough()),
    };
    let rows = match checked.offset == 0 && checked.limit.is_none() {
        true => rows,
        false => Arc::new(GlobalLimitExec::new(rows, checked.offset, checked.limit)) as Plan,
    };
    Ok(Arc::new(ProjectionExec::try_new(columns(checked, &schema, place)?, rows)?))
}

fn columns(
    checked: &Checked,
    schema: &SchemaRef,
    place: Option<usize>,
) -> Result<Vec<(Arc<dyn PhysicalExpr>, String)>, QueryError> {
    let outputs = checked.outputs.iter().map(|(name, output)| Ok((output.on(schema)?, name.clone())));
    let index = place.map(|place| {
        let place = ScalarValue::Int32(i32::try_from(place).ok());
        Ok((Arc::new(Literal::new(place)) as Arc<dyn PhysicalExpr>, QUERY_INDEX.to_owned()))
    });
    index.into_iter().chain(outputs).collect()
}
