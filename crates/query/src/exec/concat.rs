//! Sources one after the other, in one partition.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::properties::one_partition;
use crate::stream::first_batch;

/// Runs its inputs in order.
#[derive(Debug)]
pub(crate) struct ConcatExec {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    start: Start,
    properties: Arc<PlanProperties>,
}

/// When an input is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// When the one before has ended: a limit above never starts the rest.
    WhenNeeded,
    /// Together with the one before: where all are wanted, the wait for storage is over when its turn comes.
    OneAhead,
}

impl Start {
    /// The better one for a read that ends after `limit` rows.
    pub(crate) fn under(limit: Option<usize>) -> Self {
        if limit.is_some() { Self::WhenNeeded } else { Self::OneAhead }
    }
}

impl ConcatExec {
    /// All inputs have one partition and the columns of `schema`.
    pub(crate) fn new(inputs: Vec<Arc<dyn ExecutionPlan>>, schema: SchemaRef, start: Start) -> Self {
        Self { inputs, start, properties: one_partition(schema) }
    }
}

impl DisplayAs for ConcatExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConcatExec: sources={}", self.inputs.len())
    }
}

impl ExecutionPlan for ConcatExec {
    fn name(&self) -> &'static str {
        "ConcatExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    /// One partition of each input is read; more of them must not be made.
    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition; self.inputs.len()]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(children, self.schema(), self.start)))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let at_once = if self.start == Start::OneAhead { 2 } else { 1 };
        let started = stream::iter(self.inputs.clone()).map(move |input| {
            let rows = input.execute(0, Arc::clone(&context));
            async move { first_batch(rows?).await }
        });
        let out = Arc::clone(&schema);
        let rows = started.buffered(at_once).try_flatten().and_then(move |batch| {
            // Sources differ in the metadata of their schemas at most.
            let batch = batch.with_schema(Arc::clone(&out)).map_err(DataFusionError::from);
            futures::future::ready(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        let mut rows = Precision::Exact(0);
        for input in &self.inputs {
            rows = rows.add(&input.partition_statistics(None)?.num_rows);
        }
        Ok(Arc::new(Statistics::new_unknown(&self.schema()).with_num_rows(rows)))
    }
}
