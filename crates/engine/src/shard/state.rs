//! What conductor and readers share: the read set, behind one lock.
//!
//! Memtables, manifest and the durable `Seq` change together under it, so a snapshot is consistent (P5, P6).

use std::sync::Arc;
use std::time::Duration;

use headwater_format::coord::{Seq, ShardId, WalPosition};
use headwater_format::shard_manifest::ShardManifest;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::error::ShardError;
use crate::shard::failure::stopped_by;
use crate::shard::stats::{Counters, ShardStatus};
use crate::shard::ticket::Untold;
use crate::shard::tiers::Tiers;

/// Whether the shard serves.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    Serving,
    Closing,
    /// Closed in order; the first error on the way, if any.
    Closed(Option<ShardError>),
    /// Stopped by this error.
    Failed(ShardError),
}

/// The read set and what goes with it.
#[derive(Debug)]
pub(super) struct State {
    pub tiers: Tiers,
    pub manifest: Arc<ShardManifest>,
    /// Rows with a `Seq` below this are durable.
    pub durable: Seq,
    pub next_position: WalPosition,
    pub phase: Phase,
    /// When the epoch was last known to be ours.
    pub confirmed: Duration,
    pub counters: Counters,
    pub last_error: Option<ShardError>,
}

/// [`State`] behind its lock, and the number of frozen memtables for writers to wait on.
#[derive(Debug)]
pub(super) struct Shared {
    shard: ShardId,
    state: Mutex<State>,
    frozen: watch::Sender<usize>,
    stopped: watch::Sender<bool>,
    /// The first; every ticket has a clone.
    untold: Untold,
}

impl Shared {
    pub fn new(shard: ShardId, state: State) -> Self {
        let frozen = watch::Sender::new(state.tiers.frozen.len());
        let (stopped, untold) = (watch::Sender::new(false), Untold::default());
        Self { shard, state: Mutex::new(state), frozen, stopped, untold }
    }

    /// Tells waiting writers that the shard takes no more writes.
    pub fn announce_stopped(&self) {
        self.stopped.send_replace(true);
    }

    /// Whether the shard has stopped, to wait on.
    pub fn stopped(&self) -> watch::Receiver<bool> {
        self.stopped.subscribe()
    }

    /// For a new ticket.
    pub fn untold(&self) -> Untold {
        self.untold.clone()
    }

    /// Whether no ticket waits to be looked at.
    pub fn all_told(&self) -> bool {
        self.untold.is_alone()
    }

    /// The state. Hold it briefly and never over an await.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Tells waiting writers how many frozen memtables there are.
    pub fn announce_frozen(&self, count: usize) {
        self.frozen.send_replace(count);
    }

    /// The number of frozen memtables, to wait on.
    pub fn frozen(&self) -> watch::Receiver<usize> {
        self.frozen.subscribe()
    }

    /// An error unless the shard takes writes.
    pub fn check_writable(&self) -> Result<(), ShardError> {
        match &self.lock().phase {
            Phase::Serving => Ok(()),
            Phase::Closing | Phase::Closed(_) => Err(ShardError::Closed { shard: self.shard }),
            Phase::Failed(error) => Err(stopped_by(self.shard, error)),
        }
    }

    /// Why a call was dropped without an answer.
    pub fn why_stopped(&self) -> ShardError {
        // A writer that still serves did not close: it broke in the middle of this call.
        let broken =
            || ShardError::Poisoned { shard: self.shard, reason: "the writer ended abruptly".to_owned() };
        self.check_writable().err().unwrap_or_else(broken)
    }
}

impl State {
    /// An error unless the shard serves reads (P7: a fenced or poisoned writer does not).
    pub fn check_readable(&self, shard: ShardId) -> Result<(), ShardError> {
        match &self.phase {
            Phase::Serving | Phase::Closing => Ok(()),
            Phase::Closed(_) => Err(ShardError::Closed { shard }),
            Phase::Failed(error) => Err(stopped_by(shard, error)),
        }
    }

    /// What a second close answers.
    pub fn close_result(&self, shard: ShardId) -> Result<(), ShardError> {
        match &self.phase {
            Phase::Closed(None) => Ok(()),
            Phase::Closed(Some(error)) => Err(error.clone()),
            Phase::Failed(error) => Err(error.clone()),
            Phase::Serving | Phase::Closing => Err(ShardError::Closed { shard }),
        }
    }

    pub fn status(&self) -> ShardStatus {
        match &self.phase {
            Phase::Serving => ShardStatus::Serving,
            Phase::Closing => ShardStatus::Closing,
            Phase::Closed(_) => ShardStatus::Closed,
            Phase::Failed(ShardError::Fenced { .. }) => ShardStatus::Fenced,
            Phase::Failed(_) => ShardStatus::Poisoned,
        }
    }
}
