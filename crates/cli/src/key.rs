//! `headwater key`: the API keys of a server, as its keys file has them.
//!
//! A server reads the file again when it has changed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use comfy_table::{Table as Grid, presets};
use headwater_server::auth::{self, Databases, KeysError};

use crate::Global;
use crate::error::Failure;
use crate::output;

/// The file holds hashes: a key is shown when it is made, and never again. A server that runs reads the file
/// again within a second or two after it has changed.
#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a key, print it, and add its hash to the file
    Add(AddArgs),
    /// Take a key from the file, so that it opens nothing any more
    Remove(RemoveArgs),
    /// List the names of the keys, and what they may do
    List(ListArgs),
}

#[derive(Debug, Args)]
struct AddArgs {
    /// The keys file of the server
    #[arg(long, value_name = "FILE", default_value = "data/headwater-keys.toml")]
    keys: PathBuf,
    /// Name of the key, for people and logs
    name: String,
    /// A database it is for; may be repeated [default: all]
    #[arg(long = "database", value_name = "NAME")]
    databases: Vec<String>,
    /// Let it read only
    #[arg(long)]
    read_only: bool,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// The keys file of the server
    #[arg(long, value_name = "FILE", default_value = "data/headwater-keys.toml")]
    keys: PathBuf,
    /// Name of the key
    name: String,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// The keys file of the server
    #[arg(long, value_name = "FILE", default_value = "data/headwater-keys.toml")]
    keys: PathBuf,
}

pub fn run(global: &Global, args: &KeyArgs) -> Result<(), Failure> {
    match &args.command {
        KeyCommand::Add(args) => {
            let databases = match args.databases.as_slice() {
                [] => Databases::All,
                names => Databases::List(names.iter().cloned().collect()),
            };
            let key = auth::add(&args.keys, &args.name, databases, !args.read_only, &global.env());
            output::line(key.map_err(failed)?.reveal())?;
            output::note("shown this once; a server that runs knows it in a moment");
            Ok(())
        }
        KeyCommand::Remove(args) => {
            auth::remove(&args.keys, &args.name, &global.env()).map_err(failed)?;
            output::note("a server that runs refuses it in a moment");
            Ok(())
        }
        KeyCommand::List(args) => {
            let mut grid = Grid::new();
            grid.load_preset(presets::NOTHING).set_header(["name", "databases", "may"]);
            for key in auth::list(&args.keys).map_err(failed)?.keys {
                let databases = match key.databases {
                    Databases::All => "all".to_owned(),
                    Databases::List(names) => names.into_iter().collect::<Vec<_>>().join(", "),
                };
                let may = if key.write { "read and write" } else { "read" };
                grid.add_row([key.name, databases, may.to_owned()]);
            }
            output::line(&grid.trim_fmt())
        }
    }
}

fn failed(error: KeysError) -> Failure {
    Failure::Server(error.to_string())
}
