//! Streams of rows.
//!
//! Owns: [`first_batch`]. Whoever may still read something else instead must know that a stream has begun
//! well before anything of it is handed on.

use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::error::QueryError;

/// Waits until `rows` has a first batch, or ends, and gives the whole stream back.
///
/// # Errors
/// The error it begins with.
pub async fn first_batch(
    mut rows: SendableRecordBatchStream,
) -> Result<SendableRecordBatchStream, QueryError> {
    let schema = rows.schema();
    let first = rows.next().await.transpose()?;
    let all = stream::iter(first.map(Ok)).chain(rows);
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all)))
}
