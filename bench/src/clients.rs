//! Closed-loop clients: each puts the next batch as soon as its last one is durable.
//!
//! Owns: running them and timing their puts. Does not own: what the batches are, what a run's figure means.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use arrow_array::RecordBatch;

use crate::data::ROW_BYTES;
use crate::engine::{Engine, Limits, Writer};
use crate::place::Place;
use crate::race::Sample;

/// How a run went.
pub struct Run {
    /// From the first put to the last acknowledgement.
    pub seconds: f64,
    /// Milliseconds of each put.
    pub latencies_ms: Vec<f64>,
}

/// Milliseconds of a duration.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// `clients` clients put all of `batches`, each batch once.
pub async fn run(writer: &Arc<Writer>, batches: &Arc<[RecordBatch]>, clients: usize) -> Result<Run> {
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|_| tokio::spawn(client(Arc::clone(writer), Arc::clone(batches), Arc::clone(&next))))
        .collect();
    let mut latencies_ms = Vec::with_capacity(batches.len());
    for task in tasks {
        latencies_ms.extend(task.await??);
    }
    Ok(Run { seconds: started.elapsed().as_secs_f64(), latencies_ms })
}

async fn client(
    writer: Arc<Writer>,
    batches: Arc<[RecordBatch]>,
    next: Arc<AtomicUsize>,
) -> Result<Vec<f64>> {
    let mut latencies_ms = Vec::new();
    while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
        let sent = Instant::now();
        writer.put(batch.clone()).await?;
        latencies_ms.push(ms(sent.elapsed()));
    }
    Ok(latencies_ms)
}

/// The rows of some batches.
pub fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// One timed run on a new table in `place`. The sample's value is rows per second.
pub async fn measure(
    engine: Engine,
    place: &Place,
    batches: &Arc<[RecordBatch]>,
    clients: usize,
) -> Result<Sample> {
    let rows = rows(batches);
    let writer = Arc::new(engine.create(place, Limits::raised(rows, batches.len())).await?);
    place.slow(true);
    let before = place.wal()?;
    let run = run(&writer, batches, clients).await?;
    let wal = place.wal()?.since(before);
    place.slow(false);
    let held = writer.rows().await?;
    ensure!(held == rows as u64 + 1, "{} holds {held} rows of {rows} and 1", engine.name());
    writer.abandon().await?;
    Ok(Sample {
        value: rows as f64 / run.seconds,
        seconds: run.seconds,
        latencies_ms: run.latencies_ms,
        wal: Some(wal),
        payload_bytes: rows as u64 * ROW_BYTES,
    })
}
