//! The live rows of one source, as a leaf of a plan.
//!
//! Owns: [`SourceExec`], what every source has in common: filter, projection and limit over the rows a
//! [`Source`] hands out, exact row counts, its line in EXPLAIN. Does not own: which rows are hidden (each
//! source takes them out itself, before anything here sees them: P4), or the order of sources.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future};
use headwater_lance::retype_batch;

use super::handed_out::{Manner, handed_out};
use super::properties::one_partition;
use crate::error::QueryError;
use crate::filter::{Filter, rows_kept};

/// Rows of a source as they are read.
pub(crate) type Rows = BoxStream<'static, Result<RecordBatch, QueryError>>;

/// What all sources of a read are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Columns to hand out.
    pub output: SchemaRef,
    /// Rows to hand out: those it keeps.
    pub filter: Option<Arc<Filter>>,
    /// More rows than this are of no use.
    pub limit: Option<usize>,
    /// Named in errors of rows on their way, where a query has several tables.
    pub table: Option<Arc<str>>,
}

/// What is left for the source itself to do.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// Columns to hand out.
    pub columns: SchemaRef,
    /// Only rows it keeps are wanted. A source that does not filter may hand out others too, but no fewer.
    pub filter: Option<Arc<Filter>>,
    /// More rows than this are of no use.
    pub limit: Option<usize>,
}

/// One source of a snapshot, without the rows that are hidden.
pub(crate) trait Source: fmt::Debug + Send + Sync {
    /// Which one it is, how large, and how much of it is hidden: for EXPLAIN.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Whether it looks keys up where a filter names them, instead of reading all rows.
    fn looks_up(&self) -> bool;

    /// How many live rows it has. Exact.
    fn live(&self) -> u64;

    /// Whether it hands all of them out, as long as it is not told to filter or that fewer are enough.
    fn hands_out_all(&self) -> bool {
        true
    }

    /// Whether it applies the filter itself; if not, [`SourceExec`] does.
    fn filters(&self, filter: &Filter) -> bool;

    /// Starts to read when the stream is polled; dropping it stops the work.
    fn rows(&self, read: &Read) -> Result<Rows, QueryError>;
}

/// Reads a [`Source`].
#[derive(Debug)]
pub(crate) struct SourceExec {
    source: Arc<dyn Source>,
    asked: Asked,
    read: Read,
    /// What is to be applied to its rows.
    condition: Option<Arc<dyn PhysicalExpr>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SourceExec {
    /// Plans to read `source`, which is of a table with columns `table`.
    ///
    /// # Errors
    /// [`QueryError::Filter`] when the filter cannot be applied to these columns.
    pub(crate) fn new(source: Arc<dyn Source>, asked: &Asked, table: &Schema) -> Result<Self, QueryError> {
        let own = asked.filter.as_ref().filter(|filter| !source.filters(filter));
        let columns = match own {
            None => Arc::clone(&asked.output),
            Some(filter) => with_filter_columns(&asked.output, filter, table),
        };
        let condition = own.map(|filter| filter.on(&columns)).transpose()?;
        let limit = asked.limit.filter(|_| condition.is_none());
        let read = Read { columns, filter: asked.filter.clone(), limit };
        let properties = one_partition(Arc::clone(&asked.output));
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { source, asked: asked.clone(), read, condition, properties, metrics })
    }

    fn num_rows(&self) -> Precision<usize> {
        let live = usize::try_from(self.source.live()).unwrap_or(usize::MAX);
        let rows = self.asked.limit.map_or(live, |limit| live.min(limit));
        match self.asked.filter.is_none() && self.source.hands_out_all() {
            true => Precision::Exact(rows),
            false => Precision::Inexact(rows),
        }
    }
}

impl DisplayAs for SourceExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if format != DisplayFormatType::TreeRender {
            write!(f, "SourceExec: ")?;
        }
        self.source.describe(f)?;
        if let Some(filter) = &self.asked.filter {
            if let Some(keys) = filter.keys().filter(|_| self.source.looks_up()) {
                write!(f, ", keys={}", keys.num_rows())?;
            }
            write!(f, ", filter={}", filter.expr())?;
            // Where it cannot fail on a hidden row, the base filters through its indexes.
            if self.condition.is_none() {
                write!(f, " (by lance)")?;
            }
        }
        self.asked.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
    }
}

impl ExecutionPlan for SourceExec {
    fn name(&self) -> &'static str {
        "SourceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (condition, output) = (self.condition.clone(), Arc::clone(&self.asked.output));
        let table = self.asked.table.clone();
        let told = move |error: QueryError| DataFusionError::from(error.of_table(table.as_deref()));
        let rows = self.source.rows(&self.read).map_err(&told)?.map_err(told);
        let rows = rows.map(move |batch| kept(batch?, condition.as_ref(), &output));
        let rows = rows.try_filter(|batch| future::ready(batch.num_rows() > 0));
        let manner = Manner {
            rows: context.session_config().batch_size(),
            limit: self.asked.limit,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let rows = handed_out(rows, self.schema(), manner);
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema()).with_num_rows(self.num_rows())))
    }
}

/// The rows of `batch` for which `condition` is true, with the columns of `output`.
fn kept(
    batch: RecordBatch,
    condition: Option<&Arc<dyn PhysicalExpr>>,
    output: &SchemaRef,
) -> Result<RecordBatch> {
    let batch = match condition {
        None => batch,
        Some(condition) => rows_kept(&batch, condition)?,
    };
    Ok(retype_batch(&batch, output)?)
}

/// `output` and what the filter needs beside it.
fn with_filter_columns(output: &SchemaRef, filter: &Filter, table: &Schema) -> SchemaRef {
    let wanted =
        |name: &String| output.field_with_name(name).is_ok() || filter.columns().contains(name.as_str());
    let fields = table.fields().iter().filter(|field| wanted(field.name())).cloned();
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), table.metadata().clone()))
}
