//! ServerMemory: what the server has resident while an upload goes on and on, and while a reader is slow.
//!
//! Each upload goes to a new server with default limits, as one request whose batches are made while it is
//! sent. What is told is the peak over what the server had resident before. It is flat if four times the
//! rows take no more.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::stream;
use reqwest::Body;

use crate::bench::Bench;
use crate::data::{self, ROW_BYTES};
use crate::race::{Sample, Spread};
use crate::report::{Case, Target};
use crate::server::session::Session;
use crate::server::wire::Chunks;

const ID: &str = "ServerMemory";
const UNIT: &str = "MiB above rest, at most";
const MIB: u64 = 1 << 20;
/// The shorter upload, and the longer one.
const UPLOADS_MIB: [usize; 2] = [512, 2_048];
/// Rows of a batch.
const BATCH: usize = 8_192;
/// Batches of the upload before the measured one.
const WARM_UP: u64 = 8;
/// Bytes a second a slow reader takes.
const SLOW: f64 = 1e6;
/// For how long.
const SLOW_SECONDS: f64 = 20.0;
/// How much more four times the rows may take.
const FLAT: f64 = 1.25;

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    for tiered in [false, true] {
        let mut peaks = Vec::new();
        for mib in UPLOADS_MIB {
            peaks.push(measure(bench, tiered, bench.amount(mib)).await?);
        }
        let [short, long] = peaks.as_slice() else { anyhow::bail!("two were measured") };
        let case = Case { workload: ID, case: table_name(tiered), unit: UNIT };
        let ratio = Spread::of([long / short]);
        bench.report.judge(case, "peak, four times the upload", ratio, Some(Target::AtMost(FLAT)));
    }
    Ok(())
}

fn table_name(tiered: bool) -> &'static str {
    if tiered { "a table with a write tier" } else { "a plain table" }
}

/// One upload to a server of its own; after the shorter one also a slow reader. The upload's peak in MiB.
async fn measure(bench: &mut Bench, tiered: bool, mib: usize) -> Result<f64> {
    let mut session = Session::with_default_limits(bench).await?;
    let table = if tiered { session.tiered_table().await? } else { session.plain_table().await? };
    upload(&session, &table, tiered, 0..WARM_UP).await?;
    let batches = (mib as u64 * MIB).div_ceil(BATCH as u64 * ROW_BYTES);
    let batches = WARM_UP..WARM_UP + batches;
    let rest = rest(&session)?;
    let began = Instant::now();
    upload(&session, &table, tiered, batches.clone()).await?;
    let seconds = began.elapsed().as_secs_f64();
    let peak = above(&session, rest)?;
    let name = format!("upload of {mib} MiB of rows to {}", table_name(tiered));
    add(bench, &name, peak, seconds);
    bench
        .report
        .note(format!("{ID}, {name}: {:.0} MiB/s, one connection; {rest} MiB at rest", mib as f64 / seconds));
    let (held, sent) = (session.client()?.count(&table).await?, batches.end * BATCH as u64);
    ensure!(held == sent, "the table holds {held} rows of {sent}");
    if mib == bench.amount(UPLOADS_MIB[0]) {
        slow_reader(bench, &session, &table, tiered, mib).await?;
    }
    session.drop_table(&table).await?;
    session.stop().await?;
    Ok(peak)
}

async fn slow_reader(
    bench: &mut Bench,
    session: &Session,
    table: &str,
    tiered: bool,
    mib: usize,
) -> Result<()> {
    let rest = rest(session)?;
    let (began, mut bytes) = (Instant::now(), 0_usize);
    let mut reply = session.client()?.scan(table).await?;
    let seconds = bench.seconds(SLOW_SECONDS);
    while began.elapsed().as_secs_f64() < seconds {
        let piece = reply.chunk().await?.context("the reply ended before it was slow")?;
        bytes += piece.len();
        let due = began + Duration::from_secs_f64(bytes as f64 / SLOW);
        tokio::time::sleep(due.saturating_duration_since(Instant::now())).await;
    }
    let name = format!("scan of {mib} MiB of {}, read at 1 MB/s", table_name(tiered));
    add(bench, &name, above(session, rest)?, seconds);
    Ok(())
}

fn add(bench: &mut Bench, name: &str, value: f64, seconds: f64) {
    let case = Case { workload: ID, case: name, unit: UNIT };
    bench.report.add(case, &["server".to_owned()], &[vec![Sample { value, seconds, ..Sample::default() }]]);
}

/// Mebibytes at rest; the peak begins anew.
fn rest(session: &Session) -> Result<u64> {
    session.process().forget_peak()?;
    Ok(session.process().resident()?.now_kib / 1024)
}

fn above(session: &Session, rest: u64) -> Result<f64> {
    let peak = session.process().resident()?.peak_kib as f64 / 1024.0;
    Ok((peak - rest as f64).max(0.0))
}

async fn upload(session: &Session, table: &str, tiered: bool, batches: Range<u64>) -> Result<()> {
    let chunks = Chunks::new(&data::marked_schema(), made(batches)?)?;
    let body = Body::wrap_stream(stream::iter(chunks));
    let client = session.client()?;
    if tiered { client.upsert(table, body).await } else { client.insert(table, body).await }
}

/// Batches with these numbers: every key is another, the text is that of one batch.
fn made(batches: Range<u64>) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + 'static> {
    let first = data::batches(0, 1, BATCH)?;
    let texts = Arc::clone(first.first().context("there is a batch")?.column(1));
    Ok(batches.map(move |batch| {
        let rows = batch * BATCH as u64..(batch + 1) * BATCH as u64;
        let keys: ArrayRef = Arc::new(rows.map(data::key).collect::<Int64Array>());
        Ok(RecordBatch::try_new(data::marked_schema(), vec![keys, Arc::clone(&texts)])?)
    }))
}
