//! The rows of the base that a filter keeps and nothing newer hides.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt, future, stream};
use headwater_engine::shadow::HiddenRows;
use headwater_engine::table::TableError;
use headwater_lance::{BaseVersion, LanceTable, retype_batch};
use lance::dataset::scanner::Scanner;
use lance_core::ROW_ADDR;

use super::properties::one_partition;
use crate::error::QueryError;

/// Some columns of the base's rows. Lance filters, through its indexes where it has them; hidden rows are
/// taken out of each batch afterwards.
#[derive(Debug)]
pub(crate) struct BaseScanExec {
    table: Arc<LanceTable>,
    base: BaseVersion,
    filter: Option<Expr>,
    hidden: Arc<HiddenRows>,
    properties: Arc<PlanProperties>,
}

impl BaseScanExec {
    /// The columns of `schema` of the rows that `filter` keeps and that are not in `hidden`.
    pub(crate) fn new(
        table: Arc<LanceTable>,
        base: BaseVersion,
        schema: SchemaRef,
        filter: Option<Expr>,
        hidden: Arc<HiddenRows>,
    ) -> Self {
        Self { table, base, filter, hidden, properties: one_partition(schema) }
    }

    fn scanner(&self) -> lance::Result<Scanner> {
        let mut scanner = self.base.dataset.scan();
        let schema = self.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        scanner.project_with_schema(&self.base.part(&names))?;
        // A scan needs a column, and the address says which rows are hidden.
        if names.is_empty() || !self.hidden.is_empty() {
            scanner.with_row_address();
        }
        if let Some(filter) = &self.filter {
            scanner.filter_expr(filter.clone());
        }
        Ok(scanner)
    }
}

impl DisplayAs for BaseScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, hidden) = (self.base.dataset.version_id(), self.hidden.rows());
        write!(f, "BaseScanExec: version={version}, hidden={hidden}")?;
        match &self.filter {
            Some(filter) => write!(f, ", filter={filter}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for BaseScanExec {
    fn name(&self) -> &'static str {
        "BaseScanExec"
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
        if self.base.dataset.fragments().is_empty() {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::empty())));
        }
        let scanner = self.scanner();
        let scanner = scanner.map_err(|error| QueryError::Table(self.table.base_error(error)))?;
        let (hidden, out, table) = (Arc::clone(&self.hidden), Arc::clone(&schema), Arc::clone(&self.table));
        let (explains, base) = (Arc::clone(&self.table), self.base.clone());
        let rows = stream::once(async move { scanner.try_into_stream().await }).try_flatten();
        let rows = rows.or_else(move |error| {
            let (table, base) = (Arc::clone(&explains), base.clone());
            async move {
                let error = table.name_damaged(&base, table.base_error(error)).await;
                Err(DataFusionError::from(QueryError::Table(error)))
            }
        });
        let rows = rows.map(move |batch| {
            shown(&batch?, &hidden, &out).map_err(|error| {
                let (path, reason) = (table.uri().to_owned(), error.to_string());
                QueryError::Table(TableError::Corrupt { path, reason }).into()
            })
        });
        let rows = rows.try_filter(|batch| future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// `batch` without hidden rows, with the columns of `schema`.
fn shown(batch: &RecordBatch, hidden: &HiddenRows, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if hidden.is_empty() {
        return retype_batch(batch, schema);
    }
    let addresses = batch.column_by_name(ROW_ADDR).and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let addresses = addresses
        .ok_or_else(|| ArrowError::SchemaError("a scan came back without row addresses".to_owned()))?;
    match hidden.kept(addresses.values()) {
        None => retype_batch(batch, schema),
        Some(kept) => retype_batch(&filter_record_batch(batch, &BooleanArray::new(kept, None))?, schema),
    }
}
