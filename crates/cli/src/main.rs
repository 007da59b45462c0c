//! The `headwater` command: one file a command, no logic of its own beyond files, text and terminals.
//!
//! Owns: arguments, reading input files ([`input`]), what is printed ([`output`], [`rows_out`]) and exit
//! codes. Does not own: anything a program could want without a terminal; that is the `headwater` library.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 128 and the number of the signal when one ended it (130 for
//! ctrl-c).

mod arrow_file;
mod convert;
mod count;
mod csv_file;
mod csv_values;
mod delete;
mod error;
mod explain;
mod flow;
mod flush;
mod get;
mod index;
mod ingest;
mod init;
mod input;
mod inspect;
mod json_values;
mod key;
mod keys_in;
mod ndjson;
mod output;
mod parquet_file;
mod progress;
#[cfg(test)]
mod reading_in_tests;
mod rows_out;
mod scan;
mod serve;
mod signals;
mod sql;
mod storage;
mod tables_in;
mod verify;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use headwater::{EnvRef, OpenOptions, ShardSettings, TableOptions, TokioEnv};
use tracing_subscriber::EnvFilter;

use crate::error::Failure;

/// A real-time write tier in front of Lance tables.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What holds for every command.
#[derive(Debug, Args)]
struct Global {
    /// Option for the table's object store, such as a credential or `endpoint`; may be repeated
    #[arg(long = "storage-option", global = true, value_name = "KEY=VALUE")]
    storage_options: Vec<String>,
    /// Do not sync files to disk: faster, and acknowledged rows can be lost in a power cut (local tables
    /// only)
    #[arg(long, global = true)]
    no_fsync: bool,
    /// Say more on stderr; twice for every step
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Give a Lance table a write tier, or create a new table with one
    Init(init::InitArgs),
    /// Stream rows of Parquet, NDJSON, CSV or Arrow files into a table as small durable writes
    Ingest(ingest::IngestArgs),
    /// Print rows of a table: base, SSTables and WAL together
    ///
    /// Sees every row that was acknowledged when it starts. Claims no shard: rows of writers that are running
    /// are read from storage, and the writers are not disturbed.
    Scan(scan::ScanArgs),
    /// Print the rows of some keys, wherever they are
    ///
    /// Sees every row that was acknowledged when it starts. Claims no shard: rows of writers that are running
    /// are read from storage, and the writers are not disturbed.
    Get(get::GetArgs),
    /// Print how many rows a table has, or how many of them a condition holds for
    ///
    /// Counts every row that was acknowledged when it starts. Claims no shard: rows of writers that are
    /// running are read from storage, and the writers are not disturbed.
    Count(count::CountArgs),
    /// Answer a query in SQL over one table or several
    ///
    /// Sees every row that was acknowledged when it starts, of each table as it was at one moment. Claims no
    /// shard: rows of writers that are running are read from storage, and the writers are not disturbed.
    Sql(sql::SqlArgs),
    /// Print how a query would be answered: its steps, the sources, and what is hidden of each
    ///
    /// Claims no shard and reads what planning needs: the keys of rows that are not in the base.
    Explain(explain::ExplainArgs),
    /// Delete rows by their keys, or those a condition finds
    ///
    /// Deletes are durable and visible when it ends, and like any write they claim the shards of their keys:
    /// a writer of these that runs elsewhere is fenced.
    Delete(delete::DeleteArgs),
    /// Turn what the WAL holds into SSTables
    Flush(flush::FlushArgs),
    /// Make, list and drop scalar indexes of the base table
    Index(index::IndexArgs),
    /// Show shards, manifests, WAL entries, SSTables and left-overs
    Inspect(inspect::InspectArgs),
    /// Serve databases of tables to LanceDB's clients
    ///
    /// Every setting can stand in a file, in an environment variable HEADWATER_SERVE_…, or in a flag; the
    /// later goes before the earlier. With none at all, ./data is served on 127.0.0.1:8080, and the key that
    /// clients need is printed when it is made.
    Serve(serve::ServeArgs),
    /// Make and list the API keys of a server
    Key(key::KeyArgs),
    /// Check everything on storage against the invariants: WAL, manifests, SSTables, base
    Verify(verify::VerifyArgs),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    // 0.1 called it `human`; scripts may still.
    #[value(name = "table", alias = "human")]
    Human,
    /// For scripts
    Json,
}

impl Global {
    fn env(&self) -> EnvRef {
        Arc::new(TokioEnv::new())
    }

    fn table_options(&self, table: &str) -> Result<TableOptions, Failure> {
        let variable = |name: &str| std::env::var(name).ok();
        storage::table_options(table, &self.storage_options, self.no_fsync, variable)
    }

    fn open_options(
        &self,
        table: &str,
        env: &EnvRef,
        settings: ShardSettings,
    ) -> Result<OpenOptions, Failure> {
        Ok(OpenOptions {
            settings,
            table: self.table_options(table)?,
            env: Some(env.clone()),
            ..OpenOptions::default()
        })
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // A server logs in the way it is told to.
    if !matches!(cli.command, Command::Serve(_)) {
        log(cli.global.verbose);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::failed(&Failure::io("the runtime", &error)),
    };
    let end = runtime.block_on(run(&cli));
    // Whatever still runs in the background is given up, as a crash would: nothing acknowledged depends on
    // it.
    runtime.shutdown_background();
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output::failed(&failure),
    }
}

async fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::Init(args) => init::run(&cli.global, args).await,
        Command::Ingest(args) => ingest::run(&cli.global, args).await,
        Command::Scan(args) => scan::run(&cli.global, args).await,
        Command::Get(args) => get::run(&cli.global, args).await,
        Command::Count(args) => count::run(&cli.global, args).await,
        Command::Sql(args) => sql::run(&cli.global, args).await,
        Command::Explain(args) => explain::run(&cli.global, args).await,
        Command::Delete(args) => delete::run(&cli.global, args).await,
        Command::Flush(args) => flush::run(&cli.global, args).await,
        Command::Index(args) => index::run(&cli.global, args).await,
        Command::Inspect(args) => inspect::run(&cli.global, args).await,
        Command::Verify(args) => verify::run(&cli.global, args).await,
        Command::Serve(args) => serve::run(&cli.global, args).await,
        Command::Key(args) => key::run(&cli.global, args),
    }
}

fn log(verbose: u8) {
    let level = match verbose {
        0 => "headwater=warn,headwater_engine=warn,headwater_store=warn,headwater_lance=warn",
        1 => "warn,headwater=info,headwater_engine=info,headwater_store=info,headwater_lance=info",
        _ => "info,headwater=trace,headwater_engine=trace,headwater_store=trace,headwater_lance=trace",
    };
    let filter = EnvFilter::try_from_env("HEADWATER_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .init();
}
