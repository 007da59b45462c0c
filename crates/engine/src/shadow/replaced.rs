//! The rows of a source that were replaced, in the order of what replaced them.
//!
//! Owns: [`Replaced`]. It only grows, in `Seq` order, so what was hidden at S is a prefix of it, whenever it
//! is asked for (P6); and a row is in it once, with its first successor (P4).

use std::sync::Arc;

use headwater_format::coord::Seq;

use super::hidden::HiddenRows;
use crate::hold::{Violation, hold};

/// Replaced rows by address, each with the first `Seq` that replaced it.
#[derive(Clone, Debug, Default)]
pub(super) struct Replaced {
    log: Vec<(u64, Seq)>,
    /// All of the log.
    all: Arc<HiddenRows>,
    /// So many entries of the log, for a reader that stays behind.
    older: Option<(usize, Arc<HiddenRows>)>,
}

impl Replaced {
    /// Says that the row at `address` was replaced by the row `by`, unless it was replaced before.
    pub(super) fn add(&mut self, address: u64, by: Seq) -> Result<(), Violation> {
        let last = self.log.last().map_or(Seq::ZERO, |(_, last)| *last);
        hold!(P8, last <= by, "row {address} was replaced by {by}, and another by {last} before");
        if !self.all.contains(address) {
            Arc::make_mut(&mut self.all).insert(address);
            self.log.push((address, by));
        }
        Ok(())
    }

    /// The rows replaced below `at`.
    pub(super) fn at(&mut self, at: Seq) -> Arc<HiddenRows> {
        let below = self.log.partition_point(|(_, by)| *by < at);
        if below == self.log.len() {
            return Arc::clone(&self.all);
        }
        if let Some((known, rows)) = &self.older
            && *known == below
        {
            return Arc::clone(rows);
        }
        let rows: Arc<HiddenRows> = Arc::new(self.log.iter().take(below).map(|(row, _)| *row).collect());
        self.older = Some((below, Arc::clone(&rows)));
        rows
    }

    /// The entries that `stays` keeps, and `more`.
    pub(super) fn merged(
        &self,
        stays: impl Fn(u64, Seq) -> bool,
        more: impl IntoIterator<Item = (u64, Seq)>,
    ) -> Self {
        let kept = self.log.iter().copied().filter(|(address, by)| stays(*address, *by));
        let mut log: Vec<(u64, Seq)> = kept.chain(more).collect();
        log.sort_by_key(|(_, by)| *by);
        let mut all = HiddenRows::default();
        log.retain(|(address, _)| all.insert(*address));
        Self { log, all: Arc::new(all), older: None }
    }

    /// Resident bytes.
    pub(super) fn bytes(&self) -> u64 {
        let older = self.older.as_ref().map_or(0, |(_, rows)| rows.bytes());
        (self.log.capacity() * size_of::<(u64, Seq)>()) as u64 + self.all.bytes() + older
    }
}
