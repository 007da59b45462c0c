//! What a run was, for people and for sums.

use std::collections::BTreeSet;
use std::fmt;

use super::run::{Options, Scenario};
use crate::fault::Op;
use crate::violation::Violation;
use crate::world::{Tally, World};

/// Lines of the event log a failed run prints.
const SHOWN_EVENTS: usize = 400;
/// Violations a failed run prints.
const SHOWN_VIOLATIONS: usize = 20;

/// One run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which scenario.
    pub scenario: Scenario,
    /// The seed.
    pub seed: u64,
    /// How it was run.
    pub options: Options,
    /// Hash of every decision: two runs of one seed agree.
    pub trace: u64,
    /// Steps of the machine.
    pub steps: u64,
    /// Sums.
    pub tally: Tally,
    /// Broken promises; none in a good run.
    pub violations: Vec<Violation>,
    /// The event log, store requests included.
    pub events: Vec<String>,
}

impl Report {
    pub(super) fn new(
        scenario: Scenario,
        seed: u64,
        options: Options,
        world: &World,
        violations: Vec<Violation>,
    ) -> Self {
        let mut tally = world.tally.lock().clone();
        tally.faults = world.store.counts();
        tally.requests = world.store.requests();
        let mut created = BTreeSet::new();
        for request in world.store.log() {
            if request.op == (Op::Put { create: true }) && !created.insert((request.process, request.path)) {
                tally.retries += 1;
            }
        }
        Self {
            scenario,
            seed,
            options,
            trace: world.machine.trace(),
            steps: world.machine.steps(),
            tally,
            violations,
            events: world.machine.notes(),
        }
    }

    /// Whether a promise was broken.
    pub fn failed(&self) -> bool {
        !self.violations.is_empty()
    }

    /// The command that replays the run.
    pub fn replay(&self) -> String {
        let Options { actions, plants } = self.options;
        let plant = match plants {
            headwater_engine::plants::Plants::None => String::new(),
            plants => format!(" --plant {plants:?}"),
        };
        format!(
            "cargo run -p headwater-sim -- {} --seed {} --actions {actions}{plant}",
            self.scenario, self.seed
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, seed, trace, steps, .. } = self;
        if self.failed() {
            let from = self.events.len().saturating_sub(SHOWN_EVENTS);
            writeln!(
                f,
                "event log and store trace, the last {} of {} lines:",
                self.events.len() - from,
                self.events.len()
            )?;
            self.events.iter().skip(from).try_for_each(|line| writeln!(f, "{line}"))?;
            writeln!(f, "{} violations:", self.violations.len())?;
            self.violations
                .iter()
                .take(SHOWN_VIOLATIONS)
                .try_for_each(|violation| writeln!(f, "  {violation}"))?;
            writeln!(f, "replay: {}", self.replay())?;
        }
        let end = if self.failed() { "FAILED" } else { "ok" };
        write!(f, "{scenario} seed {seed}: {end}, {steps} steps, trace {trace:016x}")
    }
}
