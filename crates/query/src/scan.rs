//! Scan: the live rows, some columns of them, those a condition keeps, so many of them.
//!
//! Owns: [`ScanRequest`] and its plan. Does not own: the operators (`exec`). Each source is read without its
//! hidden rows and filtered by itself; limit and offset come last (P4, P13).

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, displayable};

use crate::error::QueryError;
use crate::exec::{BaseScanExec, ConcatExec, MemtableScanExec, SsTableScanExec};
use crate::filter::{Filter, names};
use crate::masks::Masks;
use crate::snapshot::ReadSnapshot;

/// What to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanRequest {
    /// Top-level columns, in this order; none = all.
    pub columns: Option<Vec<String>>,
    /// A SQL condition, e.g. `origin = 'JFK' AND delay > 30`; none = every row.
    pub filter: Option<String>,
    /// At most this many rows.
    pub limit: Option<u64>,
    /// Leave out this many rows first.
    pub offset: u64,
}

impl ReadSnapshot {
    /// Streams the rows `request` asks for. Without an order: which rows a limit keeps is not said. Dropping
    /// the stream stops the work.
    ///
    /// # Errors
    /// [`QueryError::Filter`], [`QueryError::Column`]; [`QueryError::Shard`] when the snapshot has expired;
    /// [`QueryError::Table`] when storage does not answer. The stream's own errors are `QueryError`s too:
    /// convert them with `QueryError::from`.
    pub async fn scan(&self, request: &ScanRequest) -> Result<SendableRecordBatchStream, QueryError> {
        let plan = self.scan_plan(request).await?;
        Ok(plan.execute(0, Arc::new(TaskContext::default()))?)
    }

    /// The plan of a scan, for people: its sources, filters and what is hidden of each.
    ///
    /// # Errors
    /// As [`ReadSnapshot::scan`].
    pub async fn explain(&self, request: &ScanRequest) -> Result<String, QueryError> {
        let plan = self.scan_plan(request).await?;
        Ok(displayable(plan.as_ref()).indent(false).to_string())
    }

    /// One partition.
    pub(crate) async fn scan_plan(
        &self,
        request: &ScanRequest,
    ) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
        let output = self.output(request.columns.as_deref())?;
        let filter = request.filter.as_deref().map(|text| Filter::parse(text, self.schema())).transpose()?;
        let all = self.sources(&output, filter.as_ref()).await?;
        if request.offset == 0 && request.limit.is_none() {
            return Ok(all);
        }
        let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        Ok(Arc::new(GlobalLimitExec::new(all, count(request.offset), request.limit.map(count))))
    }

    /// The columns asked for.
    pub(crate) fn output(&self, columns: Option<&[String]>) -> Result<SchemaRef, QueryError> {
        let Some(columns) = columns else { return Ok(Arc::clone(self.schema())) };
        let field = |column: &String| {
            let field = self.schema().fields().iter().find(|field| field.name() == column);
            let known = || names(self.schema());
            field.cloned().ok_or_else(|| QueryError::Column { column: column.clone(), known: known() })
        };
        let mut fields = Vec::with_capacity(columns.len());
        for column in columns {
            let field = field(column)?;
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        Ok(Arc::new(Schema::new_with_metadata(fields, self.schema().metadata().clone())))
    }

    /// All sources one after the other, oldest first, each without its hidden rows and filtered.
    pub(crate) async fn sources(
        &self,
        output: &SchemaRef,
        filter: Option<&Filter>,
    ) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
        let masks = Arc::clone(self.masks().await?);
        let read = with_filter_columns(output, filter, self.schema());
        let mut sources = vec![self.base_source(output, &read, filter, &masks)?];
        for (shard, hidden) in self.shards().iter().zip(&masks.sstables) {
            let id = shard.snapshot.shard();
            let files = shard.open(self.table()).await?;
            for ((sstable, files), hidden) in shard.sstables.iter().zip(files).zip(hidden) {
                let hidden = Arc::clone(hidden);
                let scan = SsTableScanExec::new(id, sstable.generation, files, Arc::clone(&read), hidden);
                sources.push(shown(Arc::new(scan), output, filter)?);
            }
            for view in shard.memtables(self.base().mem_wal.compacted(id))? {
                if view.rows() > 0 {
                    let scan = MemtableScanExec::new(id, view, shard.snapshot.seq(), Arc::clone(&read));
                    sources.push(shown(Arc::new(scan), output, filter)?);
                }
            }
        }
        Ok(Arc::new(ConcatExec::new(sources, Arc::clone(output))))
    }

    /// The base. Lance filters it, through its indexes; but a condition that can fail must not see a row that
    /// is hidden (P4), so such a one is asked of what is left.
    fn base_source(
        &self,
        output: &SchemaRef,
        read: &SchemaRef,
        filter: Option<&Filter>,
        masks: &Masks,
    ) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
        let by_lance = filter.is_none_or(|filter| masks.base.is_empty() || filter.cannot_fail());
        let scan = |schema: &SchemaRef, filter: Option<&Filter>| {
            let (table, base) = (Arc::clone(self.table()), self.base().clone());
            let condition = filter.map(|filter| filter.expr().clone());
            BaseScanExec::new(table, base, Arc::clone(schema), condition, Arc::clone(&masks.base))
        };
        match by_lance {
            true => Ok(Arc::new(scan(output, filter))),
            false => shown(Arc::new(scan(read, None)), output, filter),
        }
    }
}

/// `output` and what the filter needs beside it.
fn with_filter_columns(output: &SchemaRef, filter: Option<&Filter>, table: &Schema) -> SchemaRef {
    let needed = filter.map(Filter::columns).unwrap_or_default();
    let wanted = |name: &String| output.field_with_name(name).is_ok() || needed.contains(name);
    let fields = table.fields().iter().filter(|field| wanted(field.name())).cloned();
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), table.metadata().clone()))
}

/// `source`, the rows the filter keeps, the columns of `output`.
fn shown(
    source: Arc<dyn ExecutionPlan>,
    output: &SchemaRef,
    filter: Option<&Filter>,
) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
    let source = match filter {
        None => source,
        Some(filter) => {
            let condition = filter.on(&source.schema())?;
            Arc::new(FilterExec::try_new(condition, source)?) as Arc<dyn ExecutionPlan>
        }
    };
    if source.schema().fields() == output.fields() {
        return Ok(source);
    }
    let columns = output.fields().iter().map(|field| {
        let column = col(field.name(), &source.schema())?;
        Ok((column, field.name().clone()))
    });
    let columns: Vec<_> = columns.collect::<Result<_, datafusion::error::DataFusionError>>()?;
    Ok(Arc::new(ProjectionExec::try_new(columns, source)?))
}
