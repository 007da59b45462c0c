//! Q2: PUTs and bytes per acknowledged MiB of text, at equal linger, on a store that takes 20 ms for each
//! request; and what the PUTs cost a month at the pace they were made.
//!
//! Ours lingers before an entry is written while none is in flight; the reference flushes at an interval. The
//! two are set to the same milliseconds.

use anyhow::Result;

use crate::bench::Bench;
use crate::clients;
use crate::engine::Engine;
use crate::place::Place;
use crate::race::{Sample, Spread, alternate};
use crate::report::{Case, Target};

const ID: &str = "Q2";
/// Milliseconds of a request to the store.
const SLOW_MS: u64 = 20;
const LINGERS_MS: [u64; 3] = [5, 20, 100];
const MIB: f64 = 1_048_576.0;
const SECONDS_A_MONTH: f64 = 30.0 * 24.0 * 3_600.0;
/// What a PUT costs: 5 dollars a million.
const DOLLARS_A_PUT: f64 = 5.0 / 1e6;

/// How rows arrive.
#[derive(Clone, Copy)]
struct Load {
    clients: usize,
    rows: usize,
    /// Puts of each client.
    each: usize,
}

const LOADS: [Load; 2] =
    [Load { clients: 64, rows: 1, each: 30 }, Load { clients: 16, rows: 1_000, each: 30 }];

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    for load in LOADS {
        for linger_ms in LINGERS_MS {
            at(bench, load, linger_ms).await?;
        }
    }
    Ok(())
}

async fn at(bench: &mut Bench, load: Load, linger_ms: u64) -> Result<()> {
    let who = [Engine::lingering(linger_ms), Engine::Reference { interval_ms: linger_ms }];
    let names = ["headwater".to_owned(), "reference".to_owned()];
    let name =
        format!("{} clients, {}-row puts, linger {linger_ms} ms, 20 ms store", load.clients, load.rows);
    let shared = &*bench;
    let batches = shared.batches(load.clients * shared.amount(load.each).max(5), load.rows)?;
    let samples = alternate(bench.long_rounds(), &who, async |engine| {
        clients::measure(engine, &Place::bucket(SLOW_MS), &batches, load.clients).await
    })
    .await?;

    let case = Case { workload: ID, case: &name, unit: "PUTs per acknowledged MiB" };
    let puts = figures(&samples, |sample| entries(sample) / (sample.payload_bytes as f64 / MIB));
    bench.report.add(case, &names, &puts);
    compare(bench, case, &puts, Target::AtMost(1.0));

    let case = Case { unit: "WAL bytes per acknowledged byte", ..case };
    let bytes = figures(&samples, |sample| wal_bytes(sample) / sample.payload_bytes as f64);
    bench.report.add(case, &names, &bytes);
    compare(bench, case, &bytes, Target::AtMost(0.6));

    let case = Case { unit: "PUTs/s", ..case };
    let pace = figures(&samples, |sample| entries(sample) / sample.seconds);
    bench.report.add(case, &names, &pace);

    let case = Case { unit: "$ of PUTs a month", ..case };
    let cost = figures(&samples, |sample| entries(sample) / sample.seconds * SECONDS_A_MONTH * DOLLARS_A_PUT);
    bench.report.add(case, &names, &cost);
    Ok(())
}

/// Judges ours against the reference; the case's unit says in what.
fn compare(bench: &mut Bench, case: Case<'_>, samples: &[Vec<Sample>], target: Target) {
    if let [ours, reference] = samples {
        let what = format!("headwater / reference, {}", case.unit);
        bench.report.judge(case, &what, Spread::of_ratios(ours, reference), Some(target));
    }
}

fn entries(sample: &Sample) -> f64 {
    sample.wal.map_or(0.0, |wal| wal.entries as f64)
}

fn wal_bytes(sample: &Sample) -> f64 {
    sample.wal.map_or(0.0, |wal| wal.bytes as f64)
}

/// The same runs with another figure as their value.
fn figures(samples: &[Vec<Sample>], figure: impl Fn(&Sample) -> f64) -> Vec<Vec<Sample>> {
    let of = |sample: &Sample| Sample { value: figure(sample), ..Sample::default() };
    samples.iter().map(|side| side.iter().map(&of).collect()).collect()
}
