//! `headwater flush`: takes every shard over, replays its WAL, and publishes what it holds as SSTables.

use clap::Args;
use headwater::{ShardSettings, Table};

use crate::Global;
use crate::error::Failure;
use crate::output;

/// Claims every shard of the table, so a writer that runs elsewhere is fenced.
#[derive(Debug, Args)]
pub struct FlushArgs {
    /// Path or URI of the table
    table: String,
}

pub async fn run(global: &Global, args: &FlushArgs) -> Result<(), Failure> {
    let env = global.env();
    let table = Table::open(&args.table, global.open_options(&env, ShardSettings::default())?).await?;
    let end = flush(&table).await;
    let closed = table.close().await;
    let shards = end?;
    closed?;
    report(global, &table, shards)
}

async fn flush(table: &Table) -> Result<usize, Failure> {
    let shards = table.open_shards().await?;
    table.flush().await?;
    Ok(shards)
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
