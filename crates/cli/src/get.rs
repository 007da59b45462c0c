//! `headwater get`: the live rows of some keys, all tiers together.

use arrow_array::RecordBatch;
use clap::Args;
use futures::StreamExt;
use headwater::{GetRequest, ReadLevel, ShardSettings, Table};

use crate::Global;
use crate::error::Failure;
use crate::keys_in;
use crate::output;
use crate::rows_out::{RowFormat, RowsOut, pieces};

/// Keys looked up at once: their rows are in memory together.
const KEYS_AT_ONCE: usize = 1_000;

/// Rows come in the order of their keys; a key without a row prints nothing.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// Path or URI of the table
    table: String,
    /// Values of the key column, bytes as hex (0x1f8b); of a key of several columns A,B,C or a JSON array.
    /// What starts with a dash and is no number goes behind --
    #[arg(
        value_name = "KEY",
        allow_negative_numbers = true,
        required_unless_present = "keys_from",
        conflicts_with = "keys_from"
    )]
    keys: Vec<String>,
    /// Take the keys from a file with one JSON object of the key columns a line (bytes as hex without 0x), or
    /// from standard input: -
    #[arg(long, value_name = "FILE")]
    keys_from: Option<String>,
    /// Columns to print, in this order; all when left out
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t)]
    format: RowFormat,
}

pub async fn run(global: &Global, args: &GetArgs) -> Result<(), Failure> {
    args.format.check()?;
    let options = global.open_options(&args.table, &global.env(), ShardSettings::default())?;
    let table = Table::open(&args.table, options).await?;
    let key = keys_in::key_of(&table, "find its rows with `headwater scan --filter`")?;
    let mut keys = keys_in::keys(&args.keys, args.keys_from.as_deref(), &key)?;
    let snapshot = table.read(ReadLevel::Durable).await?;
    let request = |keys: RecordBatch| GetRequest { keys, columns: args.columns.clone() };
    // The rows of no keys say which columns there will be, and whether there are such.
    let none = snapshot.get(&request(RecordBatch::new_empty(key))).await;
    let none = none.map_err(|error| table.read_failed(error))?;
    let mut out = RowsOut::new(args.format, none.schema())?;
    let mut asked = 0;
    while let Some(batch) = keys.next().await {
        let batch = batch?;
        for keys in pieces(&batch, KEYS_AT_ONCE) {
            asked += keys.num_rows() as u64;
            let rows = snapshot.get(&request(keys)).await.map_err(|error| table.read_failed(error))?;
            if !out.write(&rows)? {
                return Ok(());
            }
        }
    }
    let found = output::counted(out.finish()?, "row");
    output::note(&format!("{found} found for {}", output::counted(asked, "key")));
    Ok(())
}
