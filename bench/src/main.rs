//! `headwater-bench`: ours, the reference and bare storage in turn, in one process, on the same data.
//!
//! Owns: the command line and the order of workloads. Does not own: any workload (`workloads`). What each is
//! for and which figures are wanted is in `docs/performance.md`.

mod bare;
mod bench;
mod bucket;
mod clients;
mod console;
mod data;
mod engine;
mod heap;
mod loads;
mod machine;
mod peers;
mod picture;
mod place;
mod race;
mod report;
mod rows;
mod server;
mod tiers;
mod workloads;

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};

use crate::bench::Bench;
use crate::server::child::{self, Child};
use crate::server::process;

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

/// Measures Headwater against the reference MemWAL and against bare storage.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    hidden: Option<Hidden>,
    /// Which workloads to run.
    #[arg(value_enum, default_value = "all")]
    workloads: Vec<Workload>,
    /// How often each side of a short workload is measured; long ones at most 3 times.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// A tenth of the work, for a look whether everything runs.
    #[arg(long)]
    quick: bool,
    /// Measure the curves up to 10 million base rows; takes some gigabytes of disk and memory.
    #[arg(long)]
    long: bool,
    /// Draw the curves into this SVG file. Needs the workload `curves` or `server`.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Write all figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// A directory on the disk to measure; by default the one for temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Another one for what is synced, where `--dir` lies in memory.
    #[arg(long)]
    synced_dir: Option<PathBuf>,
    /// A Python that has LanceDB, for the workload `server-peers`.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
}

/// What this program starts of itself.
#[derive(Debug, Subcommand)]
enum Hidden {
    /// The server that is measured.
    #[command(hide = true, name = process::COMMAND)]
    Serve(Child),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Workload {
    /// Sequential durable 1-row puts.
    W1,
    /// Many clients, durable 1-row puts.
    W2,
    /// Batches.
    W3,
    /// Flush.
    W4,
    /// Reopen.
    W5,
    /// Memory of a memtable.
    M1,
    /// PUTs and bytes per acknowledged MiB.
    Q2,
    /// Compression of WAL entries.
    Wal,
    /// Full scan.
    R1,
    /// Scan of one column.
    R2,
    /// `count(*)`.
    R3,
    /// Point lookups.
    R4,
    /// Requests of a read.
    Q1,
    /// Memory of what is hidden.
    Shadow,
    /// Scan and count over base rows, SSTables and replaced share.
    Curves,
    /// The server under load.
    Server,
    /// The server and LanceDB embedded, side by side.
    ServerPeers,
    /// Memory of the server: long uploads, a slow reader.
    ServerMemory,
    /// All of them.
    All,
}

impl Workload {
    const EACH: [Self; 18] = [
        Self::W1,
        Self::W2,
        Self::W3,
        Self::W4,
        Self::W5,
        Self::M1,
        Self::Q2,
        Self::Wal,
        Self::R1,
        Self::R2,
        Self::R3,
        Self::R4,
        Self::Q1,
        Self::Shadow,
        Self::Curves,
        Self::Server,
        Self::ServerPeers,
        Self::ServerMemory,
    ];

    async fn run(self, bench: &mut Bench) -> Result<()> {
        match self {
            Self::W1 => workloads::w1::run(bench).await,
            Self::W2 => workloads::w2::run(bench).await,
            Self::W3 => workloads::w3::run(bench).await,
            Self::W4 => workloads::w4::run(bench).await,
            Self::W5 => workloads::w5::run(bench).await,
            Self::M1 => workloads::m1::run(bench).await,
            Self::Q2 => workloads::q2::run(bench).await,
            Self::Wal => workloads::compression::run(bench).await,
            Self::R1 => workloads::r1::run(bench).await,
            Self::R2 => workloads::r2::run(bench).await,
            Self::R3 => workloads::r3::run(bench).await,
            Self::R4 => workloads::r4::run(bench).await,
            Self::Q1 => workloads::q1::run(bench).await,
            Self::Shadow => workloads::shadow::run(bench).await,
            Self::Curves => workloads::curves::run(bench).await,
            Self::Server => workloads::server::run(bench).await,
            Self::ServerPeers => workloads::server_peers::run(bench).await,
            Self::ServerMemory => workloads::server_memory::run(bench).await,
            Self::All => Ok(()),
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    // As many threads as processors, for both sides.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match args.hidden {
        Some(Hidden::Serve(child)) => runtime.block_on(child::serve(child)),
        None => runtime.block_on(run(args)),
    }
}

async fn run(args: Args) -> Result<()> {
    let wanted = |workload| args.workloads.iter().any(|named| [workload, Workload::All].contains(named));
    let drawn = wanted(Workload::Curves) || wanted(Workload::Server);
    ensure!(args.svg.is_none() || drawn, "--svg draws what the workloads curves and server measure");
    let directory = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let mut bench = Bench::new(args.rounds.max(1), args.quick, args.long, directory);
    if let Some(synced) = args.synced_dir.clone() {
        bench.synced = synced;
    }
    bench.python = args.python;
    for fsync in [false, true] {
        let directory = bench.directory(fsync);
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    for workload in Workload::EACH {
        if !wanted(workload) {
            continue;
        }
        machine::forget_peak();
        // Boxed: the futures of a whole workload are large for a stack.
        let ran = Box::pin(workload.run(&mut bench)).await;
        ran.with_context(|| format!("{workload:?}"))?;
        bench.report.resident(&format!("{workload:?}"), machine::peak_resident_kib());
    }
    bench.report.print();
    if let Some(path) = &args.svg {
        picture::draw(path, bench.report.charts()).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &args.json {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        serde_json::to_writer_pretty(BufWriter::new(file), &bench.report)?;
    }
    Ok(())
}
