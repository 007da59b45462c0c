//! R1: a full scan of base, SSTables and memtable, against a plain Lance scan of the same live rows and
//! against the reference. R2 is the same with other columns.
//!
//! A scan of ours is `Table::scan`, taking its snapshot included. The clock stops when the last batch has
//! arrived; each scan has to bring as many rows as live, and before anything is timed all three have to
//! bring the same ones. That first scan also warms caches on all sides: what the first read after opening
//! costs is shown by `curves` and Q1.

use std::time::Instant;

use anyhow::Result;

use crate::bench::Bench;
use crate::clients::ms;
use crate::race::{Sample, Spread, alternate};
use crate::report::{Case, Target};
use crate::rows::{COLUMNS, Layout};
use crate::tiers::{Tiers, Who};

/// Rows of the base.
pub const BASE: usize = 1_000_000;
/// SSTables and percent of base rows replaced.
pub const SHAPES: [(usize, usize); 3] = [(4, 18), (8, 18), (8, 1)];

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    compare(bench, "R1", &COLUMNS).await
}

/// Scans `columns` of tables of all shapes.
pub async fn compare(bench: &mut Bench, workload: &'static str, columns: &[&str]) -> Result<()> {
    for (sstables, replaced) in SHAPES {
        let layout = Layout { base: bench.amount(BASE), sstables, replaced };
        let shared = &*bench;
        let tiers = Tiers::build(layout, true, || shared.disk(false)).await?;
        tiers.check().await?;
        of_layout(bench, workload, columns, &tiers).await?;
        tiers.abandon().await?;
    }
    Ok(())
}

async fn of_layout(bench: &mut Bench, workload: &'static str, columns: &[&str], tiers: &Tiers) -> Result<()> {
    let layout = tiers.rows.layout;
    let name = layout.name();
    let case = Case { workload, case: &name, unit: "ms" };
    let who = [Who::Ours, Who::Plain];
    let samples = alternate(bench.rounds, &who, async |who| scan(tiers, who, columns).await).await?;
    bench.report.add(case, &who.map(Who::name), &samples);
    if let [ours, plain] = samples.as_slice() {
        let target = Target::AtMost(if layout.replaced > 1 { 1.7 } else { 1.1 });
        let ratio = Spread::of_ratios(ours, plain);
        bench.report.judge(case, "headwater / plain scan of the live rows", ratio, Some(target));
    }

    let name = format!("{name}, in turn with the reference");
    let case = Case { case: &name, ..case };
    let who = [Who::Ours, Who::Reference];
    let rounds = bench.long_rounds();
    let samples = alternate(rounds, &who, async |who| scan(tiers, who, columns).await).await?;
    bench.report.add(case, &who.map(Who::name), &samples);
    if let [ours, reference] = samples.as_slice() {
        let ratio = Spread::of_ratios(reference, ours);
        bench.report.judge(case, "reference / headwater", ratio, Some(Target::AtLeast(20.0)));
    }
    Ok(())
}

/// The sample's value is the milliseconds of one scan.
pub async fn scan(tiers: &Tiers, who: Who, columns: &[&str]) -> Result<Sample> {
    let started = Instant::now();
    tiers.drain(who, columns).await?;
    let taken = started.elapsed();
    Ok(Sample { value: ms(taken), seconds: taken.as_secs_f64(), ..Sample::default() })
}
