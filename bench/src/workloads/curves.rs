//! Curves: what scan and count cost over the rows of the base, the number of SSTables, and the share of
//! base rows that newer ones replace.
//!
//! A scan is told as its time over that of a plain Lance scan of the same live rows, taken in turn; a count
//! in milliseconds, the first after writing, which finds out what is hidden, and warm. The reference is
//! left out: R1-R3 have it. 10 million base rows are measured with `--long` only. The points become the
//! charts that `--svg` draws.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};

use super::r1;
use crate::bench::Bench;
use crate::clients::ms;
use crate::picture::{Axis, Chart, Line};
use crate::race::{Sample, Spread, alternate, percentile, sorted};
use crate::report::Case;
use crate::rows::{COLUMNS, Layout, VALUE};
use crate::tiers::{Tiers, Who};

const ID: &str = "Curves";
const BASES: [usize; 2] = [100_000, 1_000_000];
const LONG_BASE: usize = 10_000_000;
const SSTABLES: [usize; 6] = [0, 1, 2, 4, 8, 16];
const SHARES: [usize; 6] = [0, 1, 5, 18, 50, 100];
/// The point all curves meet in.
const MIDDLE: (usize, usize) = (4, 18);
/// Warm counts of a point.
const COUNTS: usize = 25;

/// What was measured of one layout.
#[derive(Clone, Copy)]
struct Point {
    /// Scan of all columns, over the plain scan.
    all: f64,
    /// Scan of one column, over the plain scan.
    one: f64,
    first_ms: f64,
    warm_ms: f64,
}

/// Measured layouts; where curves cross they are measured once.
type Points = BTreeMap<Layout, Point>;

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let (sstables, replaced) = MIDDLE;
    let base = bench.amount(r1::BASE);
    let mut bases: Vec<usize> = BASES.iter().map(|base| bench.amount(*base)).collect();
    if bench.long {
        bases.push(bench.amount(LONG_BASE));
    }
    let bases: Vec<Layout> = bases.into_iter().map(|base| Layout { base, sstables, replaced }).collect();
    let counts = SSTABLES.map(|sstables| Layout { base, sstables, replaced });
    let shares = SHARES.map(|replaced| Layout { base, sstables, replaced });
    let mut points = Points::new();
    for layout in bases.iter().chain(&counts).chain(&shares) {
        if !points.contains_key(layout) {
            let point = measure(bench, *layout).await?;
            points.insert(*layout, point);
        }
    }

    let axis = Axis { label: "rows of the base (4 SSTables, 18 % replaced)".to_owned(), log: true };
    charts(bench, &points, &bases, &axis, |layout| layout.base as f64)?;
    let axis = Axis { label: "SSTables beside the memtable (18 % replaced)".to_owned(), log: false };
    charts(bench, &points, &counts, &axis, |layout| layout.sstables as f64)?;
    let axis = Axis { label: "base rows replaced, % (4 SSTables)".to_owned(), log: false };
    charts(bench, &points, &shares, &axis, |layout| layout.replaced as f64)
}

async fn measure(bench: &mut Bench, layout: Layout) -> Result<Point> {
    let shared = &*bench;
    let tiers = Tiers::build(layout, false, || shared.disk(false)).await?;
    let started = Instant::now();
    tiers.count(Who::Ours).await?;
    let first_ms = ms(started.elapsed());
    tiers.check().await?;
    let all = scans(bench, &tiers, "all columns", &COLUMNS).await?;
    let one = scans(bench, &tiers, "one column", &[VALUE]).await?;
    let mut warm_ms = Vec::with_capacity(COUNTS);
    for _ in 0..COUNTS {
        let started = Instant::now();
        tiers.count(Who::Ours).await?;
        warm_ms.push(ms(started.elapsed()));
    }
    let warm_ms = percentile(&sorted(warm_ms), 0.5);
    let name = layout.name();
    let case = Case { workload: ID, case: &name, unit: "ms" };
    let names = ["headwater, first count", "headwater, warm count"].map(str::to_owned);
    let samples = [first_ms, warm_ms].map(|value| vec![Sample { value, ..Sample::default() }]);
    bench.report.add(case, &names, &samples);
    tiers.abandon().await?;
    Ok(Point { all, one, first_ms, warm_ms })
}

/// The time of a scan of ours over that of a plain scan, the median of the rounds.
async fn scans(bench: &mut Bench, tiers: &Tiers, what: &str, columns: &[&str]) -> Result<f64> {
    let name = format!("{}; scan of {what}", tiers.rows.layout.name());
    let case = Case { workload: ID, case: &name, unit: "ms" };
    let who = [Who::Ours, Who::Plain];
    let samples = alternate(bench.rounds, &who, async |who| r1::scan(tiers, who, columns).await).await?;
    bench.report.add(case, &who.map(Who::name), &samples);
    let [ours, plain] = samples.as_slice() else { anyhow::bail!("two were measured") };
    let ratio = Spread::of_ratios(ours, plain);
    let median = ratio.median;
    bench.report.judge(case, "headwater / plain scan of the live rows", ratio, None);
    Ok(median)
}

/// Adds the charts of one curve: of scans and of counts.
fn charts(
    bench: &mut Bench,
    points: &Points,
    layouts: &[Layout],
    axis: &Axis,
    x: impl Fn(Layout) -> f64,
) -> Result<()> {
    let line = |name: &str, y: fn(&Point) -> f64| {
        let along = layouts.iter().map(|layout| {
            let point = points.get(layout).context("a layout was not measured")?;
            Ok((x(*layout), y(point)))
        });
        Ok::<_, anyhow::Error>(Line { name: name.to_owned(), points: along.collect::<Result<_>>()? })
    };
    let scans = vec![
        line("all columns", |point| point.all)?,
        line("one column, not the key", |point| point.one)?,
        line("plain Lance scan", |_| 1.0)?,
    ];
    let y = Axis { label: "times a plain scan of the live rows".to_owned(), log: false };
    let chart = Chart { title: "scan".to_owned(), x: axis.clone(), y, lines: scans, steep: false };
    bench.report.chart(chart);
    let counts =
        vec![line("the first after writing", |point| point.first_ms)?, line("warm", |point| point.warm_ms)?];
    let y = Axis { label: "milliseconds".to_owned(), log: true };
    bench.report.chart(Chart {
        title: "count(*)".to_owned(),
        x: axis.clone(),
        y,
        lines: counts,
        steep: false,
    });
    Ok(())
}
