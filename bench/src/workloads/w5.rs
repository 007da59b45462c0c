//! W5: reopen a table with 1,000 WAL entries, a million rows in all, on local disk and on a store that takes
//! 20 ms for each request.
//!
//! Timed from nothing to a claimed shard that serves: the base is opened, the shard found and claimed, the
//! WAL replayed. Every reopening adds the sentinel of its epoch to the WAL, on both sides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use arrow_array::RecordBatch;

use crate::bench::Bench;
use crate::clients;
use crate::engine::{BEST, Engine, Limits, OURS, Writer};
use crate::heap::Watch;
use crate::place::Place;
use crate::race::{Sample, Spread, alternate};
use crate::report::{Case, Target};

const ID: &str = "W5";
const ENTRIES: usize = 1_000;
const ENTRY_ROWS: usize = 1_000;
/// Milliseconds of a request to the slow store.
const SLOW_MS: u64 = 20;
/// Long enough for the tasks of an abandoned writer to end.
const SETTLE: Duration = Duration::from_millis(500);
const MIB: f64 = 1_048_576.0;

/// A table somebody wrote and left.
struct Written {
    engine: Engine,
    place: Place,
    rows: usize,
    limits: Limits,
}

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let batches = bench.batches(bench.amount(ENTRIES), ENTRY_ROWS)?;
    let (one, other) = (bench.disk(false)?, bench.disk(false)?);
    let on_disk = [written(bench, OURS, one, &batches).await?, written(bench, BEST, other, &batches).await?];
    let case = Case { workload: ID, case: "reopen, local disk", unit: "s" };
    let rounds = bench.rounds;
    compare(bench, case, &on_disk, rounds, 2.0).await?;
    peak(bench, &on_disk).await?;
    drop(on_disk);

    let (one, other) = (Place::bucket(SLOW_MS), Place::bucket(SLOW_MS));
    let slow = [written(bench, OURS, one, &batches).await?, written(bench, BEST, other, &batches).await?];
    let case = Case { workload: ID, case: "reopen, 20 ms store", unit: "s" };
    let rounds = bench.long_rounds();
    compare(bench, case, &slow, rounds, 20.0).await?;
    requests(bench, &slow).await
}

/// Writes each batch as an entry of its own, and leaves the table as a crash would.
async fn written(
    bench: &mut Bench,
    engine: Engine,
    place: Place,
    batches: &Arc<[RecordBatch]>,
) -> Result<Written> {
    let rows = clients::rows(batches);
    let limits = Limits::raised(rows, batches.len());
    let opened = engine.create_table(&place, limits).await?;
    let writer = engine.claim(opened, limits).await?;
    for batch in batches.iter() {
        writer.put(batch.clone()).await?;
    }
    writer.abandon().await?;
    let wal = place.wal()?;
    let (entries, bytes, name) = (wal.entries, wal.bytes, engine.name());
    bench.report.note(format!("W5: {name} left {entries} WAL entries of {bytes} bytes in all"));
    Ok(Written { engine, place, rows, limits })
}

async fn reopen(table: &Written) -> Result<Writer> {
    let opened = table.engine.open_table(&table.place, table.limits).await?;
    table.engine.claim(opened, table.limits).await
}

/// All rows must be back.
async fn check(table: &Written, writer: &Writer) -> Result<()> {
    let (held, rows, name) = (writer.rows().await?, table.rows as u64, table.engine.name());
    ensure!(held == rows, "{name} replayed {held} rows of {rows}");
    Ok(())
}

async fn timed(table: &Written) -> Result<Sample> {
    table.place.slow(true);
    let started = Instant::now();
    let writer = reopen(table).await?;
    let seconds = started.elapsed().as_secs_f64();
    table.place.slow(false);
    check(table, &writer).await?;
    writer.abandon().await?;
    Ok(Sample { value: seconds, seconds, ..Sample::default() })
}

async fn compare(
    bench: &mut Bench,
    case: Case<'_>,
    tables: &[Written; 2],
    rounds: usize,
    target: f64,
) -> Result<()> {
    let who = tables.each_ref();
    let samples = alternate(rounds, &who, async |table| timed(table).await).await?;
    bench.report.add(case, &[OURS.name(), "reference".to_owned()], &samples);
    if let [ours, reference] = samples.as_slice() {
        let ratio = Spread::of_ratios(reference, ours);
        bench.report.judge(case, "reference / headwater", ratio, Some(Target::AtLeast(target)));
    }
    Ok(())
}

async fn requests(bench: &mut Bench, tables: &[Written; 2]) -> Result<()> {
    let case = Case { workload: ID, case: "one reopening, store in memory", unit: "requests" };
    for table in tables {
        let before = table.place.requests();
        let writer = reopen(table).await?;
        let requests = table.place.requests_since(&before);
        check(table, &writer).await?;
        writer.abandon().await?;
        bench.report.add_requests(case, &table.engine.name(), requests);
    }
    Ok(())
}

async fn peak(bench: &mut Bench, tables: &[Written; 2]) -> Result<()> {
    let case = Case { workload: ID, case: "reopen, local disk", unit: "MiB heap, memtable included" };
    let mut samples = Vec::new();
    for table in tables {
        // What runs before it left is freed by then.
        tokio::time::sleep(SETTLE).await;
        let watch = Watch::start();
        let writer = reopen(table).await?;
        let peak = watch.peak();
        drop(watch);
        writer.abandon().await?;
        samples.push(vec![Sample { value: peak as f64 / MIB, ..Sample::default() }]);
    }
    bench.report.add(case, &[OURS.name(), "reference".to_owned()], &samples);
    Ok(())
}
