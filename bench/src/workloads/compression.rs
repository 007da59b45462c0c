//! Which compression WAL entries get by default: what each costs and saves.
//!
//! Local disk without fsync, where time is all that counts, and the 20 ms store, where bytes do.

use anyhow::Result;

use crate::bench::Bench;
use crate::clients;
use crate::engine::Engine;
use crate::place::Place;
use crate::race::{Sample, Spread, alternate};
use crate::report::Case;
use headwater::WalCompression;

const ID: &str = "WAL";
/// Milliseconds of a request to the slow store.
const SLOW_MS: u64 = 20;

/// How rows arrive.
#[derive(Clone, Copy)]
struct Load {
    clients: usize,
    rows: usize,
    puts: usize,
    slow: bool,
}

const LOADS: [Load; 4] = [
    Load { clients: 1, rows: 1, puts: 1_000, slow: false },
    Load { clients: 64, rows: 1, puts: 20_000, slow: false },
    Load { clients: 16, rows: 1_000, puts: 500, slow: false },
    Load { clients: 16, rows: 1_000, puts: 320, slow: true },
];

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let who = [WalCompression::None, WalCompression::Lz4, WalCompression::Zstd]
        .map(|compression| Engine::Ours { linger_ms: 0, compression });
    let names = ["none", "lz4", "zstd"].map(ToOwned::to_owned);
    for load in LOADS {
        let store = if load.slow { "20 ms store" } else { "local disk, no fsync" };
        let name = format!("{} clients, {}-row puts, {store}", load.clients, load.rows);
        let case = Case { workload: ID, case: &name, unit: "rows/s" };
        let shared = &*bench;
        let batches = shared.batches(shared.amount(load.puts).max(load.clients), load.rows)?;
        let samples = alternate(bench.long_rounds(), &who, async |engine| {
            let place = if load.slow { Place::bucket(SLOW_MS) } else { shared.disk(false)? };
            clients::measure(engine, &place, &batches, load.clients).await
        })
        .await?;
        bench.report.add(case, &names, &samples);
        let bytes = samples.iter().map(|side| side.iter().map(bytes_per_byte).collect()).collect::<Vec<_>>();
        bench.report.add(Case { unit: "WAL bytes per acknowledged byte", ..case }, &names, &bytes);
        if let [none, lz4, zstd] = samples.as_slice() {
            bench.report.judge(case, "lz4 / none", Spread::of_ratios(lz4, none), None);
            bench.report.judge(case, "zstd / lz4", Spread::of_ratios(zstd, lz4), None);
        }
    }
    Ok(())
}

fn bytes_per_byte(sample: &Sample) -> Sample {
    let bytes = sample.wal.map_or(0.0, |wal| wal.bytes as f64);
    Sample { value: bytes / sample.payload_bytes as f64, ..Sample::default() }
}
