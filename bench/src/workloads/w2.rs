//! W2: many clients, durable 1-row puts: group commit.
//!
//! On local disk (no fsync, the reference has none), and on a store that takes 20 ms for each request, where
//! the ceiling is one PUT of all clients' rows after the other.

use anyhow::Result;
use bytes::Bytes;

use crate::bare;
use crate::bench::Bench;
use crate::clients;
use crate::engine::{BEST, DEFAULTS, Engine, OURS};
use crate::place::Place;
use crate::race::{Sample, Spread, alternate};
use crate::report::{Case, Target};

const ID: &str = "W2";
const CLIENTS: usize = 64;
/// Milliseconds of a request to the slow store.
const SLOW_MS: u64 = 20;
/// Puts of each client in a round on disk.
const PUTS: usize = 500;
/// Puts of each client in a round where each waits at least for one slow request or timer.
const SLOW_PUTS: usize = 50;
/// Puts of each client where each waits for a timer of 100 ms.
const SLOWEST_PUTS: usize = 20;
/// Bare PUTs of a round on the slow store.
const BARE_PUTS: usize = 50;
/// Bytes of such a PUT: about what 64 rows take.
const BARE_BYTES: usize = 8 << 10;
const CURVE: [usize; 5] = [1, 4, 16, 64, 256];

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    on_disk(bench).await?;
    on_slow_store(bench).await?;
    curve(bench).await
}

async fn on_disk(bench: &mut Bench) -> Result<()> {
    let who = [OURS, BEST, DEFAULTS];
    let case = Case { workload: ID, case: "64 clients, local disk, no fsync", unit: "rows/s" };
    let shared = &*bench;
    let samples = alternate(bench.rounds, &who, async |engine| {
        let each = if engine == DEFAULTS { SLOWEST_PUTS } else { shared.amount(PUTS) };
        let place = shared.disk(false)?;
        clients::measure(engine, &place, &shared.batches(CLIENTS * each, 1)?, CLIENTS).await
    })
    .await?;
    bench.report.add(case, &who.map(Engine::name), &samples);
    if let [ours, best, defaults] = samples.as_slice() {
        let ratio = Spread::of_ratios(ours, best);
        bench.report.judge(case, "headwater / reference at 1 ms", ratio, Some(Target::AtLeast(3.0)));
        let ratio = Spread::of_ratios(ours, defaults);
        bench.report.judge(case, "headwater / reference at defaults", ratio, Some(Target::AtLeast(20.0)));
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Who {
    Engine(Engine),
    Bare,
}

async fn on_slow_store(bench: &mut Bench) -> Result<()> {
    let who = [Who::Engine(OURS), Who::Bare, Who::Engine(BEST), Who::Engine(DEFAULTS)];
    let names =
        [OURS.name(), "one bare PUT of 64 rows after the other".to_owned(), BEST.name(), DEFAULTS.name()];
    let case = Case { workload: ID, case: "64 clients, 20 ms store", unit: "rows/s" };
    let shared = &*bench;
    let samples = alternate(bench.rounds, &who, async |who| {
        let place = Place::bucket(SLOW_MS);
        let engine = match who {
            Who::Engine(engine) => engine,
            Who::Bare => return bare_puts(shared, &place).await,
        };
        let each = if engine == DEFAULTS { SLOWEST_PUTS } else { shared.amount(SLOW_PUTS).max(SLOWEST_PUTS) };
        clients::measure(engine, &place, &shared.batches(CLIENTS * each, 1)?, CLIENTS).await
    })
    .await?;
    bench.report.add(case, &names, &samples);
    if let [ours, bare, best, defaults] = samples.as_slice() {
        let ratio = Spread::of_ratios(ours, bare);
        bench.report.judge(case, "headwater / 64 rows per PUT", ratio, Some(Target::AtLeast(0.95)));
        let ratio = Spread::of_ratios(ours, defaults);
        bench.report.judge(case, "headwater / reference at defaults", ratio, Some(Target::AtLeast(4.5)));
        let ratio = Spread::of_ratios(ours, best);
        bench.report.judge(case, "headwater / reference at 1 ms", ratio, Some(Target::AtLeast(1.0)));
    }
    Ok(())
}

/// What the store itself allows: all clients' rows in each PUT, one PUT at a time.
async fn bare_puts(bench: &Bench, place: &Place) -> Result<Sample> {
    let Place::Bucket { bucket, .. } = place else { anyhow::bail!("the slow store is a bucket") };
    place.slow(true);
    let (puts, bytes) = (bench.amount(BARE_PUTS).max(10), Bytes::from(vec![7; BARE_BYTES]));
    let latencies_ms = bare::timed_puts(bucket.store().as_ref(), bytes, puts).await?;
    place.slow(false);
    let seconds = latencies_ms.iter().sum::<f64>() / 1e3;
    let value = (CLIENTS * puts) as f64 / seconds;
    Ok(Sample { value, seconds, latencies_ms, ..Sample::default() })
}

async fn curve(bench: &mut Bench) -> Result<()> {
    let who = [OURS, BEST];
    for clients in CURVE {
        let name = format!("{clients} clients, local disk, no fsync");
        let case = Case { workload: ID, case: &name, unit: "rows/s" };
        let shared = &*bench;
        // A lone client is the slowest; many share what one PUT costs.
        let puts = shared.amount((clients * PUTS).clamp(1_000, CLIENTS * PUTS)).max(clients);
        let samples = alternate(bench.long_rounds(), &who, async |engine| {
            let place = shared.disk(false)?;
            clients::measure(engine, &place, &shared.batches(puts, 1)?, clients).await
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
