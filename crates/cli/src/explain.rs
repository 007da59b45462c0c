//! `headwater explain`: how a query would be answered.

use clap::Args;
use headwater::Error;

use crate::Global;
use crate::error::Failure;
use crate::output;
use crate::tables_in::TablesArgs;

/// Says of each source how many rows newer ones hide, and which filters it applies itself.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    tables: TablesArgs,
}

pub async fn run(global: &Global, args: &ExplainArgs) -> Result<(), Failure> {
    let session = args.tables.session(global).await?;
    let plan = session.explain(&args.tables.query).await.map_err(Error::from)?;
    output::line(plan.trim_end())
}
