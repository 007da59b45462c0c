//! What tables tell when they are asked.
//!
//! Owns: which of a table's numbers each metric is, summed over its shards; one row a metric. Asked at each
//! scrape, so nothing is kept here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use headwater::{Counters, Histogram, ShardStats, TableStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use serde::Serialize;

use crate::app::{App, OpenTable};
use crate::metrics::declared as d;
use crate::metrics::declared::{Declared, Kind};
use crate::metrics::registry::unit_of;

/// The metrics of tables.
pub(super) struct TableMetrics(pub Arc<dyn App>);

impl fmt::Debug for TableMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableMetrics").finish_non_exhaustive()
    }
}

/// Microseconds in a second.
const MICROS: f64 = 1e6;

/// A number of a shard.
type OfShard = fn(&ShardStats) -> u64;
type Labels = Vec<(&'static str, String)>;

/// How a metric's values are come by.
enum Read {
    /// One number a table.
    One(fn(&TableStats) -> u64),
    /// A number for each value of further labels.
    Many(fn(&TableStats) -> Vec<(Labels, u64)>),
    /// A distribution, and how many of its units make one of the metric's.
    Sizes(fn(&Counters) -> &Histogram, f64),
}

struct Row {
    metric: Declared,
    read: Read,
}

const fn one(metric: Declared, read: fn(&TableStats) -> u64) -> Row {
    Row { metric, read: Read::One(read) }
}

const fn many(metric: Declared, read: fn(&TableStats) -> Vec<(Labels, u64)>) -> Row {
    Row { metric, read: Read::Many(read) }
}

const fn sizes(metric: Declared, read: fn(&Counters) -> &Histogram, units: f64) -> Row {
    Row { metric, read: Read::Sizes(read, units) }
}

const ROWS: &[Row] = &[
    sizes(d::ACK_DURATION, |counters| &counters.ack_us, MICROS),
    one(d::ROWS, |table| sum(table, |shard| shard.counters.rows)),
    one(d::PAYLOAD, |table| sum(table, |shard| shard.counters.payload_bytes)),
    sizes(d::GROUP_PUTS, |counters| &counters.group_puts, 1.0),
    one(d::WAL_ENTRIES, |table| sum(table, |shard| shard.counters.wal_entries)),
    one(d::WAL_BYTES, |table| sum(table, |shard| shard.counters.wal_bytes)),
    one(d::WAL_PENDING_ROWS, |table| sum(table, pending_rows)),
    one(d::WAL_LAG, |table| sum(table, lag)),
    one(d::MEMTABLE_BYTES, |table| sum(table, |shard| shard.memtable_bytes)),
    one(d::INDEX_BYTES, |table| sum(table, |shard| shard.index_bytes)),
    one(d::FROZEN, |table| sum(table, |shard| shard.frozen as u64)),
    sizes(d::FLUSH_DURATION, |counters| &counters.flush_us, MICROS),
    one(d::SSTABLES, |table| sum(table, |shard| shard.sstables as u64)),
    one(d::SHADOW_BYTES, |table| table.shadow_bytes),
    one(d::MEMORY_USED, |table| table.memory_used),
    one(d::MEMORY_LIMIT, |table| table.memory_limit),
    many(d::SHARDS, by_status),
    many(d::SHARD_ERRORS, errors),
    one(d::REPEATED_TOKENS, |table| sum(table, |shard| shard.counters.repeated_tokens)),
    many(d::STORAGE_REQUESTS, |table| requests(table, |counts| counts.requests)),
    many(d::STORAGE_FAILURES, |table| requests(table, |counts| counts.failed)),
    many(d::STORAGE_BYTES, |table| requests(table, |counts| counts.bytes)),
];

impl Collector for TableMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let open = encoder.encode_descriptor(
            d::OPEN_TABLES.name,
            &format!("{}.", d::OPEN_TABLES.help),
            None,
            MetricType::Gauge,
        );
        open?.encode_gauge(&(self.0.open_tables() as u64))?;
        let tables = self.0.tables();
        if tables.is_empty() {
            return Ok(());
        }
        for Row { metric, read } in ROWS {
            let unit = unit_of(metric);
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            // What is registered elsewhere gets its full stop there.
            let help = format!("{}.", metric.help);
            let mut family = encoder.encode_descriptor(metric.name, &help, unit.as_ref(), kind)?;
            for table in &tables {
                samples(&mut family, metric, read, table)?;
            }
        }
        Ok(())
    }
}

fn samples(
    family: &mut MetricEncoder<'_>,
    metric: &Declared,
    read: &Read,
    table: &OpenTable,
) -> Result<(), fmt::Error> {
    let of_table: Labels = vec![("database", table.database.clone()), ("table", table.table.clone())];
    match read {
        Read::One(read) => sample(family, metric.kind, &of_table, read(&table.stats)),
        Read::Many(read) => read(&table.stats).into_iter().try_for_each(|(more, value)| {
            let labels = of_table.iter().cloned().chain(more).collect();
            sample(family, metric.kind, &labels, value)
        }),
        Read::Sizes(read, units) => {
            let mut all = Histogram::default();
            for shard in table.stats.shards.values() {
                all.merge(read(&shard.counters));
            }
            let buckets = buckets(&all, *units);
            family.encode_family(&of_table)?.encode_histogram::<NoLabelSet>(
                all.sum() as f64 / units,
                all.count(),
                &buckets,
                None,
            )
        }
    }
}

fn sample(family: &mut MetricEncoder<'_>, kind: Kind, labels: &Labels, value: u64) -> Result<(), fmt::Error> {
    let mut sample = family.encode_family(labels)?;
    match kind {
        Kind::Counter => sample.encode_counter::<NoLabelSet, _, u64>(&value, None),
        _ => sample.encode_gauge(&value),
    }
}

/// Upper limit and count of each size; the last one is without a limit.
fn buckets(histogram: &Histogram, units: f64) -> Vec<(f64, u64)> {
    let limit = |limit: Option<u64>| limit.map_or(f64::INFINITY, |limit| limit as f64 / units);
    histogram.sizes().map(|(largest, count)| (limit(largest), count)).collect()
}

fn sum(table: &TableStats, of: OfShard) -> u64 {
    table.shards.values().map(of).sum()
}

fn pending_rows(shard: &ShardStats) -> u64 {
    shard.next_seq.get().saturating_sub(shard.durable.get())
}

/// The entry at the next position is yet to be written.
fn lag(shard: &ShardStats) -> u64 {
    shard.next_position.get().saturating_sub(1).saturating_sub(shard.replay_after.get())
}

fn by_status(table: &TableStats) -> Vec<(Labels, u64)> {
    let mut shards = BTreeMap::<String, u64>::new();
    for shard in table.shards.values() {
        *shards.entry(name_of(&shard.status)).or_default() += 1;
    }
    shards.into_iter().map(|(status, count)| (vec![("status", status)], count)).collect()
}

fn errors(table: &TableStats) -> Vec<(Labels, u64)> {
    let kinds: [(&str, OfShard); 4] = [
        ("flush_failed", |shard| shard.counters.flush_failures),
        ("look_failed", |shard| shard.counters.look_failures),
        ("backpressure", |shard| shard.counters.backpressure_waits),
        ("condition_failed", |shard| shard.counters.failed_conditions),
    ];
    kinds.into_iter().map(|(kind, of)| (vec![("kind", kind.to_owned())], sum(table, of))).collect()
}

fn requests(table: &TableStats, of: fn(&headwater::Counts) -> u64) -> Vec<(Labels, u64)> {
    let rows = table.requests.rows.iter();
    rows.map(|row| {
        (vec![("request", name_of(&row.request)), ("object", name_of(&row.kind))], of(&row.counts))
    })
    .collect()
}

/// An enum's variant as it is spelled wherever it is written.
fn name_of(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "other".to_owned(),
    }
}
