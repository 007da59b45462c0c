//! A determinism that is not tested does not exist.

use headwater_engine::plants::Plants;
use headwater_sim::scenario::{Options, Scenario, run_seed};

#[test]
fn a_seed_run_twice_makes_the_same_decisions() {
    for scenario in Scenario::ALL {
        for seed in [3, 21, 28, 34, 50] {
            let options = Options { actions: 200, plants: Plants::None };
            let (first, second) = (run_seed(scenario, seed, options), run_seed(scenario, seed, options));
            if first.trace != second.trace {
                let at = first.events.iter().zip(&second.events).position(|(one, two)| one != two);
                let lines = at.map(|at| (&first.events[at], &second.events[at]));
                panic!("{scenario} seed {seed}: two runs differ from line {at:?}: {lines:#?}");
            }
            assert_eq!(first.steps, second.steps);
            assert_eq!(first.tally, second.tally);
        }
    }
}

#[test]
fn two_seeds_make_different_decisions() {
    let options = Options { actions: 30, plants: Plants::None };
    let traces: Vec<u64> = (0..5).map(|seed| run_seed(Scenario::Churn, seed, options).trace).collect();
    for (at, trace) in traces.iter().enumerate() {
        assert!(!traces[..at].contains(trace));
    }
}
