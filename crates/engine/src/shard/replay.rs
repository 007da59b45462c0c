//! Replaying WAL entries into memtables.
//!
//! The replay cursor alone says what is published (P11); the generation an entry carries says where memtables
//! change. Entries without a generation (other writers may leave it out) rotate by size, entries with one
//! never do: a successor skips entries of generations already published, so a generation must not be split
//! (P1, P12).

use std::sync::Arc;

use headwater_format::coord::{Epoch, Generation, WalPosition};
use headwater_format::path;
use headwater_format::wal_entry::{WalBody, WalEntry};

use crate::error::ShardError;
use crate::shard::context::Context;
use crate::shard::stats::Counters;
use crate::shard::tiers::Tiers;

/// Rows of entries without a generation that share a memtable: what the reference replays at its defaults.
const UNTAGGED_ROWS: u64 = 100_000;

/// Memtables under reconstruction.
#[derive(Debug)]
pub(super) struct Replay {
    ctx: Arc<Context>,
    /// The first generation that is not published.
    current: Generation,
    newest_epoch: Epoch,
    pub tiers: Tiers,
    pub counters: Counters,
}

impl Replay {
    pub fn new(ctx: Arc<Context>, current: Generation, tiers: Tiers) -> Self {
        Self { ctx, current, newest_epoch: Epoch::ZERO, tiers, counters: Counters::default() }
    }

    /// Generations before `current` are published by now: what still comes of them is skipped.
    pub fn published(&mut self, current: Generation) {
        self.current = current;
    }

    /// Applies the entry at `position`, whose object has `bytes` bytes.
    pub fn apply(&mut self, position: WalPosition, entry: WalEntry, bytes: u64) -> Result<(), ShardError> {
        let WalBody::Rows { generation, batches } = entry.body else { return Ok(()) };
        if entry.epoch < self.newest_epoch {
            let reason = format!("rows of epoch {} follow rows of epoch {}", entry.epoch, self.newest_epoch);
            return Err(self.corrupt(position, reason));
        }
        self.newest_epoch = entry.epoch;
        let prepared: Result<Vec<_>, _> =
            batches.into_iter().map(|batch| self.ctx.ingest.stored(batch)).collect();
        let prepared = prepared.map_err(|error| self.refuse(position, &error))?;
        let rows = prepared.iter().map(|part| part.batch.num_rows() as u64).sum();
        if !self.rotate_for(position, generation, rows)? {
            return Ok(());
        }
        for part in &prepared {
            self.tiers.append(part, self.ctx.now())?;
        }
        let active = self.tiers.active.memtable.generation();
        let batches = prepared.len() as u64;
        self.tiers.durable_batches(active, position, bytes, self.tiers.next_seq, batches);
        self.counters.replayed_entries += 1;
        self.counters.replayed_rows += rows;
        Ok(())
    }

    /// Moves on to the memtable the entry belongs to; false when it is published already. Never within an
    /// entry: the replay cursor could not tell its halves apart.
    fn rotate_for(
        &mut self,
        position: WalPosition,
        tag: Option<Generation>,
        incoming: u64,
    ) -> Result<bool, ShardError> {
        let active = self.tiers.active.memtable.generation();
        let Some(tag) = tag else {
            if self.is_full(incoming) {
                self.rotate()?;
            }
            return Ok(true);
        };
        if tag < self.current {
            return Ok(false);
        }
        if tag == active {
            return Ok(true);
        }
        if tag == active.next() && self.tiers.active.memtable.rows() > 0 {
            self.rotate()?;
            return Ok(true);
        }
        Err(self.corrupt(position, format!("it holds generation {tag} where generation {active} goes on")))
    }

    /// Whether untagged rows need another memtable. A fixed number and nothing else: rows written after a
    /// recovery carry the number of the memtable it came to, and the next recovery must come to the same one
    /// whatever its settings and however long it takes (P1).
    fn is_full(&self, incoming: u64) -> bool {
        let rows = self.tiers.active.memtable.rows();
        rows > 0 && rows + incoming > UNTAGGED_ROWS
    }

    fn rotate(&mut self) -> Result<(), ShardError> {
        self.counters.replay_rotations += 1;
        self.tiers.freeze(&self.ctx)
    }

    fn corrupt(&self, position: WalPosition, reason: String) -> ShardError {
        ShardError::Corrupt { path: path::wal_path(self.ctx.shard, position), reason }
    }

    /// Rows that cannot go into this table: its schema changed after they were written, or they are not its
    /// rows.
    fn refuse(&self, position: WalPosition, error: &dyn std::error::Error) -> ShardError {
        ShardError::Invalid {
            reason: format!(
                "WAL entry {} does not fit the table: {error}; it was written under another schema, which \
                 this version cannot replay",
                path::wal_path(self.ctx.shard, position)
            ),
        }
    }
}
