//! M1: heap bytes per payload byte of a memtable with a key and no other index.
//!
//! Counted by the allocator from before the shard is claimed until all rows are acknowledged and the batches
//! they came in are dropped, on local disk, so that no WAL lies in memory. Payload is 108 bytes a row. What
//! the engine itself states is shown beside it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use arrow_array::RecordBatch;

use crate::bench::Bench;
use crate::clients;
use crate::data::{self, ROW_BYTES};
use crate::engine::{BEST, Engine, Limits, OURS};
use crate::heap::Watch;
use crate::race::{Sample, Spread, alternate};
use crate::report::{Case, Target};

const ID: &str = "M1";
const CLIENTS: usize = 64;
/// Batches that are made, put and dropped together.
const CHUNK: usize = 1_000;
/// Long enough for the tasks of the last puts to end.
const SETTLE: Duration = Duration::from_millis(500);

/// What a memtable is filled with.
#[derive(Clone, Copy)]
struct Fill {
    puts: usize,
    rows: usize,
    limits: Limits,
}

impl Fill {
    fn raised(puts: usize, rows: usize) -> Self {
        Self { puts, rows, limits: Limits::raised(puts * rows, puts) }
    }

    fn payload(self) -> f64 {
        (self.puts * self.rows) as f64 * ROW_BYTES as f64
    }
}

/// Heap bytes held, by count and by the engine's own account.
struct Held {
    counted: f64,
    stated: f64,
}

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    for engine in [OURS, BEST] {
        // What is made once a process is made now.
        held(bench, engine, Fill::raised(100, 1)).await?;
    }
    let one = Fill::raised(bench.amount(100_000), 1);
    per_byte(bench, "filled by 1-row puts", one, 2.0).await?;
    let many = Fill::raised(bench.amount(1_000), 1_000);
    per_byte(bench, "filled by 1,000-row puts", many, 1.3).await?;
    one_row(bench).await
}

async fn per_byte(bench: &mut Bench, name: &str, fill: Fill, target: f64) -> Result<()> {
    let who = [OURS, BEST];
    let names = [OURS.name(), "reference".to_owned()];
    let shared = &*bench;
    let mut stated = vec![Vec::new(), Vec::new()];
    let samples = alternate(bench.long_rounds(), &who, async |engine| {
        let held = held(shared, engine, fill).await?;
        let side = usize::from(engine != OURS);
        if let Some(side) = stated.get_mut(side) {
            side.push(Sample { value: held.stated / fill.payload(), ..Sample::default() });
        }
        Ok(Sample { value: held.counted / fill.payload(), ..Sample::default() })
    })
    .await?;
    let case = Case { workload: ID, case: name, unit: "heap bytes per payload byte" };
    bench.report.add(case, &names, &samples);
    bench.report.add(Case { unit: "stated bytes per payload byte", ..case }, &names, &stated);
    if let [ours, reference] = samples.as_slice() {
        bench.report.judge(case, "headwater", Spread::of_values(ours), Some(Target::AtMost(target)));
        bench.report.judge(case, "headwater / reference", Spread::of_ratios(ours, reference), None);
    }
    Ok(())
}

/// Both at their default limits: what an idle shard costs.
async fn one_row(bench: &mut Bench) -> Result<()> {
    let fill = Fill { puts: 1, rows: 1, limits: Limits::Defaults };
    let case = Case { workload: ID, case: "one row, default limits", unit: "KiB of heap" };
    let shared = &*bench;
    let samples = alternate(bench.long_rounds(), &[OURS, BEST], async |engine| {
        let held = held(shared, engine, fill).await?;
        Ok(Sample { value: held.counted / 1_024.0, ..Sample::default() })
    })
    .await?;
    bench.report.add(case, &[OURS.name(), "reference".to_owned()], &samples);
    if let [ours, _] = samples.as_slice() {
        bench.report.judge(case, "headwater", Spread::of_values(ours), Some(Target::AtMost(1_024.0)));
    }
    Ok(())
}

async fn held(bench: &Bench, engine: Engine, fill: Fill) -> Result<Held> {
    let place = bench.disk(false)?;
    let opened = engine.create_table(&place, fill.limits).await?;
    let watch = Watch::start();
    let writer = Arc::new(engine.claim(opened, fill.limits).await?);
    let mut put = 0;
    while put < fill.puts {
        let count = CHUNK.min(fill.puts - put);
        let first = (put * fill.rows) as u64;
        let batches: Arc<[RecordBatch]> = data::batches(first, count, fill.rows)?.into();
        clients::run(&writer, &batches, CLIENTS).await?;
        put += count;
    }
    tokio::time::sleep(SETTLE).await;
    let held = Held { counted: watch.held() as f64, stated: writer.stated_bytes() as f64 };
    drop(watch);
    writer.abandon().await?;
    Ok(held)
}
