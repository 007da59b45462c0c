//! Count: how many live rows there are.
//!
//! Without a condition it is arithmetic over the sources: rows less hidden ones, and no row is read.

use arrow_array::RecordBatch;
use datafusion::error::DataFusionError;
use futures::TryStreamExt;

use crate::error::QueryError;
use crate::scan::ScanRequest;
use crate::snapshot::ReadSnapshot;

impl ReadSnapshot {
    /// How many rows there are, or how many of them `filter` keeps.
    ///
    /// # Errors
    /// As [`ReadSnapshot::scan`].
    pub async fn count(&self, filter: Option<&str>) -> Result<u64, QueryError> {
        let Some(filter) = filter else { return self.count_all().await };
        let request = ScanRequest {
            columns: Some(Vec::new()),
            filter: Some(filter.to_owned()),
            ..ScanRequest::default()
        };
        let rows = self.scan(&request).await?;
        let add = |sum: u64, batch: RecordBatch| async move {
            Ok::<_, DataFusionError>(sum + batch.num_rows() as u64)
        };
        Ok(rows.try_fold(0, add).await?)
    }

    async fn count_all(&self) -> Result<u64, QueryError> {
        Ok(self.live_sources().await?.iter().map(|source| source.live()).sum())
    }
}
