//! The faults, and how often each one took effect.

use std::collections::BTreeMap;

use serde::Serialize;

/// One way a request, a process or the machine fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// An error, and nothing was applied.
    ErrorBefore,
    /// Applied, but the caller sees an error.
    AnswerLost,
    /// The caller sees an error; the request is applied later, if its condition still holds then.
    LateApply,
    /// Applied, and the answer says that the object exists already (a retry below us met its own object).
    OwnPrecondition,
    /// Not applied, and the answer says that a condition failed (two conditional requests collided).
    SpuriousPrecondition,
    /// Not applied: slow down, with a time to wait.
    Throttled,
    /// Takes seconds.
    Slow,
    /// A read whose body ends early.
    ShortBody,
    /// A read with one bit of the framing flipped.
    BitFlip,
    /// A read that returns an object of another kind.
    WrongObject,
    /// A read that returns no bytes.
    EmptyObject,
    /// A listing without some of the newest objects.
    StaleListing,
    /// A listing in small pages, with changes in between.
    PagedListing,
    /// The process stalls for longer than any grace time before its request is applied.
    PausedBefore,
    /// The process stalls after its request was applied and before it sees the answer.
    PausedAfter,
    /// The process dies before its request is applied.
    CrashBefore,
    /// The process dies after its request was applied.
    CrashAfter,
    /// Storage is full: writes fail until space returns.
    DiskFull,
    /// The process dies at whatever await it stands.
    CrashAnywhere,
    /// The machine loses power: every process dies and unsynced writes may vanish.
    PowerCut,
    /// The monotone clock jumps forward, or the wall clock anywhere.
    ClockJump,
    /// A second writer claims a shard whose writer lives.
    SecondWriter,
}

impl FaultKind {
    /// Every fault.
    pub const ALL: [Self; 22] = [
        Self::ErrorBefore,
        Self::AnswerLost,
        Self::LateApply,
        Self::OwnPrecondition,
        Self::SpuriousPrecondition,
        Self::Throttled,
        Self::Slow,
        Self::ShortBody,
        Self::BitFlip,
        Self::WrongObject,
        Self::EmptyObject,
        Self::StaleListing,
        Self::PagedListing,
        Self::PausedBefore,
        Self::PausedAfter,
        Self::CrashBefore,
        Self::CrashAfter,
        Self::DiskFull,
        Self::CrashAnywhere,
        Self::PowerCut,
        Self::ClockJump,
        Self::SecondWriter,
    ];
}

impl std::fmt::Display for FaultKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::ErrorBefore => "error before",
            Self::AnswerLost => "answer lost",
            Self::LateApply => "late apply",
            Self::OwnPrecondition => "own precondition",
            Self::SpuriousPrecondition => "spurious precondition",
            Self::Throttled => "throttled",
            Self::Slow => "slow",
            Self::ShortBody => "short body",
            Self::BitFlip => "bit flip",
            Self::WrongObject => "wrong object",
            Self::EmptyObject => "empty object",
            Self::StaleListing => "stale listing",
            Self::PagedListing => "paged listing",
            Self::PausedBefore => "paused before",
            Self::PausedAfter => "paused after",
            Self::CrashBefore => "crash before",
            Self::CrashAfter => "crash after",
            Self::DiskFull => "disk full",
            Self::CrashAnywhere => "crash anywhere",
            Self::PowerCut => "power cut",
            Self::ClockJump => "clock jump",
            Self::SecondWriter => "second writer",
        };
        f.pad(name)
    }
}

/// How often each fault took effect: drawn and then applied to a request it could change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts(BTreeMap<FaultKind, u64>);

impl FaultCounts {
    /// Counts one.
    pub fn add(&mut self, kind: FaultKind) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// How often `kind` took effect.
    pub fn get(&self, kind: FaultKind) -> u64 {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        for (kind, count) in &other.0 {
            *self.0.entry(*kind).or_default() += count;
        }
    }

    /// Faults that never took effect.
    pub fn missing(&self) -> Vec<FaultKind> {
        FaultKind::ALL.into_iter().filter(|kind| self.get(*kind) == 0).collect()
    }

    /// All faults with their counts, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (FaultKind, u64)> + '_ {
        FaultKind::ALL.into_iter().map(|kind| (kind, self.get(kind)))
    }
}
