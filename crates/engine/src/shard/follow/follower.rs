//! Following a shard: who is answered with what.
//!
//! Owns: [`Follower`]: one reading of a shard, shared by everybody in the process who reads it; when storage
//! is asked again; starting again. Does not own: what a refresh reads (`catch_up`). What is held counts
//! against the memory budget; [`Follower::let_go`] gives it back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headwater_format::coord::ShardId;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::error::ShardError;
use crate::settings::ShardSettings;
use crate::shard::context::ShardParts;
use crate::shard::follow::catch_up::{CatchUp, Read};
use crate::shard::follow::start::{Known, Source};
use crate::shard::follow::tail::Tail;
use crate::snapshot::{Lineage, ShardSnapshot};

/// Starts in one refresh before it is given up: each needs the writer to flush, and collection to follow,
/// while this one reads.
const STARTS: usize = 10;

/// Reads a shard without claiming it, and keeps what was read. Usable from many tasks at once.
#[derive(Debug)]
pub struct Follower {
    source: Source,
    reader: Uuid,
    /// Refreshes begun so far.
    begun: AtomicU64,
    last: Mutex<Option<Last>>,
    /// Held while a refresh goes on.
    reading: tokio::sync::Mutex<Reading>,
}

/// What the last refresh that ended well found.
#[derive(Clone, Debug)]
struct Last {
    number: u64,
    began: Duration,
    snapshot: Option<ShardSnapshot>,
}

#[derive(Debug, Default)]
struct Reading {
    tail: Option<Tail>,
    starts: u64,
}

impl Follower {
    /// A reader of `shard`, which need not exist yet. Asks nothing of storage. The memtables it rebuilds
    /// carry the indexes of `parts`.
    ///
    /// # Errors
    /// [`ShardError::Invalid`] for settings that cannot be.
    pub fn open(shard: ShardId, parts: ShardParts, settings: ShardSettings) -> Result<Self, ShardError> {
        settings.validate().map_err(|error| ShardError::invalid(error.to_string()))?;
        let reader = parts.env.uuid();
        let (begun, last, reading) = (AtomicU64::new(0), Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { source: Source::new(shard, parts, settings), reader, begun, last, reading })
    }

    /// The shard.
    pub fn shard(&self) -> ShardId {
        self.source.shard
    }

    /// The durable rows of the shard: every one that was acknowledged before this was called, whoever wrote
    /// it (P1), and none that is not on storage for good (P2). `None` when the shard has no manifest, so was
    /// never written to. A sealed shard is read like any other.
    ///
    /// # Errors
    /// [`ShardError::Unavailable`] when storage does not answer, or the shard is flushed and collected faster
    /// than it can be read: try again; [`ShardError::Backpressure`] when the rows its writer has not flushed
    /// do not fit into memory; [`ShardError::Corrupt`] with the path for entries or manifests that cannot be
    /// right and for holes; [`ShardError::Invalid`] for entries of another schema than the table's.
    pub async fn refresh(&self) -> Result<Option<ShardSnapshot>, ShardError> {
        self.snapshot(Duration::ZERO).await
    }

    /// As [`Follower::refresh`], but rows acknowledged within the last `max_staleness` may be missing:
    /// storage is asked only when the last refresh began longer ago. Never older than what an earlier call
    /// returned (P6).
    ///
    /// # Errors
    /// As [`Follower::refresh`].
    pub async fn snapshot(&self, max_staleness: Duration) -> Result<Option<ShardSnapshot>, ShardError> {
        let serves = Duration::from_millis(self.source.settings.reads.snapshot_max_age_ms);
        let recent = |last: &Last| self.source.now().saturating_sub(last.began) < max_staleness.min(serves);
        if let Some(last) = self.last_if(recent) {
            return Ok(last.snapshot);
        }
        let before = self.begun.load(Ordering::SeqCst);
        let mut reading = self.reading.lock().await;
        // Whoever was first may have begun after this call: then its refresh is ours, too.
        if let Some(last) = self.last_if(|last| last.number > before || recent(last)) {
            return Ok(last.snapshot);
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let began = self.source.now();
        let snapshot = self.read(&mut reading).await?;
        *self.last.lock() = Some(Last { number, began, snapshot: snapshot.clone() });
        Ok(snapshot)
    }

    /// Makes the next refresh look at the shard manifest, whatever is known: for whoever found a file missing
    /// that the snapshot names.
    pub async fn distrust(&self) {
        self.last.lock().take();
        if let Some(tail) = &mut self.reading.lock().await.tail {
            tail.known.asked = None;
        }
    }

    /// Gives the memory back that is held for later reads, unless a refresh is under way. The next refresh
    /// starts from the shard manifest. Snapshots that were handed out keep what they show.
    pub fn let_go(&self) {
        if let Ok(mut reading) = self.reading.try_lock() {
            reading.tail = None;
            self.last.lock().take();
        }
    }

    fn last_if(&self, wanted: impl FnOnce(&Last) -> bool) -> Option<Last> {
        self.last.lock().as_ref().filter(|last| wanted(last)).cloned()
    }

    async fn read(&self, reading: &mut Reading) -> Result<Option<ShardSnapshot>, ShardError> {
        let mut known = None;
        for _ in 0..STARTS {
            if reading.tail.is_none() && !self.start(reading, known.take()).await? {
                return Ok(None);
            }
            let Some(tail) = &mut reading.tail else { break };
            // The last snapshot holds memtables whose generations are flushed by now.
            let make_room = || drop(self.last.lock().take());
            match CatchUp::new(&self.source, tail, &make_room).run().await {
                Ok(Read::Enough | Read::On) => return Ok(Some(tail.snapshot(self.source.now()))),
                Ok(Read::Passed) => known = reading.tail.take().map(|tail| tail.known),
                Ok(Read::Replaced) => reading.tail = None,
                Err(error) => {
                    if !error.is_retryable() {
                        // Some of an entry may have been taken, and the table's columns may be others now.
                        reading.tail = None;
                    }
                    return Err(error);
                }
            }
            // What it shows is held twice while it is read again.
            self.last.lock().take();
        }
        let shard = self.source.shard;
        Err(ShardError::Unavailable {
            reason: format!("shard {shard} is flushed and collected faster than it can be read; try again"),
        })
    }

    /// Starts from `known`, else from the newest manifest; false when there is none.
    async fn start(&self, reading: &mut Reading, known: Option<Known>) -> Result<bool, ShardError> {
        let known = match known {
            Some(known) => Some(known),
            None => self.source.load().await?,
        };
        let Some(known) = known else { return Ok(false) };
        reading.starts += 1;
        let lineage = Lineage::Follower { reader: self.reader, start: reading.starts };
        reading.tail = Some(self.source.start(known, lineage).await?);
        Ok(true)
    }
}
