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
use headwater_engine::table::TableError;
use headwater_lance::{BaseVersion, LanceTable, retype_batch};
use lance::dataset::scanner::Scanner;
use lance_core::ROW_ADDR;
use roaring::RoaringBitmap;

use super::properties::one_partition;
use crate::base_keys::BaseRows;
use crate::error::QueryError;

/// Some columns of the base's rows. Lance filters, through its indexes where it has them; hidden rows are
/// taken out of each batch afterwards.
#[derive(Debug)]
pub(crate) struct BaseScanExec {
    table: Arc<LanceTable>,
    base: BaseVersion,
    filter: Option<Expr>,
    hidden: Arc<BaseRows>,
    properties: Arc<PlanProperties>,
}

impl BaseScanExec {
    /// The columns of `schema` of the rows that `filter` keeps and that are not in `hidden`.
    pub(crate) fn new(
        table: Arc<LanceTable>,
        base: BaseVersion,
        schema: SchemaRef,
        filter: Option<Expr>,
        hidden: Arc<BaseRows>,
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
        let hidden: u64 = self.hidden.values().map(RoaringBitmap::len).sum();
        write!(f, "BaseScanExec: version={}, hidden={hidden}", self.base.dataset.version_id())?;
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
        let explain = {
            let table = Arc::clone(&self.table);
            move |error| DataFusionError::from(QueryError::Table(table.base_error(error)))
        };
        let scanner = self.scanner().map_err(&explain)?;
        let (hidden, out, table) = (Arc::clone(&self.hidden), Arc::clone(&schema), Arc::clone(&self.table));
        let rows = stream::once(async move { scanner.try_into_stream().await }).try_flatten();
        let rows = rows.map_err(explain).map(move |batch| {
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
fn shown(batch: &RecordBatch, hidden: &BaseRows, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if hidden.is_empty() {
        return retype_batch(batch, schema);
    }
    let addresses = batch.column_by_name(ROW_ADDR).and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let addresses = addresses
        .ok_or_else(|| ArrowError::SchemaError("a scan came back without row addresses".to_owned()))?;
    let kept = kept(addresses.values(), hidden);
    match kept {
        None => retype_batch(batch, schema),
        Some(kept) => retype_batch(&filter_record_batch(batch, &kept)?, schema),
    }
}

/// Which of the rows at `addresses` are not hidden; none when that is all of them.
fn kept(addresses: &[u64], hidden: &BaseRows) -> Option<BooleanArray> {
    let mut fragment: Option<(u32, Option<&RoaringBitmap>)> = None;
    let mut every = true;
    let mut keep = |address: &u64| {
        let (id, offset) = ((*address >> 32) as u32, *address as u32);
        let rows = match fragment {
            Some((known, rows)) if known == id => rows,
            _ => {
                let rows = hidden.get(&id);
                fragment = Some((id, rows));
                rows
            }
        };
        let keep = !rows.is_some_and(|rows| rows.contains(offset));
        every &= keep;
        keep
    };
    let kept: BooleanArray = addresses.iter().map(|address| Some(keep(address))).collect();
    (!every).then_some(kept)
}
