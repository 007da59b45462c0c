//! The rows a follower has read and no SSTable it knows of holds.
//!
//! Owns: [`Tail`]: memtables rebuilt from the WAL, where reading goes on, and the hand-over of generations to
//! the SSTables a newer manifest names. Does not own: any request. What an entry means is decided by
//! `replay`, as for a writer that opens the shard: a late sentinel of a lower epoch is skipped, rows of a
//! lower epoch behind rows of a higher one are refused (P7), rows of published generations are passed over
//! (P12).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headwater_format::coord::{Generation, WalPosition};
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{WalBody, WalEntry};
use tokio::sync::mpsc;

use crate::error::ShardError;
use crate::memtable::FrozenMemtable;
use crate::plants::Plants;
use crate::shard::context::Context;
use crate::shard::follow::start::Known;
use crate::shard::replay::Replay;
use crate::shard::tiers::Tiers;
use crate::snapshot::{Lineage, ReadLevel, ShardSnapshot, SnapshotLimits};

/// See the module.
#[derive(Debug)]
pub(super) struct Tail {
    ctx: Arc<Context>,
    lineage: Lineage,
    replay: Replay,
    /// The newest manifest known. What it published is handed over at the end of a refresh.
    pub known: Known,
    /// The manifest whose SSTables lie below the memtables.
    manifest: Arc<ShardManifest>,
    /// The first position that is not read.
    pub next: WalPosition,
    /// Where the rows of each memtable begin in the WAL.
    firsts: BTreeMap<Generation, WalPosition>,
    /// When it was last made sure that the shard is still the same and its WAL without a hole; none at first.
    pub checked: Option<Duration>,
}

impl Tail {
    pub fn new(ctx: Arc<Context>, known: Known, lineage: Lineage) -> Result<Self, ShardError> {
        // A follower has no conductor to tell that an index has come further.
        let (outbox, _inbox) = mpsc::unbounded_channel();
        let manifest = Arc::clone(&known.manifest);
        let tiers = Tiers::new(&ctx, manifest.current_generation, outbox)?;
        let replay = Replay::new(Arc::clone(&ctx), manifest.current_generation, tiers);
        let next = manifest.replay_after.next();
        Ok(Self { ctx, lineage, replay, known, manifest, next, firsts: BTreeMap::new(), checked: None })
    }

    /// Takes the entry at [`Self::next`], whose object has `bytes` bytes. After an error the reading cannot
    /// go on.
    pub fn apply(&mut self, entry: WalEntry, bytes: u64) -> Result<(), ShardError> {
        let position = self.next;
        self.next = position.next();
        if self.skips(&entry) {
            return Ok(());
        }
        let before = self.replay.tiers.next_seq;
        self.replay.apply(position, entry, bytes)?;
        if self.replay.tiers.next_seq > before {
            let generation = self.replay.tiers.active.memtable.generation();
            self.firsts.entry(generation).or_insert(position);
        }
        if self.ctx.parts.plants.has(Plants::FollowerForgetsFrozen) {
            self.replay.tiers.frozen.clear();
        }
        Ok(())
    }

    /// Only under a planted fault.
    fn skips(&self, entry: &WalEntry) -> bool {
        let active = self.replay.tiers.active.memtable.generation();
        let rotates = |tag: &Generation| *tag > active;
        let WalBody::Rows { generation, .. } = &entry.body else { return false };
        self.ctx.parts.plants.has(Plants::FollowerSkipsEntry) && generation.as_ref().is_some_and(rotates)
    }

    /// Lets go of the memtables whose generations the newest manifest published, and reads their rows from
    /// its SSTables from now on (P5, P12). To be called when everything up to its cursor has been read. False
    /// when memtables and generations have other boundaries: then the reading has to start again.
    pub fn hand_over(&mut self) -> Result<bool, ShardError> {
        let newest = Arc::clone(&self.known.manifest);
        let published = newest.current_generation;
        while self.oldest() < published {
            let tiers = &mut self.replay.tiers;
            if tiers.frozen.is_empty() {
                // Its writer rotated, and has written no row of the next generation yet.
                tiers.freeze(&self.ctx)?;
            }
            let fits = |memtable: &FrozenMemtable| became_sstable(memtable, &newest);
            if !tiers.frozen.pop_front().is_some_and(|frozen| fits(&frozen.memtable)) {
                return Ok(false);
            }
        }
        self.firsts.retain(|generation, _| *generation >= published);
        if self.firsts.values().next().is_some_and(|first| *first <= newest.replay_after) {
            return Ok(false);
        }
        self.replay.published(published);
        self.manifest = newest;
        // Indexes have grown in the background since.
        self.replay.tiers.recharge();
        Ok(true)
    }

    fn oldest(&self) -> Generation {
        let tiers = &self.replay.tiers;
        let active = tiers.active.memtable.generation();
        tiers.frozen.front().map_or(active, |frozen| frozen.memtable.generation())
    }

    /// All rows read so far, over the SSTables of the manifest they were handed over to.
    pub fn snapshot(&self, taken: Duration) -> ShardSnapshot {
        let limits = SnapshotLimits {
            env: Arc::clone(self.ctx.env()),
            taken,
            max_age: Duration::from_millis(self.ctx.settings.reads.snapshot_max_age_ms),
        };
        let (tiers, manifest) = (&self.replay.tiers, Arc::clone(&self.manifest));
        let (seq, views) = (tiers.next_seq, tiers.views());
        ShardSnapshot::new(self.ctx.shard, seq, ReadLevel::Durable, manifest, views, limits, self.lineage)
    }
}

/// Whether the SSTable of the memtable's generation holds its rows, row for row: then they keep their
/// `Seq`s. One that compaction has taken off the list is part of the base.
fn became_sstable(memtable: &FrozenMemtable, manifest: &ShardManifest) -> bool {
    let generation = memtable.generation();
    let named = manifest.sstables.iter().find(|sstable| sstable.generation == generation);
    let rows = named.and_then(|sstable| sstable.physical_rows).unwrap_or_else(|| memtable.rows());
    memtable.rows() > 0 && memtable.rows() == rows && memtable.last_position() <= manifest.replay_after
}
