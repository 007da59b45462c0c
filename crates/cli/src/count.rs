//! `headwater count`: how many live rows a table has, all tiers together.

use clap::Args;
use headwater::{ShardSettings, Table};
use serde::Serialize;

use crate::error::Failure;
use crate::output;
use crate::{Format, Global};

/// Without a condition no row is read, only keys.
#[derive(Debug, Args)]
pub struct CountArgs {
    /// Path or URI of the table
    table: String,
    /// Count the rows for which this SQL condition holds, as in "delay > 30"
    #[arg(long, value_name = "SQL")]
    filter: Option<String>,
    /// How the number is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// `count --format json`.
#[derive(Debug, Serialize)]
struct Counted {
    rows: u64,
}

pub async fn run(global: &Global, args: &CountArgs) -> Result<(), Failure> {
    let options = global.open_options(&args.table, &global.env(), ShardSettings::default())?;
    let table = Table::open(&args.table, options).await?;
    let rows = table.count(args.filter.as_deref()).await?;
    match args.format {
        // The digits alone, for `$(headwater count …)`.
        Format::Human => output::line(&rows.to_string()),
        Format::Json => output::json_line(&Counted { rows }),
    }
}
