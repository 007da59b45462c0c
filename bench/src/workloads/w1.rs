//! W1: one client, durable 1-row puts one after the other, on local disk: the latency of a put.
//!
//! Against a bare PUT of the same bytes and the reference. The reference never syncs, so with fsync there is
//! only the bare write and sync to compare with.

use anyhow::Result;

use crate::bare;
use crate::bench::Bench;
use crate::clients;
use crate::engine::{BEST, DEFAULTS, Engine, OURS};
use crate::place::Place;
use crate::race::{Sample, Spread, alternate, percentile, sorted};
use crate::report::{Case, Target};

const ID: &str = "W1";
/// Puts of a round.
const PUTS: usize = 1_000;
/// Puts of a round where each waits for a timer of 100 ms.
const SLOW_PUTS: usize = 20;

#[derive(Clone, Copy)]
enum Who {
    Engine(Engine),
    Bare,
    BareStore,
}

impl Who {
    fn name(self) -> String {
        match self {
            Self::Engine(engine) => engine.name(),
            Self::Bare => "bare write + rename".to_owned(),
            Self::BareStore => "bare object_store put".to_owned(),
        }
    }
}

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let bytes = entry_of_one_row(bench).await?;
    bench.report.note(format!("W1: the bare PUTs write {} bytes, one WAL entry of ours", bytes.len()));
    without_fsync(bench, &bytes).await?;
    with_fsync(bench, &bytes).await
}

async fn without_fsync(bench: &mut Bench, bytes: &[u8]) -> Result<()> {
    let who = [Who::Engine(OURS), Who::Bare, Who::Engine(BEST), Who::Engine(DEFAULTS), Who::BareStore];
    let case = Case { workload: ID, case: "local disk, no fsync", unit: "ms p50" };
    let samples = measure(bench, &who, bytes, false).await?;
    bench.report.add(case, &who.map(Who::name), &samples);
    if let [ours, bare, best, defaults, store] = samples.as_slice() {
        let ratio = Spread::of_ratios(ours, bare);
        bench.report.judge(case, "headwater / bare write + rename", ratio, Some(Target::AtMost(1.3)));
        let ratio = Spread::of_ratios(ours, best);
        bench.report.judge(case, "headwater / reference at 1 ms", ratio, Some(Target::AtMost(1.0)));
        let ratio = Spread::of_ratios(ours, defaults);
        bench.report.judge(case, "headwater / reference at defaults", ratio, None);
        let ratio = Spread::of_ratios(ours, store);
        bench.report.judge(case, "headwater / bare object_store put", ratio, None);
    }
    Ok(())
}

async fn with_fsync(bench: &mut Bench, bytes: &[u8]) -> Result<()> {
    let who = [Who::Engine(OURS), Who::Bare, Who::BareStore];
    let case = Case { workload: ID, case: "local disk, fsync of file and directory", unit: "ms p50" };
    let samples = measure(bench, &who, bytes, true).await?;
    bench.report.add(case, &who.map(Who::name), &samples);
    if let [ours, bare, store] = samples.as_slice() {
        let ratio = Spread::of_ratios(ours, bare);
        bench.report.judge(case, "headwater / bare write + fsync", ratio, Some(Target::AtMost(1.3)));
        let ratio = Spread::of_ratios(ours, store);
        bench.report.judge(case, "headwater / bare object_store put", ratio, None);
    }
    Ok(())
}

async fn measure(bench: &Bench, who: &[Who], bytes: &[u8], fsync: bool) -> Result<Vec<Vec<Sample>>> {
    alternate(bench.rounds, who, async |who| round(bench, who, bytes, fsync).await).await
}

/// The sample's value is the median latency of a put, in milliseconds.
async fn round(bench: &Bench, who: Who, bytes: &[u8], fsync: bool) -> Result<Sample> {
    let place = bench.disk(fsync)?;
    let puts = bench.amount(PUTS);
    match who {
        Who::Engine(engine) => {
            let puts = if engine == DEFAULTS { SLOW_PUTS.min(puts) } else { puts };
            let batches = bench.batches(puts, 1)?;
            let sample = clients::measure(engine, &place, &batches, 1).await?;
            Ok(Sample { value: median(&sample.latencies_ms), ..sample })
        }
        Who::Bare | Who::BareStore => {
            let Place::Disk { home, .. } = &place else { anyhow::bail!("a bare PUT goes to disk") };
            let latencies_ms = match who {
                Who::Bare => bare::puts(home.path(), bytes, puts, fsync).await?,
                _ => bare::store_puts(home.path(), bytes, puts, fsync).await?,
            };
            Ok(Sample { value: median(&latencies_ms), latencies_ms, ..Sample::default() })
        }
    }
}

fn median(latencies_ms: &[f64]) -> f64 {
    percentile(&sorted(latencies_ms.iter().copied()), 0.5)
}

/// What ours writes for one row.
async fn entry_of_one_row(bench: &Bench) -> Result<Vec<u8>> {
    let place = bench.disk(false)?;
    clients::measure(OURS, &place, &bench.batches(1, 1)?, 1).await?;
    place.largest_entry()
}
