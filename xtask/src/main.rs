//! `cargo xtask …`: the checks of this workspace as commands. One arm a command, no logic of its own.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{CheckError, Finding, licences, tidy, workspace};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks of the Headwater workspace on itself")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sizes, module heads, who may name what, invariant ids, paths of machines
    Tidy,
    /// Licence and source of every dependency
    Licences,
}

fn main() -> ExitCode {
    let root = workspace::root();
    let (name, outcome) = match Arguments::parse().command {
        Command::Tidy => ("tidy", tidy::check(&root)),
        Command::Licences => ("licences", licences::check(&root)),
    };
    report(name, outcome)
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the command's output")]
fn report(name: &str, outcome: Result<Vec<Finding>, CheckError>) -> ExitCode {
    match outcome {
        Ok(findings) if findings.is_empty() => {
            println!("{name}: nothing to say");
            ExitCode::SUCCESS
        }
        Ok(findings) => {
            for finding in &findings {
                println!("{finding}");
            }
            println!("{name}: {} to mend", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
