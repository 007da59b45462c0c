//! Small batches put together.
//!
//! A memtable hands rows out as they were written, one a batch at worst, and a filter leaves few of each
//! batch: every step above pays for each of them.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::coalesce::BatchCoalescer;
use datafusion::error::{DataFusionError, Result};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};

struct State<S> {
    batches: S,
    waiting: BatchCoalescer,
    ended: bool,
}

/// The rows of `batches`, at least `rows` a batch but for the last; batches that are large already are handed
/// on as they are.
pub(super) fn coalesced(
    batches: impl Stream<Item = Result<RecordBatch>> + Send + Unpin + 'static,
    schema: SchemaRef,
    rows: usize,
) -> BoxStream<'static, Result<RecordBatch>> {
    // Batches without columns are a number each.
    if schema.fields().is_empty() {
        return batches.boxed();
    }
    let rows = rows.max(1);
    let waiting = BatchCoalescer::new(schema, rows).with_biggest_coalesce_batch_size(Some(rows / 2));
    stream::try_unfold(State { batches, waiting, ended: false }, next).boxed()
}

async fn next<S>(mut state: State<S>) -> Result<Option<(RecordBatch, State<S>)>>
where
    S: Stream<Item = Result<RecordBatch>> + Unpin,
{
    loop {
        if let Some(batch) = state.waiting.next_completed_batch() {
            return Ok(Some((batch, state)));
        }
        if state.ended {
            return Ok(None);
        }
        let pushed = match state.batches.next().await {
            Some(batch) => state.waiting.push_batch(batch?),
            None => {
                state.ended = true;
                state.waiting.finish_buffered_batch()
            }
        };
        pushed.map_err(DataFusionError::from)?;
    }
}
