//! `headwater inspect`: what is on storage, claiming nothing. The report is the library's; here it is
//! printed.

use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};
use headwater::inspect::TableReport;
use headwater::inspect::report::{LeftOver, ShardReport, ShardingReport};

use crate::error::Failure;
use crate::output::{self, bytes, count, counted};
use crate::progress;
use crate::{Format, Global};

/// Reads the newest manifests and every WAL entry; writes nothing and disturbs no writer.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Path or URI of the table
    table: String,
    /// How the findings are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub async fn run(global: &Global, args: &InspectArgs) -> Result<(), Failure> {
    let (options, env) = (global.table_options(&args.table)?, global.env());
    let inspecting = headwater::inspect::inspect(&args.table, &options, env.clone());
    let what = || "reading manifests and WAL entries".to_owned();
    let report = progress::shown(&env, what, inspecting).await?;
    match args.format {
        Format::Json => output::json(&report),
        Format::Human => output::line(human(&report).trim_end()),
    }
}

fn human(report: &TableReport) -> String {
    let key = if report.key.is_empty() { "none (append-only)".to_owned() } else { report.key.join(", ") };
    let mut lines = vec![
        format!("table     {}", report.table),
        format!("base      version {}", report.base_version),
        format!("key       {key}"),
        format!("sharding  {}", sharding(report.sharding.as_ref())),
        format!("shards    {}", shards(report)),
    ];
    let is_sharded = report.sharding.as_ref().is_some_and(|sharding| *sharding != ShardingReport::Unsharded);
    if report.shards.len() > 1 {
        lines.push(String::new());
        lines.push(overview(&report.shards));
    }
    for shard in &report.shards {
        lines.push(String::new());
        lines.extend(shard_lines(shard, is_sharded));
    }
    if !report.left_overs.is_empty() {
        lines.push("\nleft-overs that belong to no shard".to_owned());
        lines.extend(left_overs(&report.left_overs, ""));
    }
    lines.join("\n")
}

fn sharding(sharding: Option<&ShardingReport>) -> String {
    match sharding {
        None => "none: the table has no write tier".to_owned(),
        Some(ShardingReport::Unsharded) => "one shard".to_owned(),
        Some(ShardingReport::Bucket { column, num_buckets }) => {
            format!("{num_buckets} buckets by the hash of {column}")
        }
        Some(ShardingReport::Identity { column }) => format!("a shard for each value of {column}"),
        Some(ShardingReport::Manual) => "shards made by hand".to_owned(),
    }
}

fn shards(report: &TableReport) -> String {
    match report.shards.len() as u64 {
        // A shard is made by the first row for it.
        0 if report.sharding.is_some() => "none: nothing was written yet".to_owned(),
        shards => count(shards),
    }
}

/// All shards of a table, a line each.
fn overview(shards: &[ShardReport]) -> String {
    let mut grid =
        grid(&["shard", "value", "epoch", "WAL entries", "unflushed rows", "SSTables", "SSTable bytes"]);
    for shard in shards {
        grid.add_row([
            shard.id.clone(),
            values(shard),
            shard.manifest.as_ref().map_or_else(String::new, |manifest| count(manifest.writer_epoch)),
            count(shard.wal.entries),
            count(shard.wal.unflushed_rows),
            count(shard.sstables.len() as u64),
            bytes(shard.sstables.iter().map(|sstable| sstable.file_bytes).sum()),
        ]);
    }
    right(grid, 2..=6)
}

fn values(shard: &ShardReport) -> String {
    shard.values.values().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn shard_lines(shard: &ShardReport, is_sharded: bool) -> Vec<String> {
    let mut lines = vec![format!("shard {}", shard.id)];
    if is_sharded && !shard.values.is_empty() {
        lines.push(format!("  value     {}", values(shard)));
    }
    lines.push(match &shard.manifest {
        None => "  manifest  none that can be read".to_owned(),
        Some(manifest) => format!(
            "  manifest  version {}, {}, epoch {}, next generation {}, WAL flushed up to entry {}",
            manifest.version,
            manifest.status,
            manifest.writer_epoch,
            manifest.current_generation,
            manifest.replay_after,
        ),
    });
    lines.push(wal_line(shard));
    if shard.sstables.is_empty() {
        lines.push("  SSTables  none".to_owned());
    } else {
        lines.push("  SSTables".to_owned());
        lines.push(sstables(shard));
    }
    if !shard.left_overs.is_empty() {
        lines.push("  left-overs".to_owned());
        lines.extend(left_overs(&shard.left_overs, &shard.id));
    }
    for problem in &shard.problems {
        lines.push(format!("  PROBLEM   {}: {}", problem.path, problem.reason));
    }
    lines
}

fn wal_line(shard: &ShardReport) -> String {
    let wal = &shard.wal;
    let (Some(first), Some(last)) = (wal.first, wal.last) else { return "  WAL       empty".to_owned() };
    let sentinels = match wal.sentinels {
        0 => String::new(),
        1 => ", 1 of them a fence".to_owned(),
        sentinels => format!(", {} of them fences", count(sentinels)),
    };
    format!(
        "  WAL       {} ({first} to {last}{sentinels}), {}, {}; not yet flushed: {}",
        output::entries(wal.entries),
        bytes(wal.bytes),
        counted(wal.rows, "row"),
        counted(wal.unflushed_rows, "row"),
    )
}

fn sstables(shard: &ShardReport) -> String {
    let unknown = || "?".to_owned();
    let mut grid =
        grid(&["generation", "directory", "rows", "in memory", "key bytes", "files", "on storage"]);
    for sstable in &shard.sstables {
        grid.add_row([
            count(sstable.generation),
            sstable.path.clone(),
            sstable.physical_rows.map_or_else(unknown, count),
            sstable.in_memory_bytes.map_or_else(unknown, bytes),
            sstable.primary_key_bytes.map_or_else(|| "-".to_owned(), bytes),
            count(sstable.files),
            bytes(sstable.file_bytes),
        ]);
    }
    right(grid, 2..=6)
}

/// Names are long here, so a list rather than a table. Those of a shard are shown from its directory on.
fn left_overs(found: &[LeftOver], shard: &str) -> Vec<String> {
    let mut lines = Vec::with_capacity(found.len() * 2);
    for LeftOver { path, bytes, why } in found {
        let inside = path.split_once(shard).map_or("", |(_, inside)| inside).trim_start_matches('/');
        lines.push(format!("    {inside}"));
        lines.push(format!("      {}: {why}", output::bytes(*bytes)));
    }
    lines
}

fn grid(header: &[&str]) -> Grid {
    let mut grid = Grid::new();
    grid.load_preset(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    grid.set_header(header);
    grid
}

fn right(mut grid: Grid, columns: std::ops::RangeInclusive<usize>) -> String {
    for column in grid.column_iter_mut().skip(*columns.start()).take(columns.count()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    grid.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
