//! `headwater sql`: one query over the live rows of tables, all tiers together.

use clap::Args;
use headwater::{Error, QueryError};

use crate::Global;
use crate::error::Failure;
use crate::rows_out::{RowFormat, print};
use crate::tables_in::TablesArgs;

/// Rows are printed as they come; what has to be sorted or grouped first is held within --memory.
#[derive(Debug, Args)]
pub struct SqlArgs {
    #[command(flatten)]
    tables: TablesArgs,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t)]
    format: RowFormat,
}

pub async fn run(global: &Global, args: &SqlArgs) -> Result<(), Failure> {
    args.format.check()?;
    let session = args.tables.session(global).await?;
    let rows = session.sql(&args.tables.query).await.map_err(Error::from)?;
    print(args.format, rows.schema(), rows, |error| Error::from(QueryError::from(error))).await
}
