//! How far each row is from a vector.
//!
//! Computed by Lance's own kernels, so that a distance here equals that of a plain Lance table (P13).

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt, future};
use lance_linalg::distance::DistanceType;

use super::properties::one_partition;
use crate::error::QueryError;
use crate::query::Expression;

/// The column a distance is in.
pub(crate) const DISTANCE: &str = "_distance";

/// What distances are measured from, how, and which of them are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// The column of vectors.
    pub column: Expression,
    /// The vector, of the type and dimension of the column.
    pub key: ArrayRef,
    pub metric: DistanceType,
    /// Distances from here on.
    pub lower_bound: Option<f32>,
    /// Distances below.
    pub upper_bound: Option<f32>,
}

/// Adds the distance of each row. Rows without one (no vector, a null in it, NaN), and those out of bounds,
/// are left out.
#[derive(Debug)]
pub(crate) struct DistanceExec {
    input: Arc<dyn ExecutionPlan>,
    measure: Measure,
    /// Columns of the input to hand on.
    kept: SchemaRef,
    vectors: Arc<dyn PhysicalExpr>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DistanceExec {
    /// `input` has the column of vectors and those of `kept`, which are handed on.
    ///
    /// # Errors
    /// [`QueryError::Request`] when it has not.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        measure: Measure,
        kept: &SchemaRef,
    ) -> Result<Self, QueryError> {
        let vectors = measure.column.on(&input.schema())?;
        let distance = Arc::new(Field::new(DISTANCE, DataType::Float32, true));
        let fields: Vec<_> = kept.fields().iter().cloned().chain([distance]).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, kept.metadata().clone()));
        let (kept, properties) = (Arc::clone(kept), one_partition(schema));
        Ok(Self { input, measure, kept, vectors, properties, metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl DisplayAs for DistanceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measure { metric, lower_bound, upper_bound, .. } = &self.measure;
        write!(f, "DistanceExec: metric={metric}, vectors={}", self.vectors)?;
        lower_bound.map_or(Ok(()), |bound| write!(f, ", from={bound}"))?;
        upper_bound.map_or(Ok(()), |bound| write!(f, ", below={bound}"))
    }
}

impl ExecutionPlan for DistanceExec {
    fn name(&self) -> &'static str {
        "DistanceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self::new(input, self.measure.clone(), &self.kept)?)),
            _ => Err(DataFusionError::Internal("DistanceExec has one input".to_owned())),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (measure, vectors) = (self.measure.clone(), Arc::clone(&self.vectors));
        let (kept, schema) = (Arc::clone(&self.kept), self.schema());
        let rows = self.input.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            let _time = metrics.elapsed_compute().timer();
            let near = measured(&batch, &measure, &vectors, &kept, &schema)?;
            metrics.record_output(near.num_rows());
            Ok(near)
        });
        let rows = rows.try_filter(|batch| future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

fn measured(
    batch: &RecordBatch,
    measure: &Measure,
    vectors: &Arc<dyn PhysicalExpr>,
    kept: &SchemaRef,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let vectors = vectors.evaluate(batch)?.into_array(batch.num_rows())?;
    let vectors = vectors.as_fixed_size_list_opt().ok_or_else(|| {
        QueryError::execution(format!("a column of vectors came back as {}", vectors.data_type()))
    })?;
    let distances = measure.metric.arrow_batch_func()(measure.key.as_ref(), vectors)?;
    let wanted = wanted(measure, vectors, &distances);
    let columns = kept.fields().iter().map(|field| {
        let column = batch.column_by_name(field.name()).cloned();
        column.ok_or_else(|| QueryError::execution(format!("column {} did not come back", field.name())))
    });
    let distances: ArrayRef = distances;
    let columns = columns.chain([Ok(distances)]).collect::<Result<Vec<_>, _>>()?;
    Ok(filter_record_batch(&RecordBatch::try_new(Arc::clone(schema), columns)?, &wanted)?)
}

/// Which rows have a distance that is asked for.
fn wanted(measure: &Measure, vectors: &FixedSizeListArray, distances: &Float32Array) -> BooleanArray {
    let dimension = measure.key.len();
    let numbers = vectors.values();
    let holds_null = |row: usize| {
        let start = row * dimension;
        numbers.null_count() > 0 && (start..start + dimension).any(|place| numbers.is_null(place))
    };
    let wanted = distances.iter().enumerate().map(|(row, distance)| {
        let inside = |distance: f32| {
            !distance.is_nan()
                && measure.lower_bound.is_none_or(|bound| distance >= bound)
                && measure.upper_bound.is_none_or(|bound| distance < bound)
        };
        Some(distance.is_some_and(inside) && !holds_null(row))
    });
    wanted.collect()
}
