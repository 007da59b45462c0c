//! A snapshot as a table of DataFusion.
//!
//! Owns: [`ReadSnapshot::provider`]. Does not own: the plan of its sources (`scan`), SQL (`sql`). Filters
//! that depend on nothing but the row are applied to every source, exactly, so that a limit above them is
//! pushed down too; DataFusion applies the others itself (P13).

use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;

use crate::exec::{Asked, ConcatExec, Start};
use crate::filter::Filter;
use crate::snapshot::ReadSnapshot;

/// The live rows of one snapshot.
#[derive(Debug)]
struct SnapshotTable {
    snapshot: ReadSnapshot,
}

impl ReadSnapshot {
    /// Its live rows, as a table of DataFusion: filters, columns and limits are pushed into every source, and
    /// the number of rows is exact. Reads the same however often it is scanned (P6).
    pub fn provider(&self) -> Arc<dyn TableProvider> {
        Arc::new(SnapshotTable { snapshot: self.clone() })
    }
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.snapshot.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let answer = |filter: &&Expr| match Filter::takes(filter, self.snapshot.schema()) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(answer).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (snapshot, table) = (&self.snapshot, self.snapshot.table().uri());
        let output = match projection {
            Some(columns) => Arc::new(snapshot.schema().project(columns)?),
            None => Arc::clone(snapshot.schema()),
        };
        let filter = Filter::all_of(filters, snapshot.schema())?;
        let filter = filter.map(|filter| Arc::new(filter.naming_keys(snapshot.base().key.as_ref())));
        let asked = Asked { output: Arc::clone(&output), filter, limit, table: Some(table.into()) };
        let sources = snapshot.sources(&asked).await.map_err(|error| error.of_table(Some(table)))?;
        // What a limit asks for is often in the first source already: the next is started when it is not.
        let partitions = if limit.is_some() { 1 } else { state.config().target_partitions() };
        let groups = dealt(sources, partitions).into_iter();
        let read = groups.map(|group| one_after_the_other(group, &output, Start::under(limit))).collect();
        UnionExec::try_new(read)
    }
}

fn one_after_the_other(
    mut sources: Vec<Arc<dyn ExecutionPlan>>,
    output: &SchemaRef,
    start: Start,
) -> Arc<dyn ExecutionPlan> {
    match (sources.len(), sources.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            sources.extend(last);
            Arc::new(ConcatExec::new(sources, Arc::clone(output), start))
        }
    }
}

/// Deals sources out to at most so many groups. The first, the base, is the largest by far: it has a group of
/// its own if there are two.
fn dealt<T>(sources: Vec<T>, groups: usize) -> Vec<Vec<T>> {
    let groups = groups.min(sources.len()).max(1);
    if groups == 1 {
        return vec![sources];
    }
    let mut dealt: Vec<Vec<T>> = (0..groups).map(|_| Vec::new()).collect();
    for (place, source) in sources.into_iter().enumerate() {
        let group = if place == 0 { 0 } else { 1 + (place - 1) % (groups - 1) };
        if let Some(group) = dealt.get_mut(group) {
            group.push(source);
        }
    }
    dealt
}
