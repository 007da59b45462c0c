//! Which fault a request meets: pure choices over a random number, the plan and the script.

use std::collections::BTreeMap;

use super::kind::FaultKind;
use super::request::{ObjectKind, Op, Request};

/// How often requests meet a fault, and how often that fault is a stall or a crash. Per thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// Faulty requests per thousand.
    pub rate: u32,
    /// Of a thousand faulty requests, how many stall their process.
    pub stalls: u32,
    /// Of a thousand faulty requests, how many kill their process.
    pub crashes: u32,
}

impl FaultPlan {
    /// No faults.
    pub const CALM: Self = Self { rate: 0, stalls: 0, crashes: 0 };
    /// Now and then something fails.
    pub const BREEZE: Self = Self { rate: 20, stalls: 15, crashes: 10 };
    /// Much fails.
    pub const STORM: Self = Self { rate: 150, stalls: 10, crashes: 10 };
}

/// What happens to the k-th request, for sweeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(BTreeMap<u64, FaultKind>);

impl Script {
    /// No scripted fault.
    pub fn new() -> Self {
        Self::default()
    }

    /// The request with this number meets `kind`. A kind that cannot happen to it does nothing.
    #[must_use]
    pub fn at(mut self, number: u64, kind: FaultKind) -> Self {
        self.0.insert(number, kind);
        self
    }

    pub(super) fn get(&self, number: u64) -> Option<FaultKind> {
        self.0.get(&number).copied()
    }
}

const PUT: &[FaultKind] = &[
    FaultKind::ErrorBefore,
    FaultKind::AnswerLost,
    FaultKind::AnswerLost,
    FaultKind::LateApply,
    FaultKind::Throttled,
    FaultKind::Slow,
];
const CREATE: &[FaultKind] = &[
    FaultKind::ErrorBefore,
    FaultKind::AnswerLost,
    FaultKind::AnswerLost,
    FaultKind::LateApply,
    FaultKind::OwnPrecondition,
    FaultKind::SpuriousPrecondition,
    FaultKind::Throttled,
    FaultKind::Slow,
];
const GET: &[FaultKind] = &[
    FaultKind::ErrorBefore,
    FaultKind::AnswerLost,
    FaultKind::Throttled,
    FaultKind::Slow,
    FaultKind::ShortBody,
    FaultKind::BitFlip,
    FaultKind::WrongObject,
    FaultKind::EmptyObject,
];
const HEAD: &[FaultKind] =
    &[FaultKind::ErrorBefore, FaultKind::AnswerLost, FaultKind::Throttled, FaultKind::Slow];
const LIST: &[FaultKind] = &[
    FaultKind::ErrorBefore,
    FaultKind::Throttled,
    FaultKind::Slow,
    FaultKind::StaleListing,
    FaultKind::PagedListing,
];
const DELETE: &[FaultKind] = &[FaultKind::ErrorBefore, FaultKind::AnswerLost, FaultKind::Slow];

/// Faults of single requests, stalls and crashes apart.
pub(super) fn applicable(op: Op) -> &'static [FaultKind] {
    match op {
        Op::Put { create: true } => CREATE,
        Op::Put { create: false } => PUT,
        Op::Get => GET,
        Op::Head => HEAD,
        Op::List => LIST,
        Op::Delete => DELETE,
    }
}

/// The fault of `request`, if any, from a random number.
pub(super) fn choose_fault(request: &Request, plan: &FaultPlan, chance: u64) -> Option<FaultKind> {
    let (first, second, third) = (chance % 1000, (chance >> 16) % 1000, chance >> 32);
    // Listings are rare, so they fail more often; the hint is written by nobody who waits.
    let rate = match (request.op, request.kind) {
        (Op::List, _) => plan.rate.saturating_mul(3),
        (_, ObjectKind::Hint) => plan.rate.saturating_mul(2),
        _ => plan.rate,
    };
    if first >= u64::from(rate) {
        return None;
    }
    let (stalls, crashes) = (u64::from(plan.stalls), u64::from(plan.crashes));
    let after = third % 2 == 1;
    if second < stalls {
        return Some(if after { FaultKind::PausedAfter } else { FaultKind::PausedBefore });
    }
    if second < stalls + crashes {
        return Some(if after { FaultKind::CrashAfter } else { FaultKind::CrashBefore });
    }
    let kinds = applicable(request.op);
    kinds.get((third as usize) % kinds.len().max(1)).copied()
}
