//! Seeds that failed once are run for ever.

use headwater_sim::scenario::{Options, Scenario, run_seed};

#[test]
fn seeds_that_failed_once_pass() {
    let mut runs = 0;
    for line in include_str!("../regressions.txt").lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let parts: Vec<&str> = line.split_whitespace().collect();
        let scenario: Scenario = parts[0].parse().unwrap();
        let (seed, actions) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
        let report = run_seed(scenario, seed, Options { actions, ..Options::default() });
        assert!(!report.failed(), "{report}");
        runs += 1;
    }
    assert!(runs > 0);
}
