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

/// Runs its inputs in order, each when the one before has ended: a limit above it never starts the rest.
#[derive(Debug)]
pub(crate) struct ConcatExec {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl ConcatExec {
    /// All inputs have one partition and the columns of `schema`.
    pub(crate) fn new(inputs: Vec<Arc<dyn ExecutionPlan>>, schema: SchemaRef) -> Self {
        Self { inputs, properties: one_partition(schema) }
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
        Ok(Arc::new(Self::new(children, self.schema())))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let started =
            stream::iter(self.inputs.clone()).map(move |input| input.execute(0, Arc::clone(&context)));
        let out = Arc::clone(&schema);
        let rows = started.try_flatten().and_then(move |batch| {
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
