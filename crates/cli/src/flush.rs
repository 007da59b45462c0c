//! `headwater flush`: takes every shard over, replays its WAL, and publishes what it holds as SSTables.

use clap::Args;
use headwater::{EnvRef, Kind, Request, ShardSettings, Table};

use crate::Global;
use crate::error::Failure;
use crate::output;
use crate::progress;

/// Claims every shard of the table, so a writer that runs elsewhere is fenced.
#[derive(Debug, Args)]
pub struct FlushArgs {
    /// Path or URI of the table
    table: String,
}

pub async fn run(global: &Global, args: &FlushArgs) -> Result<(), Failure> {
    let env = global.env();
    let options = global.open_options(&args.table, &env, ShardSettings::default())?;
    let table = Table::open(&args.table, options).await?;
    let end = flush(&table, &env).await;
    let closed = table.close().await;
    let shards = end?;
    closed?;
    report(global, &table, shards)
}

async fn flush(table: &Table, env: &EnvRef) -> Result<usize, Failure> {
    let shards = progress::shown(env, || replaying(table), table.open_shards()).await?;
    progress::shown(env, || flushing(table, shards), table.flush()).await?;
    Ok(shards)
}

fn replaying(table: &Table) -> String {
    let read = table.stats().requests.get(Request::Get, Kind::Wal).requests;
    format!("replaying the WAL: {} read", output::entries(read))
}

fn flushing(table: &Table, shards: usize) -> String {
    let published: u64 = table.stats().shards.values().map(|shard| shard.counters.flushes).sum();
    format!(
        "flushing {}: {} published",
        output::counted(shards as u64, "shard"),
        output::counted(published, "SSTable")
    )
}

fn report(global: &Global, table: &Table, shards: usize) -> Result<(), Failure> {
    let stats = table.stats();
    let sum = |of: fn(&headwater::ShardStats) -> u64| stats.shards.values().map(of).sum::<u64>();
    output::line(&format!(
        "{} of {}: {} replayed from the WAL, {} published",
        output::counted(shards as u64, "shard"),
        table.uri(),
        output::counted(sum(|shard| shard.counters.replayed_rows), "row"),
        output::counted(sum(|shard| shard.counters.flushes), "SSTable"),
    ))?;
    if global.no_fsync {
        output::line(output::NOT_SYNCED)?;
    }
    Ok(())
}
