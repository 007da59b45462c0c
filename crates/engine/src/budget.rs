//! Memory of all memtables of a process, counted (B2).
//!
//! Owns: [`MemoryBudget`], shared by every shard of the process, and [`Charge`], one holder's share of it.
//! Does not own: what a writer does when the budget is used up (it waits, then fails retryably: the
//! conductor's business). The budget is soft: a charge always succeeds, and writers are asked to wait
//! *before* they add to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

/// Bytes that memtables may hold, over all shards of a process.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    used: AtomicU64,
    freed: Notify,
    pressed: watch::Sender<()>,
}

impl MemoryBudget {
    /// A budget of `limit` bytes, nothing used.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicU64::new(0),
            freed: Notify::new(),
            pressed: watch::Sender::new(()),
        })
    }

    /// The bytes allowed.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The bytes held by all living charges.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Whether writers should wait: the limit is reached.
    pub fn over(&self) -> bool {
        self.used() >= self.limit
    }

    /// Resolves as soon as less than the limit is used. Every waiter is woken when that happens; none is
    /// missed.
    pub async fn below(&self) {
        self.below_with(|| ()).await;
    }

    /// `waits` is called whenever the limit was found reached, before the wait.
    async fn below_with(&self, waits: impl Fn()) {
        loop {
            // From here on a wake-up counts, so memory freed between the check and the wait is not missed.
            let freed = self.freed.notified();
            if !self.over() {
                return;
            }
            waits();
            freed.await;
        }
    }

    /// Tells every shard of the process that a writer waits for memory: idle memtables are to be frozen and
    /// flushed too, for the memory may be held by a shard nobody writes to.
    pub fn press(&self) {
        self.pressed.send_replace(());
    }

    /// Changes each time somebody presses.
    pub fn pressure(&self) -> watch::Receiver<()> {
        self.pressed.subscribe()
    }

    /// A charge of `bytes`, given back when it is dropped.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Charge {
        self.used.fetch_add(bytes, Ordering::AcqRel);
        Charge { budget: Arc::clone(self), bytes: AtomicU64::new(bytes) }
    }

    fn release(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::AcqRel);
        if before >= self.limit && before.saturating_sub(bytes) < self.limit {
            self.freed.notify_waiters();
        }
    }
}

/// One holder's share of a [`MemoryBudget`].
#[derive(Debug)]
pub struct Charge {
    budget: Arc<MemoryBudget>,
    bytes: AtomicU64,
}

impl Charge {
    /// The bytes charged.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Charges `more` bytes.
    pub fn grow(&self, more: u64) {
        self.bytes.fetch_add(more, Ordering::AcqRel);
        self.budget.used.fetch_add(more, Ordering::AcqRel);
    }

    /// Charges exactly `bytes` from now on.
    pub fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::AcqRel);
        if bytes >= before {
            self.budget.used.fetch_add(bytes - before, Ordering::AcqRel);
        } else {
            self.budget.release(before - bytes);
        }
    }

    /// The budget it belongs to.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.release(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::FutureExt;

    use super::MemoryBudget;

    #[test]
    fn memory_freed_between_the_check_and_the_wait_is_not_missed() {
        let budget = MemoryBudget::new(10);
        let charge = Cell::new(Some(budget.charge(10)));
        assert_eq!(budget.below_with(|| drop(charge.take())).now_or_never(), Some(()));
    }
}
