//! Keys with their hashes.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::TryStreamExt;
use headwater_format::key::KeySchema;

use crate::error::QueryError;
use crate::exec::one_partition;

/// Adds the hash of the key to each row of its input, which has the key columns in key order and no others.
#[derive(Debug)]
pub(super) struct KeyHashExec {
    input: Arc<dyn ExecutionPlan>,
    key: KeySchema,
    properties: Arc<PlanProperties>,
}

impl KeyHashExec {
    /// The hash comes last.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, key: KeySchema) -> Self {
        let schema = input.schema();
        let hash = Arc::new(Field::new("hash of the key", DataType::UInt64, false));
        let fields: Vec<_> = schema.fields().iter().cloned().chain([hash]).collect();
        let properties = one_partition(Arc::new(Schema::new(fields)));
        Self { input, key, properties }
    }
}

impl DisplayAs for KeyHashExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHashExec")
    }
}

impl ExecutionPlan for KeyHashExec {
    fn name(&self) -> &'static str {
        "KeyHashExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(input, self.key.clone()))),
            _ => Err(DataFusionError::Internal("KeyHashExec has one input".to_owned())),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, key) = (self.schema(), self.key.clone());
        let rows = self.input.execute(partition, context)?;
        let hashed = rows.map_ok(move |batch| with_hashes(&batch, &key, &schema));
        let hashed = hashed.and_then(futures::future::ready);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), hashed)))
    }
}

fn with_hashes(batch: &RecordBatch, key: &KeySchema, schema: &SchemaRef) -> Result<RecordBatch> {
    let hashes = key.hashes(batch).map_err(QueryError::execution)?;
    let hashes: ArrayRef = Arc::new(UInt64Array::from(hashes));
    let columns = batch.columns().iter().cloned().chain([hashes]).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
