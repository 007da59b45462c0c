//! Holds matching requests back until released.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::request::Request;

/// Says which requests a gate holds.
pub(super) type Matches = Box<dyn Fn(&Request) -> bool + Send + Sync>;

/// A closed gate: matching requests have arrived but are not applied. Opens for ever on
/// [`Gate::release`], or when dropped.
#[derive(Debug)]
pub struct Gate {
    open: watch::Sender<bool>,
    held: Arc<AtomicU64>,
}

impl Gate {
    /// Lets everything held go on, and holds nothing any more.
    pub fn release(&self) {
        self.open.send_replace(true);
    }

    /// How many requests it has held so far.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::SeqCst)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.release();
    }
}

/// The store's side of a gate.
pub(super) struct Held {
    matches: Matches,
    open: watch::Receiver<bool>,
    held: Arc<AtomicU64>,
}

pub(super) fn gate(matches: Matches) -> (Gate, Held) {
    let (sender, receiver) = watch::channel(false);
    let held = Arc::new(AtomicU64::new(0));
    (Gate { open: sender, held: Arc::clone(&held) }, Held { matches, open: receiver, held })
}

impl Held {
    /// Whether the gate is open for ever.
    pub(super) fn is_open(&self) -> bool {
        *self.open.borrow()
    }

    /// What a request waits for, when it matches.
    pub(super) fn hold(&self, request: &Request) -> Option<watch::Receiver<bool>> {
        let holds = !self.is_open() && (self.matches)(request);
        holds.then(|| {
            self.held.fetch_add(1, Ordering::SeqCst);
            self.open.clone()
        })
    }
}
