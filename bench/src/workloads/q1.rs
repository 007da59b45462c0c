//! Q1: what a fresh read asks of the object store beside data: warm, cold with N SSTables, and to refresh.
//!
//! Counted are reads and listings of anything but data files (`bucket`): manifests, hints, WAL entries,
//! indexes, key sidecars, bloom filters, deletion files. Warm is the third `count` of a table by its
//! writer, each with a new snapshot; on a snapshot that is held nothing may be asked for at all. Cold is a
//! reader that has nothing but the address: opening, a snapshot, a count; then it looks again while nothing
//! happens. How long the cold read takes where every request takes 20 ms says how many rounds of parallel
//! requests it is.

use std::time::Instant;

use anyhow::{Result, ensure};
use futures::TryStreamExt;
use headwater::{ReadLevel, ScanRequest, Table};

use super::r4::request;
use crate::bench::Bench;
use crate::clients::ms;
use crate::engine::{Limits, OURS, Opened};
use crate::place::Place;
use crate::race::{Counts, Sample, Spread};
use crate::report::{Case, Target};
use crate::rows::{Layout, Tier};
use crate::tiers::{Tiers, Who};

const ID: &str = "Q1";
const SSTABLES: [usize; 3] = [1, 4, 8];
const BASE: usize = 20_000;
const REPLACED: usize = 18;
/// Milliseconds of a request to the slow store.
const SLOW_MS: u64 = 20;

/// What some reading asked for.
struct Asked {
    /// All requests, by class and kind of object.
    all: Counts,
    /// Reads of anything but data files.
    metadata: u64,
}

impl Asked {
    async fn by(place: &Place, read: impl AsyncFnOnce() -> Result<()>) -> Result<Self> {
        let (before, metadata) = (place.requests(), place.metadata_reads()?);
        read().await?;
        let metadata = place.metadata_reads()? - metadata;
        Ok(Self { all: place.requests_since(&before), metadata })
    }

    fn add(self, bench: &mut Bench, case: Case<'_>, who: &str, target: Option<Target>) {
        bench.report.add_requests(case, who, self.all);
        let what = format!("{who}: metadata requests");
        bench.report.judge(case, &what, Spread::of([self.metadata as f64]), target);
    }
}

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    for sstables in SSTABLES {
        let layout = Layout { base: bench.amount(BASE), sstables, replaced: REPLACED };
        let tiers = Tiers::build(layout, true, || Ok(Place::bucket(SLOW_MS))).await?;
        tiers.check().await?;
        warm(bench, &tiers).await?;
        held(bench, &tiers).await?;
        reader(bench, &tiers).await?;
        slow_reader(bench, &tiers).await?;
        tiers.abandon().await?;
    }
    Ok(())
}

async fn warm(bench: &mut Bench, tiers: &Tiers) -> Result<()> {
    let name = format!("{} SSTables, a warm count", tiers.rows.layout.sstables);
    let case = Case { workload: ID, case: &name, unit: "requests" };
    let reference = tiers.reference()?.place();
    for (who, place, target) in
        [(Who::Ours, tiers.place(), Some(Target::AtMost(0.0))), (Who::Reference, reference, None)]
    {
        tiers.count(who).await?;
        tiers.count(who).await?;
        let asked = Asked::by(place, async || tiers.count(who).await).await?;
        asked.add(bench, case, &who.name(), target);
    }
    Ok(())
}

/// A held snapshot reads data and nothing else.
async fn held(bench: &mut Bench, tiers: &Tiers) -> Result<()> {
    let name = format!("{} SSTables, a snapshot that is held", tiers.rows.layout.sstables);
    let case = Case { workload: ID, case: &name, unit: "requests" };
    let snapshot = tiers.table()?.read(ReadLevel::Durable).await?;
    let mut keys = tiers.rows.numbers_in(Tier::SsTable, 10)?;
    keys.extend(tiers.rows.numbers_in(Tier::Base, 10)?);
    let keys = request(&keys)?;
    let count = async || -> Result<()> {
        snapshot.count(None).await?;
        Ok(())
    };
    let scan = async || -> Result<()> {
        let rows = snapshot.scan(&ScanRequest::default()).await?;
        rows.try_for_each(|_| std::future::ready(Ok(()))).await?;
        Ok(())
    };
    let get = async || -> Result<()> {
        let found = snapshot.get(&keys).await?.num_rows();
        ensure!(found == keys.keys.num_rows(), "{found} keys were found");
        Ok(())
    };
    // What the first of each finds out is known to the second.
    count().await?;
    scan().await?;
    get().await?;
    let none = Some(Target::AtMost(0.0));
    Asked::by(tiers.place(), count).await?.add(bench, case, "headwater, count", none);
    Asked::by(tiers.place(), scan).await?.add(bench, case, "headwater, scan", none);
    Asked::by(tiers.place(), get).await?.add(bench, case, "headwater, get of 20 keys", none);
    Ok(())
}

/// A table opened for reading what another writes.
async fn open(place: &Place) -> Result<Box<Table>> {
    match OURS.open_table(place, Limits::Defaults).await? {
        Opened::Ours(table) => Ok(table),
        Opened::Reference(_) => anyhow::bail!("ours is opened by us"),
    }
}

async fn expect(tiers: &Tiers, reader: &Table) -> Result<()> {
    let (rows, live) = (reader.count(None).await?, tiers.rows.live_count());
    ensure!(rows == live, "a reader found {rows} rows, and {live} are live");
    Ok(())
}

async fn reader(bench: &mut Bench, tiers: &Tiers) -> Result<()> {
    let (place, sstables) = (tiers.place(), tiers.rows.layout.sstables);
    let name = format!("{sstables} SSTables, a reader");
    let case = Case { workload: ID, case: &name, unit: "requests" };
    let mut opened = None;
    let cold = Asked::by(place, async || {
        let reader = open(place).await?;
        expect(tiers, &reader).await?;
        opened = Some(reader);
        Ok(())
    })
    .await?;
    cold.add(bench, case, "headwater, cold", Some(Target::AtMost((9 * sstables + 10) as f64)));

    let Some(reader) = opened else { anyhow::bail!("the reader was not opened") };
    let refresh = async || -> Result<()> {
        reader.read(ReadLevel::Durable).await?;
        Ok(())
    };
    let refreshed = Asked::by(place, refresh).await?;
    // The table has one shard.
    refreshed.add(bench, case, "headwater, a refresh", Some(Target::AtMost(1.0)));
    expect(tiers, &reader).await?;
    let warm = Asked::by(place, async || expect(tiers, &reader).await).await?;
    warm.add(bench, case, "headwater, a refresh and a warm count", None);
    Ok(())
}

async fn slow_reader(bench: &mut Bench, tiers: &Tiers) -> Result<()> {
    let place = tiers.place();
    let name = format!("{} SSTables, a cold reader, 20 ms store", tiers.rows.layout.sstables);
    let case = Case { workload: ID, case: &name, unit: "ms" };
    let mut samples = Vec::new();
    for _ in 0..bench.long_rounds() {
        place.slow(true);
        let started = Instant::now();
        expect(tiers, open(place).await?.as_ref()).await?;
        let taken = ms(started.elapsed());
        place.slow(false);
        samples.push(Sample { value: taken, ..Sample::default() });
    }
    let rounds = Spread::of(samples.iter().map(|sample| sample.value / SLOW_MS as f64));
    bench.report.add(case, &[OURS.name()], &[samples]);
    bench.report.judge(case, "headwater: rounds of parallel requests, at most", rounds, None);
    Ok(())
}
