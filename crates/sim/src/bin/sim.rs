//! `headwater-sim`: runs scenarios by seed and replays failures.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::process::ExitCode;

use clap::Parser;
use headwater_engine::plants::Plants;
use headwater_sim::scenario::{Options, Scenario, run_seed};

/// Simulates a shard: `headwater-sim churn --seed 7` replays one run with its event log.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// churn, fencing, counter, increment, retry or following.
    scenario: Scenario,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds to run from there.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Actions before the drain.
    #[arg(long, default_value_t = 500)]
    actions: u64,
    /// A fault to plant: FlushErrorDropped, DurabilityPerGeneration, ClaimWithoutSentinel,
    /// FlushBeforeIndexed, ConditionIgnored, TokenForgotten, FollowerSkipsEntry or FollowerForgetsFrozen.
    #[arg(long, value_parser = plant)]
    plant: Option<Plants>,
    /// Print the whole event log and store trace, of good runs, too.
    #[arg(long)]
    events: bool,
}

fn plant(name: &str) -> Result<Plants, String> {
    let plants = [
        Plants::FlushErrorDropped,
        Plants::DurabilityPerGeneration,
        Plants::ClaimWithoutSentinel,
        Plants::FlushBeforeIndexed,
        Plants::ConditionIgnored,
        Plants::TokenForgotten,
        Plants::FollowerSkipsEntry,
        Plants::FollowerForgetsFrozen,
    ];
    plants.into_iter().find(|plant| format!("{plant:?}") == name).ok_or_else(|| format!("no plant {name}"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = Options { actions: arguments.actions, plants: arguments.plant.unwrap_or_default() };
    let mut failed = false;
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let report = run_seed(arguments.scenario, seed, options);
        if arguments.events {
            report.events.iter().for_each(|line| println!("{line}"));
        }
        println!("{report}");
        if arguments.seeds == 1 {
            println!("{}", report.tally);
        }
        failed |= report.failed();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
