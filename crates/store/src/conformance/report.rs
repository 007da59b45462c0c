//! What the suite found.
//!
//! Owns: [`Report`], [`CheckReport`], [`Nonconforming`]. Does not own: the checks.

use std::fmt;

use crate::error::StoreError;
use crate::meter::MeterSnapshot;

/// A passed suite: what was checked, and what it took.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The checks in the order they ran.
    pub checks: Vec<CheckReport>,
    /// Requests of the suite that went through the store under test; those below [`super::Lossy`] included.
    pub requests: MeterSnapshot,
}

/// One passed check. Numbers a check has no use for are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What holds, as a sentence in `snake_case`.
    pub name: &'static str,
    /// Times the situation was made.
    pub rounds: u64,
    /// Creators or writers that were told they won.
    pub winners: u64,
    /// Creators or writers that were told who else won.
    pub losers: u64,
    /// Faults injected meanwhile.
    pub faults: u64,
}

impl Report {
    /// The check called `name`.
    pub fn check(&self, name: &str) -> Option<&CheckReport> {
        self.checks.iter().find(|check| check.name == name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<66} {:>7} {:>8} {:>8} {:>8}", "check", "rounds", "winners", "losers", "faults")?;
        for CheckReport { name, rounds, winners, losers, faults } in &self.checks {
            writeln!(f, "{name:<66} {rounds:>7} {winners:>8} {losers:>8} {faults:>8}")?;
        }
        write!(f, "{}", self.requests)
    }
}

/// A store that failed the suite.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Nonconforming {
    /// It did something it must not do.
    #[error("{check}: {found}")]
    Violation {
        /// The check that failed.
        check: &'static str,
        /// What was seen instead.
        found: String,
    },
    /// It could not be asked.
    #[error("{check}: {source}")]
    Storage {
        /// The check that was running.
        check: &'static str,
        /// What it said.
        source: StoreError,
    },
}
