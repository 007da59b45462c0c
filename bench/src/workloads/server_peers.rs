//! ServerPeers: the server, the engine in this process, and LanceDB embedded, side by side.
//!
//! Closed loops, because a commit for each request is too slow for any rate the others are measured at.
//! LanceDB's plain merge conflicts when several writers commit at once: its best of 1, 4 and 16 writers is
//! found first, and taken from there on. Its MemWAL path has as many writers as ours has connections, at its
//! defaults and with its WAL flushed each millisecond, the least it takes. Nothing is synced by anybody.

use std::path::Path;

use anyhow::{Context, Result};

use super::server::{BATCH, BATCH_CONNECTIONS, CONNECTIONS};
use crate::bench::Bench;
use crate::loads::latencies_ms;
use crate::peers::{self, Way};
use crate::place::Place;
use crate::race::{Sample, Spread};
use crate::report::Case;
use crate::server::load::Outcome;
use crate::server::process::Store;
use crate::server::session::{Pace, Session, puts};
use crate::server::targets::Rows;

const ID: &str = "ServerPeers";
const UNIT: &str = "rows/s";
/// Seconds of a run.
const SECONDS: f64 = 2.0;
/// Writers the plain path is tried with.
const WRITERS: [usize; 3] = [1, 4, 16];
/// The reference's defaults, and the least it takes, in milliseconds.
const INTERVALS: [u64; 2] = [1, 100];
/// Different 1-row batches.
const ONES: usize = 32_768;
/// Different batches.
const BATCHES: usize = 256;

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let ones = Rows::new(0, ONES, 1)?;
    measure(bench, "1-row upserts, closed loop", &ones, CONNECTIONS).await?;
    let batches = Rows::new(0, BATCHES, BATCH)?;
    measure(bench, "1,000-row upserts, closed loop", &batches, BATCH_CONNECTIONS).await
}

async fn measure(bench: &mut Bench, name: &str, rows: &Rows, connections: usize) -> Result<()> {
    let case = Case { workload: ID, case: name, unit: UNIT };
    let home = bench.disk(false)?;
    let Place::Disk { home, .. } = &home else { anyhow::bail!("it is on disk") };
    let file = home.path().join("batches.arrow");
    peers::write(&file, &rows.batches)?;
    let seconds = bench.seconds(SECONDS);
    let of = |path, writers, interval_ms| peers::Case {
        path,
        batches: file.clone(),
        writers,
        seconds,
        defaults: peers::settings(interval_ms),
    };
    let writers = tried(bench, case, home.path(), &WRITERS.map(|writers| of(Way::Plain, writers, 1))).await?;
    let mut cases = vec![of(Way::Plain, writers, 1)];
    cases.extend(INTERVALS.map(|interval_ms| of(Way::MemWal, connections, interval_ms)));

    let who = [
        format!("server, {connections} connections"),
        format!("Table::put in process, {connections} tasks"),
        format!("LanceDB embedded, plain, {writers} writers"),
        format!("LanceDB embedded, MemWAL at 1 ms, {connections} writers"),
        format!("LanceDB embedded, MemWAL at defaults, {connections} writers"),
    ];
    let mut samples = vec![Vec::new(); who.len()];
    let pace = Pace::Closed { workers: connections, seconds };
    let mut session = Session::start(bench, Store::Disk, connections).await?;
    for round in 0..bench.long_rounds() {
        let server = sample(session.upserts(rows, pace).await?, rows.each)?;
        let engine = sample(puts(bench, Store::Disk, rows, pace).await?, rows.each)?;
        let answers = peers::run(&bench.python, &home.path().join(format!("round{round}")), &cases).await?;
        let peers = answers.into_iter().map(peers::Answer::sample);
        for (samples, sample) in samples.iter_mut().zip([server, engine].into_iter().chain(peers)) {
            samples.push(sample);
        }
    }
    session.stop().await?;
    bench.report.add(case, &who, &samples);
    let [server, peers @ ..] = samples.as_slice() else { anyhow::bail!("none was measured") };
    for (peer, samples) in who.iter().skip(1).zip(peers) {
        bench.report.judge(case, &format!("server / {peer}"), Spread::of_ratios(server, samples), None);
    }
    Ok(())
}

/// The best number of writers, by rows a second.
async fn tried(bench: &mut Bench, case: Case<'_>, directory: &Path, cases: &[peers::Case]) -> Result<usize> {
    let answers = peers::run(&bench.python, &directory.join("tried"), cases).await?;
    let mut best: Option<(usize, f64)> = None;
    for (tried, answer) in cases.iter().zip(answers) {
        let who = format!("LanceDB embedded, plain, tried with {} writers", tried.writers);
        if let Some(error) = &answer.first_error {
            bench.report.note(format!("{who}: {} requests failed, the first: {error}", answer.errors));
        }
        let sample = answer.sample();
        if best.is_none_or(|(_, value)| value < sample.value) {
            best = Some((tried.writers, sample.value));
        }
        bench.report.add(case, &[who], &[vec![sample]]);
    }
    Ok(best.context("nothing was tried")?.0)
}

/// Its value is rows a second.
fn sample(outcome: Outcome, rows: usize) -> Result<Sample> {
    anyhow::ensure!(outcome.errors == 0, "{} requests failed: {:?}", outcome.errors, outcome.first_error);
    let value = outcome.achieved * rows as f64;
    Ok(Sample { value, latencies_ms: latencies_ms(&outcome.writes), ..Sample::default() })
}
