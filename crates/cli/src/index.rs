//! `headwater index`: scalar indexes of the base table.
//!
//! Owns: arguments and printing. Does not own: which columns can have one, and which index stays (the
//! library knows).

use clap::{Args, Subcommand, ValueEnum};
use comfy_table::{CellAlignment, Table as Grid, presets};
use headwater::{IndexInfo, IndexKind, ShardSettings, Table};
use serde::Serialize;

use crate::error::Failure;
use crate::output::{self, count};
use crate::{Format, Global};

/// Filters look rows of the base up in them. Rows that are still in SSTables or in the WAL are no part of any
/// and found all the same. Claims no shard: writers go on.
#[derive(Debug, Args)]
pub struct IndexArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Index a column of the base
    Create(CreateArgs),
    /// Show the indexes, and how many rows of the base are in none of their parts
    List(ListArgs),
    /// Drop an index; its files stay until Lance cleans up versions of the table that have it
    Drop(DropArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Path or URI of the table
    table: String,
    /// The column
    column: String,
    /// What kind of index
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// Its name; that of the column and _idx when left out
    #[arg(long)]
    name: Option<String>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Path or URI of the table
    table: String,
    /// How the indexes are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
struct DropArgs {
    /// Path or URI of the table
    table: String,
    /// The index
    name: String,
    /// Drop the index on the key too: looking rows up by key then reads the base whole
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// For columns of many values: equality and ranges
    #[default]
    #[value(name = "btree")]
    BTree,
    /// For columns of few values
    Bitmap,
}

impl From<Kind> for IndexKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::BTree => Self::BTree,
            Kind::Bitmap => Self::Bitmap,
        }
    }
}

/// An index as `--format json` shows it.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    name: &'a str,
    kind: &'a str,
    columns: &'a [String],
    fragments: u64,
    covered: u64,
    unindexed_rows: u64,
}

impl<'a> From<&'a IndexInfo> for Shown<'a> {
    fn from(index: &'a IndexInfo) -> Self {
        Self {
            name: &index.name,
            kind: &index.kind,
            columns: &index.columns,
            fragments: index.fragments,
            covered: index.covered,
            unindexed_rows: index.unindexed_rows,
        }
    }
}

pub async fn run(global: &Global, args: &IndexArgs) -> Result<(), Failure> {
    match &args.action {
        Action::Create(args) => create(global, args).await,
        Action::List(args) => list(global, args).await,
        Action::Drop(args) => drop_index(global, args).await,
    }
}

async fn open(global: &Global, table: &str) -> Result<Table, Failure> {
    let options = global.open_options(table, &global.env(), ShardSettings::default())?;
    Ok(Table::open(table, options).await?)
}

async fn create(global: &Global, args: &CreateArgs) -> Result<(), Failure> {
    let table = open(global, &args.table).await?;
    let index = table.create_index(&args.column, args.kind.into(), args.name.as_deref()).await?;
    match args.format {
        Format::Json => output::json_line(&Shown::from(&index)),
        Format::Human => output::line(&format!(
            "created index {} ({} on {}): {}",
            index.name,
            index.kind,
            index.columns.join(", "),
            coverage(index.covered, index.fragments)
        )),
    }
}

/// How much of the base an index covers, for people.
pub fn coverage(covered: u64, fragments: u64) -> String {
    if fragments == 0 {
        // Rows come there by compaction, or from whoever appends to the table.
        return "the base has no rows yet, and those in SSTables and in the WAL are found without it"
            .to_owned();
    }
    format!("covers {} of {} of the base", count(covered), output::counted(fragments, "fragment"))
}

async fn list(global: &Global, args: &ListArgs) -> Result<(), Failure> {
    let indexes = open(global, &args.table).await?.indexes().await?;
    match args.format {
        Format::Json => output::json(&indexes.iter().map(Shown::from).collect::<Vec<_>>()),
        Format::Human => output::line(&human(&indexes)),
    }
}

fn human(indexes: &[IndexInfo]) -> String {
    if indexes.is_empty() {
        return "no indexes".to_owned();
    }
    let mut grid = Grid::new();
    grid.load_preset(presets::NOTHING);
    grid.set_header(["index", "kind", "columns", "covered", "fragments", "unindexed rows"]);
    for index in indexes {
        grid.add_row([
            index.name.clone(),
            index.kind.clone(),
            index.columns.join(", "),
            count(index.covered),
            count(index.fragments),
            count(index.unindexed_rows),
        ]);
    }
    for place in 3..=5 {
        if let Some(column) = grid.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid.to_string()
}

async fn drop_index(global: &Global, args: &DropArgs) -> Result<(), Failure> {
    let table = open(global, &args.table).await?;
    table.drop_index(&args.name, args.force).await?;
    output::line(&format!("dropped index {} of {}", args.name, table.uri()))
}
