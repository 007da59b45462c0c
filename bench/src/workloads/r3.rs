//! R3: `count(*)` of R1's tables, warm.
//!
//! Judged is `Table::count`, which takes a new snapshot each time; on a snapshot that is held it is shown
//! beside. The reference counts by scanning its key column.

use std::time::Instant;

use anyhow::{Result, ensure};
use headwater::{ReadLevel, ReadSnapshot};

use super::r1::{BASE, SHAPES};
use crate::bench::Bench;
use crate::clients::ms;
use crate::race::{Sample, Spread, alternate, percentile, sorted};
use crate::report::{Case, Target};
use crate::rows::Layout;
use crate::tiers::{Tiers, Who};

const ID: &str = "R3";
/// Counts of a round, where they are quick.
const COUNTS: usize = 25;

/// Who counts.
#[derive(Clone, Copy)]
enum Counter {
    Table(Who),
    Snapshot,
}

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    for (sstables, replaced) in SHAPES {
        let layout = Layout { base: bench.amount(BASE), sstables, replaced };
        let shared = &*bench;
        let tiers = Tiers::build(layout, true, || shared.disk(false)).await?;
        tiers.check().await?;
        of_layout(bench, &tiers).await?;
        tiers.abandon().await?;
    }
    Ok(())
}

async fn of_layout(bench: &mut Bench, tiers: &Tiers) -> Result<()> {
    let name = tiers.rows.layout.name();
    let case = Case { workload: ID, case: &name, unit: "ms" };
    let snapshot = tiers.table()?.read(ReadLevel::Durable).await?;
    let who = [Counter::Table(Who::Ours), Counter::Snapshot, Counter::Table(Who::Plain)];
    let names = [Who::Ours.name(), "headwater, on a snapshot that is held".to_owned(), Who::Plain.name()];
    let samples =
        alternate(bench.rounds, &who, async |who| counts(tiers, &snapshot, who, COUNTS).await).await?;
    bench.report.add(case, &names, &samples);
    if let [ours, held, _] = samples.as_slice() {
        bench.report.judge(case, "headwater", Spread::of_values(ours), Some(Target::AtMost(1.0)));
        bench.report.judge(case, "headwater, on a snapshot that is held", Spread::of_values(held), None);
    }

    let name = format!("{name}, in turn with the reference");
    let case = Case { case: &name, ..case };
    let who = [Counter::Table(Who::Ours), Counter::Table(Who::Reference)];
    let names = [Who::Ours.name(), Who::Reference.name()];
    let samples =
        alternate(bench.long_rounds(), &who, async |who| counts(tiers, &snapshot, who, 1).await).await?;
    bench.report.add(case, &names, &samples);
    if let [ours, reference] = samples.as_slice() {
        let ratio = Spread::of_ratios(reference, ours);
        bench.report.judge(case, "reference / headwater", ratio, Some(Target::AtLeast(1_000.0)));
    }
    Ok(())
}

/// The sample's value is the median time of a count, in milliseconds.
async fn counts(tiers: &Tiers, snapshot: &ReadSnapshot, who: Counter, times: usize) -> Result<Sample> {
    let mut taken_ms = Vec::with_capacity(times);
    for _ in 0..times {
        let started = Instant::now();
        match who {
            Counter::Table(who) => tiers.count(who).await?,
            Counter::Snapshot => {
                let (rows, live) = (snapshot.count(None).await?, tiers.rows.live_count());
                ensure!(rows == live, "a snapshot has {rows} rows, and {live} are live");
            }
        }
        taken_ms.push(ms(started.elapsed()));
    }
    Ok(Sample { value: percentile(&sorted(taken_ms), 0.5), ..Sample::default() })
}
