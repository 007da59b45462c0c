//! Puts waiting for their WAL entry, and how they are grouped: pure, no I/O.
//!
//! Whenever no PUT is in flight, everything pending of one generation goes out as one entry, up to a byte
//! limit. A put is never split over entries (P3), and an entry never spans generations.

use std::collections::VecDeque;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use headwater_format::coord::{Generation, Seq, WalPosition};
use headwater_format::token::{ClientToken, EntryToken};
use tokio::sync::oneshot;

use crate::error::ShardError;
use crate::shard::Ack;

/// Where the outcome of one put goes.
pub type AckSender = oneshot::Sender<Result<Ack, ShardError>>;

/// The client token of a put, and when it was accepted.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// The token.
    pub token: ClientToken,
    /// The wall clock at its acceptance, in milliseconds since 1970.
    pub at_ms: u64,
}

impl Stamp {
    /// About what it adds to its entry, in bytes.
    pub fn bytes(&self) -> u64 {
        64 + 2 * self.token.bytes().len() as u64
    }
}

/// One accepted put that is not durable yet.
#[derive(Debug)]
pub struct PendingPut {
    /// Its rows, in the storage schema.
    pub batch: RecordBatch,
    /// Generation of the memtable that holds them.
    pub generation: Generation,
    /// `Seq` of its first row.
    pub first: Seq,
    /// `Seq` after its last row.
    pub end: Seq,
    /// Its payload and its stamp, in bytes.
    pub bytes: u64,
    /// Its client token, if it came with one.
    pub stamp: Option<Stamp>,
    /// When it was ordered.
    pub ordered: Duration,
    /// Who waits for it.
    pub ack: AckSender,
}

/// Puts that go out as one WAL entry.
#[derive(Debug)]
pub struct Group {
    /// Generation of all of them.
    pub generation: Generation,
    /// The puts, in `Seq` order.
    pub puts: Vec<PendingPut>,
}

impl Group {
    /// `Seq` after the last row.
    pub fn end(&self) -> Seq {
        self.puts.last().map_or(Seq::ZERO, |put| put.end)
    }

    /// Payload bytes.
    pub fn bytes(&self) -> u64 {
        self.puts.iter().map(|put| put.bytes).sum()
    }

    /// The client tokens of the puts, as their entry lists them.
    pub fn tokens(&self) -> Vec<EntryToken> {
        let begin = self.puts.first().map_or(0, |put| put.first.get());
        let listed = self.puts.iter().filter_map(|put| {
            let Stamp { token, at_ms } = put.stamp.clone()?;
            let (first, rows) = (put.first.get() - begin, put.end.get() - put.first.get());
            Some(EntryToken { token, first, rows, at_ms })
        });
        listed.collect()
    }

    /// All rows as one batch.
    ///
    /// # Errors
    /// Arrow's, when an offset type overflows; the entry limit keeps far below that.
    pub fn batch(&self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        match self.puts.as_slice() {
            [only] => Ok(only.batch.clone()),
            puts => arrow_select::concat::concat_batches(schema, puts.iter().map(|put| &put.batch)),
        }
    }

    /// Acknowledges every put: their entry is durable at `position`.
    pub fn acknowledge(self, position: WalPosition) {
        for put in self.puts {
            // Nobody waits for a put whose caller went away; it is durable all the same.
            let _ = put.ack.send(Ok(Ack { first: put.first, end: put.end, position }));
        }
    }

    /// Tells every put that it failed.
    pub fn fail(self, error: &ShardError) {
        for put in self.puts {
            let _ = put.ack.send(Err(error.clone()));
        }
    }
}

/// Accepted puts in `Seq` order.
#[derive(Debug, Default)]
pub struct Queue {
    puts: VecDeque<PendingPut>,
    bytes: u64,
    tail: Tail,
}

/// Running totals of the newest generation in the queue.
#[derive(Debug, Default)]
struct Tail {
    generation: Generation,
    puts: u64,
    bytes: u64,
}

impl Queue {
    /// Adds a put behind all others.
    pub fn push(&mut self, put: PendingPut) {
        if self.tail.generation != put.generation {
            self.tail = Tail { generation: put.generation, ..Tail::default() };
        }
        self.tail.puts += 1;
        self.tail.bytes += put.bytes;
        self.bytes += put.bytes;
        self.puts.push_back(put);
    }

    /// Payload bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many puts wait.
    pub fn len(&self) -> usize {
        self.puts.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty()
    }

    /// Upper bound of the entries needed for what waits of the newest generation.
    pub fn entries_for(&self, generation: Generation, max_entry_bytes: u64) -> u64 {
        if self.tail.generation != generation {
            return 0;
        }
        // Greedy grouping leaves two neighbouring entries together above the limit, so at most twice the
        // quotient.
        self.tail.puts.min(2 * self.tail.bytes / max_entry_bytes.max(1) + 1)
    }

    /// Takes the next group: the longest prefix of one generation whose payload stays within `max_bytes`, and
    /// at least one put.
    pub fn next_group(&mut self, max_bytes: u64) -> Option<Group> {
        let first = self.puts.pop_front()?;
        let generation = first.generation;
        let mut bytes = first.bytes;
        let mut puts = vec![first];
        while let Some(next) = self.puts.front() {
            if next.generation != generation || bytes + next.bytes > max_bytes {
                break;
            }
            bytes += next.bytes;
            puts.extend(self.puts.pop_front());
        }
        self.bytes -= bytes;
        if self.tail.generation == generation {
            self.tail.puts -= puts.len() as u64;
            self.tail.bytes -= bytes;
        }
        Some(Group { generation, puts })
    }

    /// Tells every waiting put that it failed, and forgets them.
    pub fn fail(&mut self, error: &ShardError) {
        self.bytes = 0;
        self.tail = Tail::default();
        for put in self.puts.drain(..) {
            let _ = put.ack.send(Err(error.clone()));
        }
    }
}
