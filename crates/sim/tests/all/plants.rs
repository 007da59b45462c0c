//! Known faults of others, planted: the standing scenarios must catch each within a few seeds.

use headwater_engine::plants::Plants;
use headwater_sim::scenario::{Options, Scenario, run_seed};

/// Seeds a plant may survive.
const MOST_SEEDS: u64 = 30;

/// Runs seeds, all scenarios in turn, until one fails; how many it took.
fn seeds_needed(plants: Plants) -> u64 {
    let mut needed = 0;
    for seed in 0..MOST_SEEDS {
        let scenario = Scenario::ALL[seed as usize % Scenario::ALL.len()];
        needed += 1;
        let report = run_seed(scenario, seed, Options { plants, ..Options::default() });
        if let Some(violation) = report.violations.first() {
            println!("{plants:?} caught after {needed} seeds by {scenario}: {violation}");
            return needed;
        }
    }
    panic!("{plants:?} survived {needed} seeds");
}

#[test]
fn a_flush_error_that_is_dropped_is_caught_lance_8293() {
    seeds_needed(Plants::FlushErrorDropped);
}

#[test]
fn durability_that_starts_again_at_each_rotation_is_caught_lance_7760() {
    seeds_needed(Plants::DurabilityPerGeneration);
}

#[test]
fn a_condition_that_is_ignored_is_caught() {
    seeds_needed(Plants::ConditionIgnored);
}

#[test]
fn client_tokens_forgotten_at_a_flush_are_caught() {
    seeds_needed(Plants::TokenForgotten);
}

#[test]
fn a_claim_without_a_sentinel_is_caught_lance_7110() {
    seeds_needed(Plants::ClaimWithoutSentinel);
}

#[test]
fn a_follower_that_steps_over_an_entry_is_caught() {
    seeds_needed(Plants::FollowerSkipsEntry);
}

#[test]
fn a_follower_that_forgets_frozen_rows_before_they_are_flushed_is_caught_lance_6814() {
    seeds_needed(Plants::FollowerForgetsFrozen);
}

#[test]
fn a_flush_before_everything_is_indexed_is_caught_lance_9035() {
    seeds_needed(Plants::FlushBeforeIndexed);
}
