//! The live rows of an SSTable that nothing newer hides.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::TryStreamExt;
use headwater_format::coord::{Generation, ShardId};
use headwater_lance::SsTableFiles;
use roaring::RoaringBitmap;

use super::properties::one_partition;
use crate::error::QueryError;

/// Some columns of an SSTable's live rows.
#[derive(Debug)]
pub(crate) struct SsTableScanExec {
    shard: ShardId,
    generation: Generation,
    files: Arc<SsTableFiles>,
    hidden: Arc<RoaringBitmap>,
    properties: Arc<PlanProperties>,
}

impl SsTableScanExec {
    /// The columns of `schema` of the live rows that are not in `hidden`.
    pub(crate) fn new(
        shard: ShardId,
        generation: Generation,
        files: Arc<SsTableFiles>,
        schema: SchemaRef,
        hidden: Arc<RoaringBitmap>,
    ) -> Self {
        Self { shard, generation, files, hidden, properties: one_partition(schema) }
    }
}

impl DisplayAs for SsTableScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, hidden) = (self.files.rows(), self.hidden.len());
        write!(
            f,
            "SsTableScanExec: shard={}, generation={}, rows={rows}, hidden={hidden}",
            self.shard, self.generation
        )
    }
}

impl ExecutionPlan for SsTableScanExec {
    fn name(&self) -> &'static str {
        "SsTableScanExec"
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

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let rows = Arc::clone(&self.files).stream(Arc::clone(&schema), Arc::clone(&self.hidden));
        let rows = rows.map_err(|error| DataFusionError::from(QueryError::Table(error)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
