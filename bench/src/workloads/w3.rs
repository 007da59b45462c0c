//! W3: batches of 1,000 rows by 16 clients on local disk without fsync: throughput.

use anyhow::Result;

use crate::bench::Bench;
use crate::clients;
use crate::engine::{BEST, DEFAULTS, Engine, OURS};
use crate::race::{Spread, alternate};
use crate::report::{Case, Target};

const ID: &str = "W3";
const CLIENTS: usize = 16;
const BATCH_ROWS: usize = 1_000;
/// Batches of a round: a million rows.
const BATCHES: usize = 1_000;
/// Rows of a batch and batches of a round: small batches cost more, so there are fewer rows of them.
const CURVE: [(usize, usize); 5] = [(1, 20_000), (10, 20_000), (100, 5_000), (1_000, 1_000), (10_000, 100)];

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    against_both(bench).await?;
    curve(bench).await
}

async fn against_both(bench: &mut Bench) -> Result<()> {
    let who = [OURS, BEST, DEFAULTS];
    let case =
        Case { workload: ID, case: "16 clients, 1,000-row batches, local disk, no fsync", unit: "rows/s" };
    let shared = &*bench;
    let batches = shared.batches(shared.amount(BATCHES), BATCH_ROWS)?;
    let samples = alternate(bench.rounds, &who, async |engine| {
        let place = shared.disk(false)?;
        clients::measure(engine, &place, &batches, CLIENTS).await
    })
    .await?;
    bench.report.add(case, &who.map(Engine::name), &samples);
    if let [ours, best, defaults] = samples.as_slice() {
        let ratio = Spread::of_ratios(ours, best);
        bench.report.judge(case, "headwater / reference at 1 ms", ratio, Some(Target::AtLeast(1.5)));
        let ratio = Spread::of_ratios(ours, defaults);
        bench.report.judge(case, "headwater / reference at defaults", ratio, Some(Target::AtLeast(8.0)));
    }
    Ok(())
}

async fn curve(bench: &mut Bench) -> Result<()> {
    let who = [OURS, BEST];
    for (rows, count) in CURVE {
        let name = format!("16 clients, {rows}-row batches, local disk, no fsync");
        let case = Case { workload: ID, case: &name, unit: "rows/s" };
        let shared = &*bench;
        let batches = shared.batches(shared.amount(count).max(CLIENTS), rows)?;
        let samples = alternate(bench.long_rounds(), &who, async |engine| {
            let place = shared.disk(false)?;
            clients::measure(engine, &place, &batches, CLIENTS).await
        })
        .await?;
        bench.report.add(case, &who.map(Engine::name), &samples);
        if let [ours, best] = samples.as_slice() {
            let ratio = Spread::of_ratios(ours, best);
            bench.report.judge(case, "headwater / reference at 1 ms", ratio, Some(Target::AtLeast(1.0)));
        }
    }
    Ok(())
}
