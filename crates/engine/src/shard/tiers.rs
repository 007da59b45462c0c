//! The memtables of a shard: one active, some frozen, newest-wins between them.
//!
//! Owns: assigning `Seq`s, the successor of a row across memtables (P4), freezing. Does not own: durability
//! and flushing. Used by replay and by the conductor, always under the lock of `state`.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use headwater_format::coord::{Generation, RowOffset, Seq, WalPosition};
use tokio::sync::mpsc;

use crate::error::ShardError;
use crate::freeze::MemtableStats;
use crate::hold::hold;
use crate::index::{IndexError, MemIndex};
use crate::ingest::PreparedBatch;
use crate::memtable::{BatchKeys, FrozenMemtable, Memtable, MemtableView};
use crate::shard::context::Context;
use crate::shard::event::Event;
use crate::shard::indexer::Indexer;

/// The memtable that takes rows.
#[derive(Debug)]
pub(super) struct Active {
    pub memtable: Memtable,
    /// Durable entries with rows of it.
    pub entries: u64,
    /// Their bytes.
    pub wal_bytes: u64,
    /// When its first row came.
    pub since: Option<Duration>,
    indexer: Indexer,
}

/// A memtable that waits for its flush.
#[derive(Debug)]
pub(super) struct Frozen {
    pub memtable: FrozenMemtable,
    /// Keeps applying rows that were handed over before the freeze.
    _indexer: Indexer,
}

/// Memtables nobody needs any more. Dropping it frees them, less what snapshots hold, and ends their
/// indexing.
#[derive(Debug)]
#[must_use = "the memory is free when this is dropped, which should not be under the lock of `state`"]
pub(super) struct Released {
    _active: Active,
    _frozen: VecDeque<Frozen>,
}

/// All memtables, oldest frozen first.
#[derive(Debug)]
pub(super) struct Tiers {
    pub active: Active,
    pub frozen: VecDeque<Frozen>,
    /// The `Seq` the next row gets.
    pub next_seq: Seq,
    outbox: mpsc::UnboundedSender<Event>,
}

impl Tiers {
    /// An empty memtable of `generation`, and nothing frozen.
    pub fn new(
        ctx: &Context,
        generation: Generation,
        outbox: mpsc::UnboundedSender<Event>,
    ) -> Result<Self, ShardError> {
        let next_seq = Seq::new(1);
        let active = Active::new(ctx, generation, next_seq, &outbox)?;
        Ok(Self { active, frozen: VecDeque::new(), next_seq, outbox })
    }

    /// Puts rows into the active memtable; returns their `Seq`s. Rows they replace, here or in a frozen
    /// memtable, learn their successor (P4).
    pub fn append(&mut self, prepared: &PreparedBatch, now: Duration) -> Result<Range<Seq>, ShardError> {
        let offsets = self.active.memtable.append(prepared)?;
        let first = self.next_seq;
        let end = first.plus(u64::from(offsets.end.get() - offsets.start.get()));
        hold!(
            P8,
            self.active.memtable.end_seq() == end,
            "memtable ends at {}, rows at {end}",
            self.active.memtable.end_seq()
        );
        for frozen in &self.frozen {
            // A row that has its successor keeps it: successors are told in Seq order.
            if frozen.memtable.supersede_all(&prepared.keys, first) > 0 {
                frozen.memtable.recharge();
            }
        }
        self.next_seq = end;
        if end > first {
            self.active.since.get_or_insert(now);
        }
        self.active.indexer.push(offsets.start, &prepared.batch);
        Ok(first..end)
    }

    /// The first `Seq` in memory: rows below it have left.
    pub fn oldest_seq(&self) -> Seq {
        self.frozen.front().map_or(self.active.memtable.first_seq(), |oldest| oldest.memtable.first_seq())
    }

    /// The first of `keys` that has a row in memory with a `Seq` of `since` or above, tombstones and rows
    /// that are not durable included.
    pub fn first_changed(&self, keys: &BatchKeys, since: Seq) -> Option<usize> {
        let active = &self.active.memtable;
        let frozen = self.frozen.iter().map(|frozen| &frozen.memtable);
        let fresh: Vec<_> = frozen.filter(|frozen| frozen.end_seq() > since).collect();
        let changed = |first: Seq, newest: Option<RowOffset>| {
            newest.is_some_and(|offset| first.plus(u64::from(offset.get())) >= since)
        };
        (0..keys.len()).find(|row| {
            changed(active.first_seq(), active.newest(keys, *row))
                || fresh.iter().any(|frozen| changed(frozen.first_seq(), frozen.newest(keys, *row)))
        })
    }

    /// All memtables as they are now, ascending by generation, the active one last.
    pub fn views(&self) -> Vec<MemtableView> {
        let frozen = self.frozen.iter().map(|frozen| frozen.memtable.view());
        frozen.chain([self.active.memtable.view()]).collect()
    }

    /// Freezes the active memtable and starts the next generation.
    pub fn freeze(&mut self, ctx: &Context) -> Result<(), ShardError> {
        let next = Active::new(ctx, self.active.memtable.generation().next(), self.next_seq, &self.outbox)?;
        let full = std::mem::replace(&mut self.active, next);
        self.frozen.push_back(Frozen { memtable: full.memtable.freeze(), _indexer: full.indexer });
        Ok(())
    }

    /// Gives all rows up: the shard has stopped, and what is durable is on storage (L5). An empty memtable
    /// without indexes stays, so that numbers about the shard go on working.
    pub fn release(&mut self, ctx: &Context) -> Released {
        let generation = self.active.memtable.generation();
        let empty = Active::carrying(ctx, generation, self.next_seq, Vec::new(), Indexer::default());
        Released {
            _active: std::mem::replace(&mut self.active, empty),
            _frozen: std::mem::take(&mut self.frozen),
        }
    }

    /// An entry with rows of `generation` became durable at `position`; everything below `durable` is.
    pub fn durable(&mut self, generation: Generation, position: WalPosition, bytes: u64, durable: Seq) {
        self.durable_batches(generation, position, bytes, durable, 1);
    }

    /// The same for an entry of several batches, as other writers make them: the limit on entries exists
    /// because the reference counts batches.
    pub fn durable_batches(
        &mut self,
        generation: Generation,
        position: WalPosition,
        bytes: u64,
        durable: Seq,
        batches: u64,
    ) {
        if generation == self.active.memtable.generation() {
            self.active.entries += batches;
            self.active.wal_bytes += bytes;
            self.active.memtable.set_last_position(position);
        }
        self.active.memtable.set_durable_through(durable);
        for frozen in &self.frozen {
            if frozen.memtable.generation() == generation {
                frozen.memtable.set_last_position(position);
            }
            frozen.memtable.set_durable_through(durable);
        }
    }

    /// Charges what the memtables hold now: their indexes grow in the background (B2).
    pub fn recharge(&self) {
        self.active.memtable.recharge();
        for frozen in &self.frozen {
            frozen.memtable.recharge();
        }
    }

    /// Resident bytes of all memtables.
    pub fn resident_bytes(&self) -> u64 {
        let frozen: u64 = self.frozen.iter().map(|frozen| frozen.memtable.resident_bytes()).sum();
        frozen + self.active.memtable.resident_bytes()
    }

    /// Resident bytes of all their indexes.
    pub fn index_bytes(&self) -> u64 {
        let frozen: u64 = self.frozen.iter().map(|frozen| frozen.memtable.index_bytes()).sum();
        frozen + self.active.memtable.index_bytes()
    }
}

impl Active {
    fn new(
        ctx: &Context,
        generation: Generation,
        first_seq: Seq,
        outbox: &mpsc::UnboundedSender<Event>,
    ) -> Result<Self, ShardError> {
        let indexes: Result<Vec<_>, IndexError> =
            ctx.parts.indexes.iter().map(|factory| factory.create(generation, &ctx.schema)).collect();
        let indexes = indexes?;
        let indexer = Indexer::start(ctx.env(), &indexes, outbox);
        Ok(Self::carrying(ctx, generation, first_seq, indexes, indexer))
    }

    fn carrying(
        ctx: &Context,
        generation: Generation,
        first_seq: Seq,
        indexes: Vec<Arc<dyn MemIndex>>,
        indexer: Indexer,
    ) -> Self {
        let charge = ctx.parts.budget.charge(0);
        let schema = Arc::clone(&ctx.schema);
        let memtable = Memtable::new(generation, schema, ctx.key.clone(), first_seq, indexes, charge);
        Self { memtable, entries: 0, wal_bytes: 0, since: None, indexer }
    }

    /// What the freeze decision looks at. `waiting_entries` bounds the entries its undurable rows will need.
    pub fn stats(&self, waiting_entries: u64, now: Duration) -> MemtableStats {
        MemtableStats {
            rows: self.memtable.rows(),
            bytes: self.memtable.resident_bytes(),
            entries: self.entries + waiting_entries,
            wal_bytes: self.wal_bytes,
            age: self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since)),
        }
    }
}
