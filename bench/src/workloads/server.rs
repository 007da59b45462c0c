//! Server: requests at fixed rates, up to more than it answers; latency counts from when each was due.
//!
//! Durable 1-row upserts over 64 connections and batches of 1,000 rows over 16, on every store, with the
//! same load on `Table::put` in this process beside it; upserts and point queries mixed; and what the server
//! adds to the engine, in turn, at a low rate and at half of what it answers at most. A request that does
//! nothing tells how much of that is HTTP by itself, client and all.

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::loads::{Load, latencies_ms, quantile_ms};
use crate::picture::{Axis, Chart, Line};
use crate::race::{Sample, Spread, alternate};
use crate::report::{Case, Target};
use crate::server::load::{Outcome, Plan};
use crate::server::process::Store;
use crate::server::session::{Pace, Session, puts};
use crate::server::targets::Rows;

const ID: &str = "Server";
const UNIT: &str = "ms";
/// Connections that send 1-row upserts, and tasks that put rows in this process.
pub const CONNECTIONS: usize = 64;
/// The same for batches.
pub const BATCH_CONNECTIONS: usize = 16;
/// Different 1-row bodies.
const ONES: usize = 65_536;
/// Different bodies of [`BATCH`] rows.
const BATCHES: usize = 256;
/// Rows of a batch.
pub const BATCH: usize = 1_000;
/// Seconds of a run.
const SECONDS: f64 = 3.0;
/// Seconds of a run that is taken in turn with others.
const TURN_SECONDS: f64 = 2.0;
/// Less of what is due than this share answered: it is saturated.
const KEPT_UP: f64 = 0.95;
/// No machine answers so many a second.
const BOUND: f64 = 200_000.0;
/// The low rate.
const LOW: f64 = 100.0;
/// Milliseconds the server may add to the engine's median.
const ADDED_MS: f64 = 0.5;

/// A load whose rate grows.
#[derive(Clone, Copy)]
struct Shape {
    what: &'static str,
    connections: usize,
    /// Rates to begin with; from the last on it doubles.
    rates: &'static [f64],
}

const ONE: Shape = Shape { what: "1-row upserts", connections: CONNECTIONS, rates: &[LOW, 500.0, 1_000.0] };
const THOUSAND: Shape =
    Shape { what: "1,000-row upserts", connections: BATCH_CONNECTIONS, rates: &[10.0, 50.0] };
const MIXED: Shape = Shape { what: "", connections: CONNECTIONS, rates: &[LOW, 500.0] };

impl Shape {
    fn rates(self) -> impl Iterator<Item = f64> {
        let last = self.rates.last().copied().unwrap_or(LOW);
        let doubled = std::iter::successors(Some(last * 2.0), |rate| Some(rate * 2.0));
        self.rates.iter().copied().chain(doubled).take_while(|rate| *rate < BOUND)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Server,
    Engine,
    Ping,
}

impl Who {
    fn name(self) -> String {
        match self {
            Self::Server => "server",
            Self::Engine => "Table::put in process",
            Self::Ping => "HTTP request that does nothing",
        }
        .to_owned()
    }
}

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let ones = Rows::new(0, bench.amount(ONES), 1)?;
    let batches = Rows::new(0, bench.amount(BATCHES), BATCH)?;
    for store in [Store::Disk, Store::Synced, Store::Slow] {
        let mut session = Session::start(bench, store, CONNECTIONS).await?;
        let most = curve(bench, &mut session, &ones, ONE).await?;
        if store != Store::Synced {
            curve(bench, &mut session, &batches, THOUSAND).await?;
            mixed(bench, &mut session, &ones, 2).await?;
        }
        if store == Store::Disk {
            mixed(bench, &mut session, &ones, 8).await?;
            for rate in [LOW, (most / 2.0 / LOW).round() * LOW] {
                added(bench, &mut session, &ones, rate.max(LOW)).await?;
            }
        }
        session.stop().await?;
    }
    Ok(())
}

fn pace(bench: &Bench, rate: f64, seconds: f64, workers: usize) -> Pace {
    Pace::Open(Plan { rate, seconds: bench.seconds(seconds), workers })
}

async fn side(bench: &Bench, session: &mut Session, rows: &Rows, who: Who, pace: Pace) -> Result<Outcome> {
    match who {
        Who::Server => session.upserts(rows, pace).await,
        Who::Engine => puts(bench, session.store(), rows, pace).await,
        Who::Ping => session.pings(pace).await,
    }
}

fn tell(bench: &mut Bench, case: &str, outcome: &Outcome) {
    if let Some(error) = &outcome.first_error {
        bench.report.note(format!("{ID}, {case}: {} requests failed, the first: {error}", outcome.errors));
    }
}

/// Upserts at growing rates, by the server and by the engine, each until it is saturated. The most the
/// server answered a second.
async fn curve(bench: &mut Bench, session: &mut Session, rows: &Rows, shape: Shape) -> Result<f64> {
    let name = format!("{}, {} connections, {}", shape.what, shape.connections, session.store().name());
    let case = Case { workload: ID, case: &name, unit: UNIT };
    let lines = ["server, p50", "server, p99", "Table::put in process, p50"];
    let mut lines = lines.map(|name| Line { name: name.to_owned(), points: Vec::new() });
    let mut most: f64 = 0.0;
    let mut running = vec![Who::Server, Who::Engine];
    for rate in shape.rates() {
        for who in running.clone() {
            let pace = pace(bench, rate, SECONDS, shape.connections);
            let outcome = side(bench, session, rows, who, pace).await?;
            bench.report.load(Load::new(case, &who.name(), Some(rate), &outcome, &outcome.writes));
            tell(bench, &name, &outcome);
            let quantile = |share| (rate, quantile_ms(&outcome.writes, share));
            let [p50, p99, engine] = &mut lines;
            if who == Who::Server {
                most = most.max(outcome.achieved);
                p50.points.push(quantile(0.5));
                p99.points.push(quantile(0.99));
            } else {
                engine.points.push(quantile(0.5));
            }
            if outcome.achieved < KEPT_UP * rate {
                running.retain(|still| *still != who);
            }
        }
    }
    let x = Axis { label: "requests due a second".to_owned(), log: true };
    let y = Axis { label: "milliseconds since a request was due".to_owned(), log: true };
    let title = format!("{}, {}", shape.what, session.store().name());
    bench.report.chart(Chart { title, x, y, lines: lines.into(), steep: true });
    let case = Case { workload: ID, case: &name, unit: "rows/s at most" };
    let value = most * rows.each as f64;
    bench.report.add(case, &[Who::Server.name()], &[vec![Sample { value, ..Sample::default() }]]);
    Ok(most)
}

/// Upserts and point queries at growing rates, until the server is saturated.
async fn mixed(bench: &mut Bench, session: &mut Session, rows: &Rows, queries_of_ten: u64) -> Result<()> {
    let reads = queries_of_ten * 10;
    let name =
        format!("{} % 1-row upserts, {reads} % point queries, {}", 100 - reads, session.store().name());
    let case = Case { workload: ID, case: &name, unit: UNIT };
    for rate in MIXED.rates() {
        let pace = pace(bench, rate, SECONDS, MIXED.connections);
        let outcome = session.mix(rows, queries_of_ten, pace).await?;
        for (who, histogram) in [("upserts", &outcome.writes), ("queries", &outcome.reads)] {
            bench.report.load(Load::new(case, who, Some(rate), &outcome, histogram));
        }
        tell(bench, &name, &outcome);
        if outcome.achieved < KEPT_UP * rate {
            break;
        }
    }
    Ok(())
}

/// What the server adds to the engine's median at a rate, in turn.
async fn added(bench: &mut Bench, session: &mut Session, rows: &Rows, rate: f64) -> Result<()> {
    let name = format!("1-row upserts at {rate:.0}/s, {}", session.store().name());
    let case = Case { workload: ID, case: &name, unit: "ms p50" };
    let who = [Who::Server, Who::Engine, Who::Ping];
    let shared = &*bench;
    let samples = alternate(shared.rounds, &who, async |who| {
        let pace = pace(shared, rate, TURN_SECONDS, CONNECTIONS);
        let outcome = side(shared, session, rows, who, pace).await?;
        anyhow::ensure!(outcome.errors == 0, "{} failed: {:?}", who.name(), outcome.first_error);
        let value = quantile_ms(&outcome.writes, 0.5);
        Ok(Sample { value, latencies_ms: latencies_ms(&outcome.writes), ..Sample::default() })
    })
    .await?;
    bench.report.add(case, &who.map(Who::name), &samples);
    let [server, engine, ping] = samples.as_slice() else { return None.context("three were measured") };
    let less = |of: &[Sample], than: &[Sample]| {
        Spread::of(of.iter().zip(than).map(|(of, than)| of.value - than.value))
    };
    let verdicts = [
        ("server - engine, ms", less(server, engine), Some(Target::AtMost(ADDED_MS))),
        ("a request that does nothing, ms", Spread::of_values(ping), None),
    ];
    for (what, value, target) in verdicts {
        bench.report.judge(case, what, value, target);
    }
    Ok(())
}
