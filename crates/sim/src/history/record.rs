//! The record of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use headwater_format::coord::{Seq, WalPosition};

use crate::rows::{Row, Written};

/// One life of a writer: from a successful open to its end.
pub type SessionId = usize;

/// What a write asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// One row per key, with parts 0, 1, 2, …
    Put(Vec<u32>),
    /// A tombstone per key.
    Delete(Vec<u32>),
}

impl OpKind {
    /// The keys it touches, in order.
    pub fn keys(&self) -> &[u32] {
        match self {
            Self::Put(keys) | Self::Delete(keys) => keys,
        }
    }
}

/// What an acknowledgement said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Seq of the first row.
    pub first: Seq,
    /// Seq after the last row.
    pub end: Seq,
    /// Position of the entry.
    pub position: WalPosition,
}

/// How a write ended, as far as its caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not yet, or never: the process died.
    Pending,
    /// Durable.
    Acked(Told),
    /// Refused before anything was inserted.
    Refused,
    /// It may or may not become visible.
    Unknown,
}

/// One write.
#[derive(Clone, Debug)]
pub struct OpRecord {
    /// Who wrote.
    pub session: SessionId,
    /// What.
    pub kind: OpKind,
    /// For a conditional write, the row of each key it was decided on.
    pub decided_on: Option<BTreeMap<u32, Option<Written>>>,
    /// Whether it was sent again.
    pub repeated: bool,
    /// When it was invoked, in events.
    pub invoked: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// When that was known, in events.
    pub resolved: Option<u64>,
    /// When that was known, by the clock.
    pub resolved_at: Option<Duration>,
}

/// A write that was sent again with its token, and acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct RetryRecord {
    /// Number of the write.
    pub op: u64,
    /// Who sent it again.
    pub session: SessionId,
    /// What the acknowledgement said.
    pub told: Told,
    /// When that was known, in events.
    pub resolved: u64,
    /// When that was known, by the clock.
    pub resolved_at: Duration,
}

/// Which rows a read asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Durable ones.
    Durable,
    /// All accepted ones.
    Pending,
}

/// One read of all live rows.
#[derive(Clone, Debug)]
pub struct ReadRecord {
    /// Who read.
    pub session: SessionId,
    /// At which level.
    pub level: Level,
    /// When it was invoked, in events.
    pub invoked: u64,
    /// When it was invoked, by the clock.
    pub invoked_at: Duration,
    /// The moment it shows, in events: when its snapshot was taken.
    pub returned: u64,
    /// The tip of the WAL at that moment.
    pub tip: WalPosition,
    /// The live rows.
    pub rows: Vec<Row>,
    /// Must see everything acknowledged to anybody before it was invoked.
    pub fresh: bool,
    /// Must see everything: nothing was in flight, and every write was in the WAL.
    pub last: bool,
}

/// One session.
#[derive(Clone, Debug)]
pub struct SessionRecord {
    /// Name of its process.
    pub name: String,
    /// When its open began, in events.
    pub opened: u64,
}

/// Everything clients did and were told.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Sessions by number.
    pub sessions: Vec<SessionRecord>,
    /// Writes by number.
    pub ops: BTreeMap<u64, OpRecord>,
    /// Writes acknowledged when they were sent again.
    pub retries: Vec<RetryRecord>,
    /// Reads in the order their rows had been fetched.
    pub reads: Vec<ReadRecord>,
    /// Live rows of the base, which nothing changes.
    pub base: Vec<Row>,
    events: u64,
    next_op: u64,
}

impl History {
    /// An empty record over a base with these rows.
    pub fn new(base: Vec<Row>) -> Self {
        Self { base, ..Self::default() }
    }

    /// The next moment, in events.
    pub fn tick(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// A session whose open began at `opened`.
    pub fn session(&mut self, name: &str, opened: u64) -> SessionId {
        self.sessions.push(SessionRecord { name: name.to_owned(), opened });
        self.sessions.len() - 1
    }

    /// A write is about to be sent; its number.
    pub fn invoke(&mut self, session: SessionId, kind: OpKind) -> u64 {
        let invoked = self.tick();
        self.next_op += 1;
        let op = OpRecord {
            session,
            kind,
            decided_on: None,
            repeated: false,
            invoked,
            outcome: Outcome::Pending,
            resolved: None,
            resolved_at: None,
        };
        self.ops.insert(self.next_op, op);
        self.next_op
    }

    /// A conditional write is about to be sent, decided on these rows; its number.
    pub fn invoke_if(
        &mut self,
        session: SessionId,
        kind: OpKind,
        decided_on: BTreeMap<u32, Option<Written>>,
    ) -> u64 {
        let number = self.invoke(session, kind);
        if let Some(op) = self.ops.get_mut(&number) {
            op.decided_on = Some(decided_on);
        }
        number
    }

    /// Write `op` is about to be sent again; what it is, unless it was refused.
    pub fn repeat(&mut self, op: u64) -> Option<OpKind> {
        let op = self.ops.get_mut(&op).filter(|op| op.outcome != Outcome::Refused)?;
        op.repeated = true;
        Some(op.kind.clone())
    }

    /// Write `op`, sent again by `session`, is acknowledged.
    pub fn retried(&mut self, op: u64, session: SessionId, told: Told, now: Duration) {
        let resolved = self.tick();
        self.retries.push(RetryRecord { op, session, told, resolved, resolved_at: now });
    }

    /// The caller of write `op` learns its outcome.
    pub fn resolve(&mut self, op: u64, outcome: Outcome, now: Duration) {
        let at = self.tick();
        if let Some(op) = self.ops.get_mut(&op) {
            // Refused, but sent a second time, it may be there.
            let refused = outcome == Outcome::Refused && op.repeated;
            op.outcome = if refused { Outcome::Unknown } else { outcome };
            op.resolved = Some(at);
            op.resolved_at = Some(now);
        }
    }

    /// Writes without an outcome.
    pub fn pending(&self) -> usize {
        self.ops.values().filter(|op| op.outcome == Outcome::Pending).count()
    }

    /// Number of writes with an acknowledgement.
    pub fn acked(&self) -> usize {
        self.ops.values().filter(|op| matches!(op.outcome, Outcome::Acked(_))).count()
    }
}
