//! What a put gets: a ticket first, an acknowledgement later.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use headwater_format::coord::{Seq, WalPosition};
use tokio::sync::oneshot;

use crate::error::ShardError;
use crate::shard::state::Shared;

/// A durable put: its WAL entry exists and every successor replays it (P1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// `Seq` of its first row; see `end` for a put that was written by an earlier writer.
    pub first: Seq,
    /// `Seq` after its last row: a snapshot at this number or above sees the put. A put that is answered by
    /// its client token, and whose rows an earlier writer or process had flushed already, has no `Seq`s here:
    /// `first` and `end` are both the first `Seq` of the shard, which every snapshot has reached.
    pub end: Seq,
    /// Position of the entry, also for a put answered by its client token; 0 for a put without rows.
    pub position: WalPosition,
}

/// A put that is accepted and on its way to storage. Await it for the acknowledgement; dropping it takes
/// nothing back.
#[derive(Debug)]
#[must_use = "a put is durable only when its ticket says so"]
pub struct Ticket {
    pub(super) outcome: oneshot::Receiver<Result<Ack, ShardError>>,
    pub(super) shared: Arc<Shared>,
    pub(super) untold: Untold,
}

/// Stands for somebody who handed rows over and does not know yet what became of them. Each ticket has one;
/// while one is left, a stopped shard is not opened again (see [`Shard::may_reopen`](super::Shard)).
#[derive(Clone, Debug, Default)]
pub struct Untold(Arc<()>);

impl Untold {
    /// Whether this is the last one.
    pub(super) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Ticket {
    /// To be kept by whoever awaits this ticket on behalf of somebody else, until that one is told.
    pub fn untold(&self) -> Untold {
        self.untold.clone()
    }
}

impl Future for Ticket {
    type Output = Result<Ack, ShardError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome)
            .poll(cx)
            .map(|outcome| outcome.unwrap_or_else(|_gone| Err(self.shared.why_stopped())))
    }
}
