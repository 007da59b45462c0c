//! The live rows of a memtable at S.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::stream;
use headwater_engine::memtable::MemtableView;
use headwater_format::coord::{Seq, ShardId};
use headwater_lance::retype_batch;

use super::properties::one_partition;
use crate::error::QueryError;

/// Some columns of a memtable's live rows.
#[derive(Debug)]
pub(crate) struct MemtableScanExec {
    shard: ShardId,
    view: MemtableView,
    at: Seq,
    properties: Arc<PlanProperties>,
}

impl MemtableScanExec {
    /// The columns of `schema` of the rows that are live at `at`.
    pub(crate) fn new(shard: ShardId, view: MemtableView, at: Seq, schema: SchemaRef) -> Self {
        Self { shard, view, at, properties: one_partition(schema) }
    }
}

impl DisplayAs for MemtableScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, live) = (self.view.rows_at(self.at), self.view.live_rows(self.at));
        let generation = self.view.generation();
        write!(f, "MemtableScanExec: shard={}, generation={generation}, rows={rows}, live={live}", self.shard)
    }
}

impl ExecutionPlan for MemtableScanExec {
    fn name(&self) -> &'static str {
        "MemtableScanExec"
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
        let live = self.view.live(self.at);
        let live = live.map_err(|violation| QueryError::shard(self.shard, violation))?;
        let out = Arc::clone(&schema);
        let batches = live
            .into_iter()
            .map(move |batch: RecordBatch| retype_batch(&batch, &out).map_err(DataFusionError::from));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches))))
    }
}
