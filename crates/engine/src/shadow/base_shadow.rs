//! Which rows of a version of the base were replaced, and by which `Seq`.
//!
//! Owns: [`BaseShadow`] and what of it goes over to a later version. Does not own: finding keys in the base
//! (`headwater-query` does, by its key index or in one pass). It holds replaced rows alone, so its memory
//! follows what is fresh, not what the base has. Whoever needs S looks for the keys of the rows that came
//! since, one reader at a time.

use std::ops::Range;
use std::sync::Arc;

use headwater_format::coord::Seq;
use parking_lot::Mutex;

use super::fresh::FreshKeys;
use super::hidden::HiddenRows;
use super::replaced::Replaced;
use super::runs::{Run, number, unaccounted};
use crate::error::ShardError;
use crate::hold::hold;

/// The shadow that the rows of one shard cast on one version of the base.
#[derive(Debug, Default)]
pub struct BaseShadow {
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Rows of the shard with these numbers are accounted for; none at first.
    fed: Option<Range<i64>>,
    replaced: Replaced,
}

/// Rows whose keys are to be looked for in the base.
#[derive(Debug)]
pub struct Tail {
    /// Their keys; none when all of them have been looked for before.
    pub keys: FreshKeys,
    order: Range<i64>,
}

impl BaseShadow {
    /// What is missing for a mask at `through`; `None` when nothing is. `runs` are all sources of the shard
    /// that are not part of the base, ascending and without gaps. A key that has an older row in them was
    /// looked for when that row came, and its rows in the base are hidden from then on.
    ///
    /// # Errors
    /// [`ShardError::Internal`] when there is a gap (P8).
    pub fn tail(&self, runs: &[Run<'_>], through: Seq) -> Result<Option<Tail>, ShardError> {
        let fed = self.state.lock().fed.as_ref().map(|fed| fed.end);
        let order = unaccounted(runs, fed, number(through))?;
        if order.is_empty() {
            return Ok(None);
        }
        Ok(Some(Tail { keys: FreshKeys::of(runs, &order)?, order }))
    }

    /// Takes what was found for `tail`: addresses of all rows of the base that have one of its keys, each
    /// with [`FreshKeys::first`] of it.
    ///
    /// # Errors
    /// [`ShardError::Internal`] when it is not what follows (P8).
    pub fn feed(&self, tail: &Tail, mut found: Vec<(u64, Seq)>) -> Result<(), ShardError> {
        let mut state = self.state.lock();
        let fed = state.fed.clone().unwrap_or(tail.order.start..tail.order.start);
        let (next, from) = (fed.end, tail.order.start);
        hold!(P8, next == from, "a shadow was fed up to {next}, rows from {from} follow");
        found.sort_unstable_by_key(|(address, by)| (*by, *address));
        for (address, by) in found {
            state.replaced.add(address, by)?;
        }
        state.fed = Some(fed.start..tail.order.end);
        Ok(())
    }

    /// A copy for a later version of the base, of what `runs` account for: rows that are there no more, or
    /// elsewhere, are left out by `stays`. `None` when rows of the shard became part of the base in between.
    pub fn carried(&self, runs: &[Run<'_>], stays: impl Fn(u64) -> bool) -> Option<Self> {
        let state = self.state.lock();
        let (first, last) = (runs.first()?.order.start, runs.last()?.order.end);
        let fed = state.fed.clone().filter(|fed| fed.start == first)?;
        let fed = first..fed.end.min(last);
        let known = |by: Seq| by == Seq::ZERO || number(by) < fed.end;
        let replaced = state.replaced.merged(|address, by| known(by) && stays(address), []);
        Some(Self { state: Mutex::new(State { fed: Some(fed), replaced }) })
    }

    /// The keys of all rows that are accounted for: to be looked for in rows of the base that are new to it.
    ///
    /// # Errors
    /// [`ShardError::Internal`] when rows in memory have no usable keys.
    pub fn accounted(&self, runs: &[Run<'_>]) -> Result<FreshKeys, ShardError> {
        match self.state.lock().fed.clone() {
            Some(fed) => FreshKeys::of(runs, &fed),
            None => Ok(FreshKeys::default()),
        }
    }

    /// Takes what was found for [`Self::accounted`] keys.
    pub fn add(&self, found: Vec<(u64, Seq)>) {
        let mut state = self.state.lock();
        state.replaced = state.replaced.merged(|_, _| true, found);
    }

    /// The rows replaced below `at`, for a shadow that was fed up to `at`.
    pub fn hidden(&self, at: Seq) -> Arc<HiddenRows> {
        self.state.lock().replaced.at(at)
    }

    /// Resident bytes.
    pub fn bytes(&self) -> u64 {
        self.state.lock().replaced.bytes()
    }
}
