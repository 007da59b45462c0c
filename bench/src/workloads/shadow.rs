//! Shadow: what it costs in memory to know which rows are hidden.
//!
//! Counted by the allocator around the first count of R1's tables: what stays, and the most that was there
//! at once. Before it, a snapshot is taken and dropped, so that the open base is not part of it; opened
//! SSTables and what Lance caches of the indexes that were asked are. What ours charges to its budget for
//! the same is shown beside. A fresh key is one with a row in an SSTable or in the memtable.

use std::time::Duration;

use anyhow::Result;
use headwater::ReadLevel;

use super::r1::{BASE, SHAPES};
use crate::bench::Bench;
use crate::heap::Watch;
use crate::race::{Sample, Spread};
use crate::report::Case;
use crate::rows::Layout;
use crate::tiers::{Tiers, Who};

const ID: &str = "Shadow";
/// Long enough for tasks of the count to end.
const SETTLE: Duration = Duration::from_millis(500);

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    for (sstables, replaced) in SHAPES {
        let layout = Layout { base: bench.amount(BASE), sstables, replaced };
        let shared = &*bench;
        let tiers = Tiers::build(layout, false, || shared.disk(false)).await?;
        of_layout(bench, &tiers).await?;
        tiers.check().await?;
        tiers.abandon().await?;
    }
    Ok(())
}

async fn of_layout(bench: &mut Bench, tiers: &Tiers) -> Result<()> {
    let table = tiers.table()?;
    drop(table.read(ReadLevel::Durable).await?);
    let charged = table.memory().used();
    let watch = Watch::start();
    tiers.count(Who::Ours).await?;
    tokio::time::sleep(SETTLE).await;
    let (held, peak) = (watch.held() as f64, watch.peak() as f64);
    drop(watch);
    let charged = table.memory().used().saturating_sub(charged) as f64;

    let name = tiers.rows.layout.name();
    let case = Case { workload: ID, case: &name, unit: "bytes a fresh key" };
    let fresh = tiers.rows.fresh_keys() as f64;
    let names =
        ["headwater, heap", "headwater, as charged", "headwater, heap at its peak"].map(str::to_owned);
    let samples = [held, charged, peak].map(|bytes| vec![sample(bytes / fresh)]);
    bench.report.add(case, &names, &samples);
    let what = "headwater, heap bytes a fresh key";
    bench.report.judge(case, what, Spread::of([held / fresh]), None);
    let what = "headwater, heap bytes a base row";
    bench.report.judge(case, what, Spread::of([held / tiers.rows.layout.base as f64]), None);
    Ok(())
}

fn sample(value: f64) -> Sample {
    Sample { value, ..Sample::default() }
}
