//! The plan of a query, and running it.
//!
//! Owns: the steps every query has: rows → order → offset and limit → columns. Where rows come from: every
//! source, filtered by itself, or those near to a vector (`nearest`).

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, displayable, execute_stream};
use futures::{FutureExt, TryStreamExt};

use super::checked::{Checked, QUERY_INDEX};
use super::expression::Expression;
use super::nearest::Search;
use super::request::QueryRequest;
use crate::error::QueryError;
use crate::exec::{Asked, ConcatExec, Start};
use crate::snapshot::ReadSnapshot;
use crate::sql::{guarded, planned};

/// Steps so far.
pub(super) type Plan = Arc<dyn ExecutionPlan>;

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
                Some(nearest) => Search::of(self, &checked, nearest).await?.plan().await,
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
        let rows = Arc::new(ConcatExec::new(self.sources(&asked).await?, columns, Start::under(limit)));
        finished(rows, checked, None)
    }
}

/// The first `wanted` rows, none = all, in their order. All of them are sorted in bounded memory.
pub(super) fn sorted(rows: Plan, order: LexOrdering, wanted: Option<usize>) -> Plan {
    // A heap of no rows is none; the limit above takes care of it.
    Arc::new(SortExec::new(order, rows).with_fetch(wanted.map(|rows| rows.max(1))))
}

/// `rows` in their order, cut off, with the columns asked for; `place` is that of the query vector, if there
/// are several.
pub(super) fn finished(rows: Plan, checked: &Checked, place: Option<usize>) -> Result<Plan, QueryError> {
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
) -> Result<Vec<ProjectionExpr>, QueryError> {
    let output =
        |(name, output): &(String, Expression)| Ok(ProjectionExpr::new(output.on(schema)?, name.clone()));
    let index = place.map(|place| {
        let place = ScalarValue::Int32(i32::try_from(place).ok());
        Ok(ProjectionExpr::new(Arc::new(Literal::new(place)), QUERY_INDEX.to_owned()))
    });
    index.into_iter().chain(checked.outputs.iter().map(output)).collect()
}
