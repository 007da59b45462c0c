//! `headwater scan`: the live rows of a table, all tiers together.

use clap::Args;
use headwater::{ReadLevel, ScanRequest, ShardSettings, Table};

use crate::Global;
use crate::error::Failure;
use crate::output;
use crate::rows_out::{RowFormat, print};

/// Rows are read and printed as they come, so memory stays bounded.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// Path or URI of the table
    table: String,
    /// Columns to print, in this order; all when left out
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// A SQL condition, as in "origin = 'JFK' AND delay > 30"
    #[arg(long, value_name = "SQL")]
    filter: Option<String>,
    /// At most so many rows; rows have no order, so which ones is not said
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Rows to leave out first
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t)]
    format: RowFormat,
    /// Print the plan instead: its sources, and how many rows of each newer ones hide
    #[arg(long, conflicts_with = "format")]
    explain: bool,
}

pub async fn run(global: &Global, args: &ScanArgs) -> Result<(), Failure> {
    args.format.check()?;
    let options = global.open_options(&args.table, &global.env(), ShardSettings::default())?;
    let table = Table::open(&args.table, options).await?;
    let request = ScanRequest {
        columns: args.columns.clone(),
        filter: args.filter.clone(),
        limit: args.limit,
        offset: args.offset,
    };
    if args.explain {
        let plan = table.read(ReadLevel::Durable).await?.explain(&request).await;
        return output::line(plan.map_err(|error| table.read_failed(error))?.trim_end());
    }
    let rows = table.scan(&request).await?;
    print(args.format, rows.schema(), rows, |error| table.read_failed(error)).await
}
