//! R4: point lookups by where the key lives, and many keys at once.
//!
//! Ours is `ReadSnapshot::get` on a snapshot taken before the round, so that a hash probe is not measured
//! together with requests to storage; `Table::get`, which takes a new one each time, is shown beside. The
//! reference is `LsmPointLookupPlanner::lookup`, made once over open files with its bloom filters loaded.
//! The ceiling of a key on storage is Lance's own indexed take: a filter `id = x` on the plain table of all
//! live rows, through its BTree; the bare take of a row that is known is shown beside. Every lookup has to
//! find its row; before anything is timed, all have to find the newest.

use std::fs;
use std::slice;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use headwater::{GetRequest, ReadLevel, ReadSnapshot};
use lance::dataset::mem_wal::arrow_schema_with_field_ids;
use lance::dataset::mem_wal::scanner::{LsmDataSourceCollector, LsmPointLookupPlanner};
use lance::deps::datafusion::common::ScalarValue;
use lance::deps::datafusion::prelude::{Expr, col, lit};
use lance_core::utils::bloomfilter::sbbf::Sbbf;

use super::r1::BASE;
use crate::bench::Bench;
use crate::data::{self, KEY};
use crate::race::{Sample, Spread, alternate, percentile, sorted};
use crate::report::{Case, Target};
use crate::rows::{Layout, Rows, Tier, VALUE};
use crate::tiers::{Reference, Tiers};

const ID: &str = "R4";
const SSTABLES: [usize; 2] = [4, 8];
const REPLACED: usize = 18;
/// Lookups of a round.
const LOOKUPS: usize = 256;
/// Keys of a multi-get.
const MANY: usize = 100;
/// Multi-gets of a round.
const MANY_TIMES: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Snapshot,
    Table,
    Reference,
    Filter,
    Take,
}

impl Who {
    fn name(self) -> String {
        let name = match self {
            Self::Snapshot => "headwater",
            Self::Table => "headwater, a new snapshot each time",
            Self::Reference => "reference",
            Self::Filter => "Lance's indexed take",
            Self::Take => "bare take of a known row",
        };
        name.to_owned()
    }
}

/// One key, as each side wants it.
struct Probe {
    number: u64,
    value: i32,
    request: GetRequest,
    scalar: ScalarValue,
    filter: Expr,
}

/// What lookups are made with.
struct Lookups<'a> {
    tiers: &'a Tiers,
    planner: LsmPointLookupPlanner,
    all_columns: Arc<lance_core::datatypes::Schema>,
}

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    for sstables in SSTABLES {
        let layout = Layout { base: bench.amount(BASE), sstables, replaced: REPLACED };
        let shared = &*bench;
        let tiers = Tiers::build(layout, true, || shared.disk(false)).await?;
        tiers.check().await?;
        let lookups = Lookups {
            tiers: &tiers,
            planner: planner(tiers.reference()?).await?,
            all_columns: Arc::new(tiers.plain.schema().clone()),
        };
        for tier in [Tier::Memtable, Tier::SsTable, Tier::Base] {
            by_tier(bench, &lookups, tier).await?;
        }
        mixed(bench, &lookups).await?;
        many(bench, &lookups).await?;
        tiers.abandon().await?;
    }
    Ok(())
}

async fn by_tier(bench: &mut Bench, lookups: &Lookups<'_>, tier: Tier) -> Result<()> {
    let rows = &lookups.tiers.rows;
    let probes = probes(rows, &rows.numbers_in(tier, LOOKUPS)?)?;
    let who: &[Who] = match tier {
        Tier::Memtable => &[Who::Snapshot, Who::Reference, Who::Table],
        _ => &[Who::Snapshot, Who::Reference, Who::Filter, Who::Take, Who::Table],
    };
    lookups.check(who, &probes).await?;
    let place = match tier {
        Tier::Memtable => "in the memtable",
        Tier::SsTable => "in SSTables",
        Tier::Base => "in the base",
    };
    let name = format!("keys {place}; {}", rows.layout.name());
    let case = Case { workload: ID, case: &name, unit: "µs p50" };
    let samples = alternate(bench.rounds, who, async |who| {
        Ok(sample(percentile(&sorted(lookups.timed(who, &probes).await?), 0.5)))
    })
    .await?;
    let names: Vec<String> = who.iter().map(|who| who.name()).collect();
    bench.report.add(case, &names, &samples);
    if let [ours, reference, ..] = samples.as_slice() {
        if tier == Tier::Memtable {
            bench.report.judge(case, "headwater", Spread::of_values(ours), Some(Target::AtMost(5.0)));
        }
        let ratio = Spread::of_ratios(reference, ours);
        bench.report.judge(case, "reference / headwater", ratio, Some(Target::AtLeast(1.0)));
    }
    if let [ours, _, filter, take, _] = samples.as_slice() {
        let ratio = Spread::of_ratios(ours, filter);
        bench.report.judge(case, "headwater / Lance's indexed take", ratio, Some(Target::AtMost(1.3)));
        bench.report.judge(case, "headwater / bare take", Spread::of_ratios(ours, take), None);
    }
    Ok(())
}

/// Half of the keys in the base, half in SSTables and memtable. A median would be that of one half.
async fn mixed(bench: &mut Bench, lookups: &Lookups<'_>) -> Result<()> {
    let rows = &lookups.tiers.rows;
    let probes = probes(rows, &mix(rows, LOOKUPS)?)?;
    let who = [Who::Snapshot, Who::Reference];
    lookups.check(&who, &probes).await?;
    let name = format!("half of the keys fresh, half in the base; {}", rows.layout.name());
    let case = Case { workload: ID, case: &name, unit: "µs mean" };
    let samples = alternate(bench.rounds, &who, async |who| {
        let taken = lookups.timed(who, &probes).await?;
        Ok(sample(taken.iter().sum::<f64>() / taken.len() as f64))
    })
    .await?;
    bench.report.add(case, &who.map(Who::name), &samples);
    if let [ours, reference] = samples.as_slice() {
        let ratio = Spread::of_ratios(reference, ours);
        bench.report.judge(case, "reference / headwater", ratio, Some(Target::AtLeast(10.0)));
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Many {
    AtOnce,
    OneByOne,
    Reference,
}

/// A hundred keys at once, half of them fresh.
async fn many(bench: &mut Bench, lookups: &Lookups<'_>) -> Result<()> {
    let rows = &lookups.tiers.rows;
    let numbers = mix(rows, MANY)?;
    let probes = probes(rows, &numbers)?;
    let at_once = request(&numbers)?;
    let scalars: Vec<ScalarValue> = probes.iter().map(|probe| probe.scalar.clone()).collect();
    let who = [Many::AtOnce, Many::Reference, Many::OneByOne];
    let names = ["headwater, one multi-get", "reference, one lookup_many", "headwater, 100 gets"];
    let name = format!("{MANY} keys, half fresh, half in the base; {}", rows.layout.name());
    let case = Case { workload: ID, case: &name, unit: "µs a key" };
    let samples = alternate(bench.rounds, &who, async |who| {
        let snapshot = lookups.snapshot().await?;
        let started = Instant::now();
        for _ in 0..MANY_TIMES {
            let found = match who {
                Many::AtOnce => snapshot.get(&at_once).await?.num_rows(),
                Many::Reference => lookups.planner.lookup_many(&scalars, None).await?.num_rows(),
                Many::OneByOne => {
                    let mut found = 0;
                    for probe in &probes {
                        found += snapshot.get(&probe.request).await?.num_rows();
                    }
                    found
                }
            };
            ensure!(found == MANY, "{found} of {MANY} keys were found");
        }
        Ok(sample(started.elapsed().as_secs_f64() * 1e6 / (MANY_TIMES * MANY) as f64))
    })
    .await?;
    bench.report.add(case, &names.map(str::to_owned), &samples);
    if let [at_once, reference, one_by_one] = samples.as_slice() {
        let ratio = Spread::of_ratios(reference, at_once);
        bench.report.judge(case, "reference / multi-get", ratio, Some(Target::AtLeast(30.0)));
        let ratio = Spread::of_ratios(one_by_one, at_once);
        bench.report.judge(case, "100 gets / multi-get", ratio, None);
    }
    Ok(())
}

impl Lookups<'_> {
    /// With what a first read of it finds out known.
    async fn snapshot(&self) -> Result<ReadSnapshot> {
        let snapshot = self.tiers.table()?.read(ReadLevel::Durable).await?;
        let known = self.tiers.rows.numbers_in(Tier::Base, 1)?;
        snapshot.get(&request(&known)?).await?;
        Ok(snapshot)
    }

    /// Microseconds of each lookup.
    async fn timed(&self, who: Who, probes: &[Probe]) -> Result<Vec<f64>> {
        let snapshot = self.snapshot().await?;
        let mut taken_us = Vec::with_capacity(probes.len());
        for probe in probes {
            let started = Instant::now();
            let row = self.row(who, &snapshot, probe).await?;
            taken_us.push(started.elapsed().as_secs_f64() * 1e6);
            ensure!(row.num_rows() == 1, "{} found {} rows of a key", who.name(), row.num_rows());
        }
        Ok(taken_us)
    }

    async fn row(&self, who: Who, snapshot: &ReadSnapshot, probe: &Probe) -> Result<RecordBatch> {
        let row = match who {
            Who::Snapshot => snapshot.get(&probe.request).await?,
            Who::Table => self.tiers.table()?.get(&probe.request).await?,
            Who::Reference => {
                let row = self.planner.lookup(slice::from_ref(&probe.scalar), None).await?;
                row.context("the reference found no row of a key")?
            }
            Who::Filter => {
                let mut scanner = self.tiers.plain.scan();
                scanner.filter_expr(probe.filter.clone());
                scanner.try_into_batch().await?
            }
            Who::Take => self.tiers.plain.take(&[probe.number], Arc::clone(&self.all_columns)).await?,
        };
        Ok(row)
    }

    /// Everyone finds the newest row of every key.
    async fn check(&self, who: &[Who], probes: &[Probe]) -> Result<()> {
        let snapshot = self.snapshot().await?;
        for who in who {
            for probe in probes {
                let row = self.row(*who, &snapshot, probe).await?;
                let value =
                    row.column_by_name(VALUE).and_then(|column| column.as_primitive_opt::<Int32Type>());
                let value = value.and_then(|column| column.values().first().copied());
                let (name, number) = (who.name(), probe.number);
                ensure!(value == Some(probe.value), "{name} found {value:?} in row {number}");
            }
        }
        Ok(())
    }
}

fn sample(value: f64) -> Sample {
    Sample { value, ..Sample::default() }
}

/// Numbers of rows in all tiers: memtable, base, SSTable, base, and again.
fn mix(rows: &Rows, count: usize) -> Result<Vec<u64>> {
    let base = rows.numbers_in(Tier::Base, count.div_ceil(2))?;
    let (memtable, sstables) = (count.div_ceil(4), count.div_ceil(4));
    let (memtable, sstables) =
        (rows.numbers_in(Tier::Memtable, memtable)?, rows.numbers_in(Tier::SsTable, sstables)?);
    let fresh = memtable.into_iter().zip(sstables).flat_map(|(one, other)| [one, other]);
    let mixed = fresh.zip(base).flat_map(|(fresh, base)| [fresh, base]);
    Ok(mixed.take(count).collect())
}

fn probes(rows: &Rows, numbers: &[u64]) -> Result<Vec<Probe>> {
    let probe = |number: &u64| {
        let key = data::key(*number);
        Ok(Probe {
            number: *number,
            value: rows.value(*number),
            request: request(slice::from_ref(number))?,
            scalar: ScalarValue::Int64(Some(key)),
            filter: col(KEY).eq(lit(key)),
        })
    };
    numbers.iter().map(probe).collect()
}

/// All columns of the rows with these numbers.
pub fn request(numbers: &[u64]) -> Result<GetRequest> {
    let keys: Int64Array = numbers.iter().map(|number| data::key(*number)).collect::<Vec<i64>>().into();
    let schema = Arc::new(Schema::new(vec![Field::new(KEY, DataType::Int64, false)]));
    Ok(GetRequest { keys: RecordBatch::try_new(schema, vec![Arc::new(keys)])?, columns: None })
}

/// The reference's lookups at their best: files open, filters loaded.
async fn planner(reference: &Reference) -> Result<LsmPointLookupPlanner> {
    let (shard, memtables) = reference.sources().await?;
    let (base, id) = (&reference.base, shard.shard_id);
    let mut filters = Vec::with_capacity(shard.sstables.len());
    for sstable in &shard.sstables {
        let file = format!("{}/_mem_wal/{id}/{}/bloom_filter.bin", reference.place().uri(), sstable.path);
        let bytes = fs::read(&file).with_context(|| file.clone())?;
        let filter = Sbbf::new(&bytes).map_err(|error| anyhow::anyhow!("{file}: {error}"))?;
        filters.push((sstable.generation, Arc::new(filter)));
    }
    let collector = LsmDataSourceCollector::new(Arc::clone(base), vec![shard]);
    let collector = collector.with_in_memory_memtables(id, memtables);
    let columns = Arc::new(Schema::from(base.schema()));
    let planner = LsmPointLookupPlanner::new(collector, vec![KEY.to_owned()], columns)?
        .with_identity_schema(Arc::new(arrow_schema_with_field_ids(base.schema())))
        .with_session(base.session())
        .with_sstable_cache(Arc::clone(&reference.cache))
        .with_bloom_filters(filters);
    Ok(planner)
}
