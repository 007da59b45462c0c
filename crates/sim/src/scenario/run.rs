//! One run of one seed.

use std::str::FromStr;
use std::time::Duration;

use headwater_engine::plants::Plants;

use super::counters::check_counters;
use super::driver::Driver;
use super::profile::profile;
use super::report::Report;
use crate::history::{Rules, check};
use crate::violation::Violation;
use crate::world::World;

/// Steps of the machine after which a run is taken for a livelock.
const STEP_LIMIT: u64 = 20_000_000;

/// Which scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scenario {
    /// Everything at once.
    Churn,
    /// Many claims.
    Fencing,
    /// Increasing numbers.
    Counter,
    /// Conditional writes.
    Increment,
    /// Client tokens.
    Retry,
    /// Readers elsewhere.
    Following,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Churn, Self::Fencing, Self::Counter, Self::Increment, Self::Retry, Self::Following];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Fencing => "fencing",
            Self::Counter => "counter",
            Self::Increment => "increment",
            Self::Retry => "retry",
            Self::Following => "following",
        }
    }
}

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|scenario| scenario.name() == text);
        found.ok_or_else(|| {
            format!("no scenario {text}; there are churn, fencing, counter, increment, retry and following")
        })
    }
}

/// How a seed is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Actions before the drain.
    pub actions: u64,
    /// A planted fault.
    pub plants: Plants,
}

impl Default for Options {
    fn default() -> Self {
        Self { actions: 500, plants: Plants::None }
    }
}

/// Runs `scenario` with everything random drawn from `seed`, and judges it.
pub fn run_seed(scenario: Scenario, seed: u64, options: Options) -> Report {
    let config = profile(scenario, seed, options.plants);
    let keyed = config.shape != crate::rows::KeyShape::None;
    let confirm = Duration::from_millis(config.settings.reads.epoch_confirm_ms);
    let mut world = World::new(config);
    world.machine = world.machine.with_step_limit(STEP_LIMIT);
    let mut driver = Driver::new(world.clone(), scenario);
    if let Err(stuck) = world.machine.try_block_on(driver.run(options.actions)) {
        world.report("L1", format!("the run does not end: {stuck}"));
    }
    drop(driver);
    world.machine.shut_down();

    let mut violations = world.audit.violations();
    let history = world.history.lock();
    let entries = world.audit.entries();
    violations.extend(check(&history, &entries, &Rules { keyed, confirm }));
    if scenario == Scenario::Counter && keyed {
        violations.extend(check_counters(&history, confirm));
    }
    violations.extend(world.machine.panics().into_iter().map(|panic| Violation::new("P14", panic)));
    Report::new(scenario, seed, options, &world, violations)
}
