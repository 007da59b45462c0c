//! Rows as a source hands them out: small batches put together, no more rows than are asked for, counted.
//!
//! A memtable has rows as they were written, one a batch at worst, and a filter leaves few of each batch:
//! every step above pays for each of them.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::coalesce::BatchCoalescer;
use datafusion::error::Result;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};

/// How rows are handed out.
pub(super) struct Manner {
    /// So many a batch, but for the last. Batches that are large already are handed on as they are.
    pub rows: usize,
    /// At most so many altogether: with the last of them the source is let go.
    pub limit: Option<usize>,
    /// Where they are counted.
    pub metrics: BaselineMetrics,
}

struct State<S> {
    batches: S,
    waiting: BatchCoalescer,
    left: usize,
    ended: bool,
    metrics: BaselineMetrics,
}

/// The rows of `batches`, which have the columns of `schema`.
pub(super) fn handed_out(
    batches: impl Stream<Item = Result<RecordBatch>> + Send + Unpin + 'static,
    schema: SchemaRef,
    manner: Manner,
) -> BoxStream<'static, Result<RecordBatch>> {
    let Manner { rows, limit, metrics } = manner;
    let left = limit.unwrap_or(usize::MAX);
    let rows = rows.min(left).max(1);
    // Batches without columns are a number each, and cost nothing to hand on.
    let large = if schema.fields().is_empty() { 0 } else { rows / 2 };
    let waiting = BatchCoalescer::new(schema, rows).with_biggest_coalesce_batch_size(Some(large));
    let state = State { batches, waiting, left, ended: false, metrics };
    stream::try_unfold(state, next).boxed()
}

async fn next<S>(mut state: State<S>) -> Result<Option<(RecordBatch, State<S>)>>
where
    S: Stream<Item = Result<RecordBatch>> + Unpin,
{
    while state.left > 0 {
        if let Some(batch) = state.waiting.next_completed_batch() {
            let batch = batch.slice(0, batch.num_rows().min(state.left));
            state.left -= batch.num_rows();
            state.metrics.record_output(batch.num_rows());
            return Ok(Some((batch, state)));
        }
        if state.ended {
            break;
        }
        match state.batches.next().await {
            Some(batch) => state.waiting.push_batch(batch?)?,
            None => {
                state.ended = true;
                state.waiting.finish_buffered_batch()?;
            }
        }
    }
    Ok(None)
}
