//! How much fails for a while.

use crate::fault::FaultPlan;

/// Spells of weather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weather {
    Calm,
    Breeze,
    Storm,
    /// Nothing gets through.
    Outage,
}

impl Weather {
    pub(super) fn plan(self) -> FaultPlan {
        match self {
            Self::Calm => FaultPlan::CALM,
            Self::Breeze => FaultPlan::BREEZE,
            Self::Storm => FaultPlan::STORM,
            Self::Outage => FaultPlan { rate: 900, stalls: 0, crashes: 0 },
        }
    }

    /// The next spell, and how many actions it lasts, from a random number.
    pub(super) fn next(chance: u64) -> (Self, u64) {
        let length = (chance >> 16) % 40;
        match chance % 20 {
            0..5 => (Self::Calm, 10 + length),
            5..13 => (Self::Breeze, 20 + length * 2),
            13..19 => (Self::Storm, 10 + length),
            _ => (Self::Outage, 1 + length % 8),
        }
    }
}
