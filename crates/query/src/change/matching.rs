//! The keys of the rows a condition keeps, in an order that does not depend on the rows there are.

use std::sync::Arc;

use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use datafusion::prelude::SessionConfig;
use headwater_format::key::KeySchema;

use super::key_hash::KeyHashExec;
use crate::bounded::bounded;
use crate::error::QueryError;
use crate::scan::ScanRequest;
use crate::snapshot::ReadSnapshot;

/// Bytes of keys sorted in memory; what is more goes through temporary files.
const SORT_BYTES: usize = 64 << 20;

impl ReadSnapshot {
    /// The keys of the live rows that `filter` keeps (none: of all), in the order of their hashes
    /// ([`KeySchema::hashes`]): the key columns, in key order, and the hash. At most `rows` of them at a
    /// time. The snapshot has been read to its end when the first are handed out, so it need not live longer.
    ///
    /// # Errors
    /// [`QueryError::Keys`] on a table without a key; otherwise as [`ReadSnapshot::scan`].
    pub async fn matching_keys(
        &self,
        filter: Option<&str>,
        rows: usize,
    ) -> Result<SendableRecordBatchStream, QueryError> {
        let Some(key) = self.base().key.clone() else {
            let reason = "the table has no key, so its rows cannot be named".to_owned();
            return Err(QueryError::Keys { reason });
        };
        let columns = key.columns().iter().map(|column| column.name.clone()).collect();
        let filter = filter.map(ToOwned::to_owned);
        let request = ScanRequest { columns: Some(columns), filter, ..ScanRequest::default() };
        let plan = by_hash(self.scan_plan(&request).await?, key)?;
        let config = SessionConfig::new().with_batch_size(rows.max(1));
        Ok(plan.execute(0, bounded(config, SORT_BYTES)?.task_ctx())?)
    }
}

fn by_hash(keys: Arc<dyn ExecutionPlan>, key: KeySchema) -> Result<Arc<dyn ExecutionPlan>, QueryError> {
    let places = 0..=key.columns().len();
    let hashed: Arc<dyn ExecutionPlan> = Arc::new(KeyHashExec::new(keys, key));
    let schema = hashed.schema();
    // By hash, then by key, so that rows of one key, which a base may have several of, are neighbours.
    let by = places.rev().map(|place| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(place).name(), place));
        PhysicalSortExpr::new_default(column)
    });
    let by = LexOrdering::new(by).ok_or_else(|| QueryError::execution("there is nothing to sort by"))?;
    Ok(Arc::new(SortExec::new(by, hashed)))
}
