//! Scan: the live rows, some columns of them, those a condition keeps, so many of them.
//!
//! Owns: [`ScanRequest`] and its plan, and the sources of every plan. Does not own: the operators (`exec`).
//! Each source is read without its hidden rows and filtered by itself; limit and offset come last (P4, P13).

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, displayable};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::error::QueryError;
use crate::exec::{Asked, BaseSource, ConcatExec, MemtableSource, Source, SourceExec, SsTableSource, Start};
use crate::filter::{Filter, names};
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

    /// One partition: sources one after the other, oldest first. Boxed: the types of SQL trees are so deep
    /// that whoever spawns a read would have to raise the compiler's recursion limit.
    pub(crate) fn scan_plan<'a>(
        &'a self,
        request: &'a ScanRequest,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>, QueryError>> {
        let plan = async move {
            let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
            let (offset, limit) = (count(request.offset), request.limit.map(count));
            let output = self.output(request.columns.as_deref())?;
            let filter =
                request.filter.as_deref().map(|text| Filter::parse(text, self.schema())).transpose()?;
            let filter = filter.map(|filter| Arc::new(filter.naming_keys(self.base().key.as_ref())));
            let enough = limit.map(|limit| limit.saturating_add(offset));
            let asked = Asked { output: Arc::clone(&output), filter, limit: enough, table: None };
            let sources = self.sources(&asked).await?;
            let all: Arc<dyn ExecutionPlan> =
                Arc::new(ConcatExec::new(sources, output, Start::under(enough)));
            if offset == 0 && limit.is_none() {
                return Ok(all);
            }
            let limited: Arc<dyn ExecutionPlan> = Arc::new(GlobalLimitExec::new(all, offset, limit));
            Ok(limited)
        };
        plan.boxed()
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

    /// What `asked` says of every source with live rows, oldest first; of the base in any case.
    pub(crate) async fn sources(&self, asked: &Asked) -> Result<Vec<Arc<dyn ExecutionPlan>>, QueryError> {
        let sources = self.live_sources().await?.into_iter();
        let read = sources.map(|source| {
            let source = SourceExec::new(source, asked, self.schema())?;
            Ok(Arc::new(source) as Arc<dyn ExecutionPlan>)
        });
        read.collect()
    }

    /// The base, and every other source that has live rows, oldest first, each without its hidden rows.
    pub(crate) async fn live_sources(&self) -> Result<Vec<Arc<dyn Source>>, QueryError> {
        let (base, masks) = (self.base(), Arc::clone(self.masks().await?));
        let rows = base.dataset.count_rows(None).await;
        let rows = rows.map_err(|error| QueryError::Table(self.table().base_error(error)))? as u64;
        let mut sources: Vec<Arc<dyn Source>> = vec![Arc::new(BaseSource::new(
            Arc::clone(self.table()),
            base.clone(),
            rows,
            Arc::clone(&masks.base),
            masks.base_rows(),
        ))];
        for (shard, hidden) in self.shards().iter().zip(&masks.sstables) {
            let id = shard.snapshot.shard();
            let files = shard.open(self.table()).await?;
            for ((sstable, files), hidden) in shard.sstables.iter().zip(files).zip(hidden) {
                let hidden = Arc::clone(hidden);
                sources.push(Arc::new(SsTableSource::new(id, sstable.generation, files, hidden).await?));
            }
            for view in shard.memtables(base.mem_wal.compacted(id))? {
                let (at, key) = (shard.snapshot.seq(), base.key.clone());
                sources.push(Arc::new(MemtableSource::new(id, view, at, key)));
            }
        }
        let mut first = true;
        sources.retain(|source| std::mem::take(&mut first) || source.live() > 0);
        Ok(sources)
    }
}
