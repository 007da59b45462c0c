//! W4: flush of a million rows, as one generation and as ten, on local disk without fsync.
//!
//! Filling is not timed, flushing is: from the freeze to the published SSTable. The ceiling is a bare Lance
//! write of the same rows. Requests are counted in a run of their own, on a store in memory.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use arrow_array::{RecordBatch, RecordBatchIterator};
use lance::Dataset;

use crate::bench::Bench;
use crate::clients;
use crate::data;
use crate::engine::{BEST, Engine, Limits, OURS, Writer};
use crate::heap::Watch;
use crate::place::Place;
use crate::race::{Sample, Spread, alternate};
use crate::report::{Case, Target};

const ID: &str = "W4";
const BATCH_ROWS: usize = 1_000;
/// Batches of a round: a million rows.
const BATCHES: usize = 1_000;
/// Clients that fill the memtable.
const CLIENTS: usize = 16;
const MIB: f64 = 1_048_576.0;

#[derive(Clone, Copy)]
enum Who {
    Engine(Engine),
    BareLance,
}

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let batches = bench.batches(bench.amount(BATCHES), BATCH_ROWS)?;
    for generations in [1, 10] {
        timed(bench, &batches, generations).await?;
    }
    requests(bench, &batches).await?;
    peak(bench, &batches).await
}

async fn timed(bench: &mut Bench, batches: &Arc<[RecordBatch]>, generations: usize) -> Result<()> {
    let who = [Who::Engine(OURS), Who::Engine(BEST), Who::BareLance];
    let names = [OURS.name(), "reference".to_owned(), "bare Lance write".to_owned()];
    let name = match generations {
        1 => "flush as one generation, local disk, no fsync".to_owned(),
        several => format!("flush as {several} generations, local disk, no fsync"),
    };
    let case = Case { workload: ID, case: &name, unit: "rows/s" };
    let shared = &*bench;
    let samples = alternate(bench.rounds, &who, async |who| {
        let place = shared.disk(false)?;
        match who {
            Who::Engine(engine) => flushed(engine, &place, batches, generations).await,
            Who::BareLance => bare_lance(&place, batches).await,
        }
    })
    .await?;
    bench.report.add(case, &names, &samples);
    if let [ours, reference, bare] = samples.as_slice() {
        let ratio = Spread::of_ratios(ours, reference);
        bench.report.judge(case, "headwater / reference", ratio, Some(Target::AtLeast(3.0)));
        let ratio = Spread::of_ratios(ours, bare);
        bench.report.judge(case, "headwater / bare Lance write", ratio, None);
    }
    Ok(())
}

/// The sample's value is rows flushed per second of flushing.
async fn flushed(
    engine: Engine,
    place: &Place,
    batches: &Arc<[RecordBatch]>,
    generations: usize,
) -> Result<Sample> {
    let rows = clients::rows(batches);
    let writer = Arc::new(engine.create(place, Limits::raised(rows, batches.len())).await?);
    let mut seconds = 0.0;
    for part in batches.chunks(batches.len().div_ceil(generations)) {
        let part: Arc<[RecordBatch]> = part.to_vec().into();
        clients::run(&writer, &part, CLIENTS).await?;
        let started = Instant::now();
        writer.flush().await?;
        seconds += started.elapsed().as_secs_f64();
    }
    let left = writer.rows().await?;
    ensure!(left == 0, "{} holds {left} rows after a flush", engine.name());
    writer.abandon().await?;
    Ok(Sample { value: rows as f64 / seconds, seconds, ..Sample::default() })
}

async fn bare_lance(place: &Place, batches: &Arc<[RecordBatch]>) -> Result<Sample> {
    let rows = clients::rows(batches);
    let owned = batches.to_vec();
    let reader = RecordBatchIterator::new(owned.into_iter().map(Ok), data::schema());
    let uri = place.uri();
    let started = Instant::now();
    Dataset::write(reader, uri.as_str(), None).await?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Sample { value: rows as f64 / seconds, seconds, ..Sample::default() })
}

/// A writer with all rows in its memtable.
async fn filled(engine: Engine, place: &Place, batches: &Arc<[RecordBatch]>) -> Result<Arc<Writer>> {
    let limits = Limits::raised(clients::rows(batches), batches.len());
    let writer = Arc::new(engine.create(place, limits).await?);
    clients::run(&writer, batches, CLIENTS).await?;
    Ok(writer)
}

async fn requests(bench: &mut Bench, batches: &Arc<[RecordBatch]>) -> Result<()> {
    let case = Case { workload: ID, case: "one flush, store in memory", unit: "requests" };
    let mut totals = Vec::new();
    for engine in [OURS, BEST] {
        let place = Place::bucket(0);
        let writer = filled(engine, &place, batches).await?;
        let before = place.requests();
        writer.flush().await?;
        let requests = place.requests_since(&before);
        writer.abandon().await?;
        totals.push(requests.values().sum::<u64>() as f64);
        bench.report.add_requests(case, &engine.name(), requests);
    }
    if let [ours, reference] = totals.as_slice() {
        let ratio = Spread::of([ours / reference]);
        bench.report.judge(case, "headwater / reference", ratio, Some(Target::AtMost(0.5)));
    }
    Ok(())
}

async fn peak(bench: &mut Bench, batches: &Arc<[RecordBatch]>) -> Result<()> {
    let case =
        Case { workload: ID, case: "flush as one generation, local disk", unit: "MiB heap beside memtable" };
    let mut samples = Vec::new();
    for engine in [OURS, BEST] {
        let place = bench.disk(false)?;
        let writer = filled(engine, &place, batches).await?;
        let watch = Watch::start();
        writer.flush().await?;
        let peak = watch.peak();
        drop(watch);
        writer.abandon().await?;
        samples.push(vec![Sample { value: peak as f64 / MIB, ..Sample::default() }]);
    }
    bench.report.add(case, &[OURS.name(), "reference".to_owned()], &samples);
    Ok(())
}
