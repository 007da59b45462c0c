//! Reading the WAL back and fencing its tip: the part of an open between claim and service.
//!
//! Entries are fetched in parallel and applied in order. Behind the last one the sentinel of the new epoch is
//! put if absent: a stalled writer's next append then collides with it, and an append that was faster is
//! replayed (P1, P7, lance#7110). A missing position with entries behind it is a hole and refuses the open
//! (P8).

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use headwater_format::coord::{Epoch, ShardId, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{self, WalEntry};
use headwater_store::env::{EnvExt, EnvRef};
use headwater_store::{PutOnce, Store};

use crate::error::{ShardError, chain};

/// Positions looked at in parallel behind the last known entry.
const PROBE: u64 = 4;
/// Reads of an entry that cannot be decoded, before its damage is believed.
const READS: usize = 5;
/// Bytes of entries on their way at once, as far as the largest entry tells.
const BYTES_ON_THE_WAY: u64 = 128 << 20;
/// Entries behind the cursor fetched at once, whose sizes nobody asked for.
const COVERED_PARALLEL: usize = 32;
/// Entries fetched at once at least, however large they are.
const LEAST_PARALLEL: usize = 4;

/// A claimed shard whose WAL is to be read back.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Storage below the table root.
    pub store: Store,
    /// Clock and blocking work.
    pub env: EnvRef,
    /// The shard.
    pub shard: ShardId,
    /// The claimed epoch.
    pub epoch: Epoch,
    /// Entries fetched at once.
    pub parallel: usize,
    /// Whether the tip is fenced; false only for a planted fault and for the first epoch, which has no
    /// predecessor.
    pub sentinel: bool,
    /// Whether each read proves that the entry stays, as a reader needs that puts no sentinel behind it (P2).
    pub durable: bool,
}

/// What a listing of the WAL says.
#[derive(Clone, Copy, Debug)]
struct Listed {
    /// The last position known to hold an entry.
    tip: WalPosition,
    /// Bytes of the largest entry, flushed ones included.
    largest: u64,
}

/// An entry and the size of its object.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub entry: WalEntry,
    pub bytes: u64,
}

impl Recovery {
    /// Hands every entry behind the replay cursor to `apply`, in order, fences the tip, and returns the
    /// position the next entry goes to.
    ///
    /// # Errors
    /// [`ShardError::Corrupt`] for an entry that cannot be decoded and for a hole; [`ShardError::Fenced`] for
    /// an entry of a larger epoch; whatever `apply` returns; what storage said.
    pub async fn run(
        &self,
        manifest: &ShardManifest,
        mut apply: impl FnMut(WalPosition, WalEntry, u64) -> Result<(), ShardError>,
    ) -> Result<WalPosition, ShardError> {
        let Listed { tip: known_tip, largest } = self.list(manifest).await?;
        let mut next = manifest.replay_after.next();
        let mut known = stream::iter(next.get()..=known_tip.get())
            .map(|position| self.fetch_known(WalPosition::new(position), known_tip))
            .buffered(self.parallel_for(largest));
        while let Some(entry) = known.next().await {
            self.check(next, entry?, &mut apply)?;
            next = next.next();
        }
        drop(known);
        loop {
            if let Some(entry) = self.probe(next).await? {
                self.check(next, entry, &mut apply)?;
            } else if !self.sentinel {
                return Ok(next);
            } else if let Some(entry) = self.fence(next).await? {
                self.check(next, entry, &mut apply)?;
            } else {
                return Ok(next.next());
            }
            next = next.next();
        }
    }

    /// A listing may be stale, so more entries may follow; the tip is never below the cursor.
    async fn list(&self, manifest: &ShardManifest) -> Result<Listed, ShardError> {
        let listed = self.store.list(&path::wal_dir(self.shard)).await?;
        let entries = listed.iter().filter_map(|object| {
            let position = object.path.rsplit('/').next().and_then(path::parse_wal_name)?;
            Some((position, object.size))
        });
        let (mut tip, mut largest) = (manifest.last_seen.max(manifest.replay_after), 0);
        for (position, size) in entries {
            tip = tip.max(position);
            largest = largest.max(size);
        }
        Ok(Listed { tip, largest })
    }

    /// How many entries of at most `largest` bytes are fetched at once.
    fn parallel_for(&self, largest: u64) -> usize {
        let fit = usize::try_from(BYTES_ON_THE_WAY / largest.max(1)).unwrap_or(usize::MAX);
        self.parallel.min(fit.max(LEAST_PARALLEL)).max(1)
    }

    /// Hands the entries at `positions`, whose rows are in SSTables, to `apply`, in order, for what they tell
    /// besides rows. One that is missing or damaged is no hole: there is none to apply.
    ///
    /// # Errors
    /// What storage said.
    pub async fn covered(
        &self,
        positions: impl Iterator<Item = WalPosition> + Send,
        mut apply: impl FnMut(WalPosition, Option<WalEntry>),
    ) -> Result<(), ShardError> {
        let fetched = |position| async move { (position, self.fetch_insistently(position).await) };
        let mut entries =
            stream::iter(positions).map(fetched).buffered(self.parallel.clamp(1, COVERED_PARALLEL));
        while let Some((position, entry)) = entries.next().await {
            match entry {
                Ok(found) => apply(position, found.map(|fetched| fetched.entry)),
                Err(ShardError::Corrupt { path, reason }) => {
                    tracing::warn!(shard = %self.shard, path, reason, "client tokens of an entry are lost");
                    apply(position, None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn check(
        &self,
        position: WalPosition,
        fetched: Fetched,
        apply: &mut impl FnMut(WalPosition, WalEntry, u64) -> Result<(), ShardError>,
    ) -> Result<(), ShardError> {
        let Fetched { entry, bytes } = fetched;
        if entry.epoch > self.epoch {
            return Err(ShardError::Fenced { shard: self.shard, ours: self.epoch, theirs: entry.epoch });
        }
        apply(position, entry, bytes)
    }

    /// An entry that must be there, for something behind it is.
    pub(crate) async fn fetch_known(
        &self,
        position: WalPosition,
        tip: WalPosition,
    ) -> Result<Fetched, ShardError> {
        if let Some(entry) = self.fetch(position).await? {
            return Ok(entry);
        }
        Err(ShardError::Corrupt {
            path: path::wal_path(self.shard, position),
            reason: format!(
                "hole in the WAL: position {position} is missing although position {tip} was written; \
                 restore the object from a backup"
            ),
        })
    }

    /// The entry at `position`, or `None` at the tip. Entries further on turn a miss into a second look, for
    /// they may have been written in between, and then into a hole.
    async fn probe(&self, position: WalPosition) -> Result<Option<Fetched>, ShardError> {
        let first = self.fetch(position).await?;
        if first.is_some() {
            return Ok(first);
        }
        let ahead = (1..=PROBE).map(|step| position.plus(step)).map(|further| async move {
            let found = self.store.exists(&path::wal_path(self.shard, further)).await?;
            Ok::<_, ShardError>(found.then_some(further))
        });
        let ahead = futures::future::try_join_all(ahead).await?;
        match ahead.into_iter().flatten().next_back() {
            None => Ok(None),
            Some(further) => self.fetch_known(position, further).await.map(Some),
        }
    }

    /// The entry at `position`, whose damage nobody would be told of: so it is believed later than elsewhere.
    async fn fetch_insistently(&self, position: WalPosition) -> Result<Option<Fetched>, ShardError> {
        for _ in 1..READS {
            match self.fetch(position).await {
                Err(ShardError::Corrupt { .. }) => {}
                end => return end,
            }
        }
        self.fetch(position).await
    }

    /// The entry at `position`. Damage is believed only when two reads in a row agree.
    pub(crate) async fn fetch(&self, position: WalPosition) -> Result<Option<Fetched>, ShardError> {
        let path = path::wal_path(self.shard, position);
        let mut before: Option<(Bytes, ShardError)> = None;
        for _ in 0..READS {
            let read =
                if self.durable { self.store.get_durable(&path).await } else { self.store.get(&path).await };
            let Some(bytes) = read? else { return Ok(None) };
            match self.decode(&path, bytes.clone()).await {
                Ok(entry) => return Ok(Some(entry)),
                Err(error) if before.as_ref().is_some_and(|(same, _)| *same == bytes) => return Err(error),
                Err(error) => before = Some((bytes, error)),
            }
        }
        let damaged = || ShardError::Corrupt { path, reason: "every read differs".to_owned() };
        Err(before.map_or_else(damaged, |(_, error)| error))
    }

    async fn decode(&self, path: &str, bytes: Bytes) -> Result<Fetched, ShardError> {
        let size = bytes.len() as u64;
        let decoded = self.env.blocking(move || wal_entry::decode(bytes)).await;
        let decoded = decoded.map_err(|failed| ShardError::Unavailable { reason: failed.to_string() })?;
        let corrupt = |reason: String| ShardError::Corrupt { path: path.to_owned(), reason };
        decoded.map(|entry| Fetched { entry, bytes: size }).map_err(|error| corrupt(error.to_string()))
    }

    /// Puts the sentinel at `position`; hands back the entry that was faster.
    async fn fence(&self, position: WalPosition) -> Result<Option<Fetched>, ShardError> {
        let path = path::wal_path(self.shard, position);
        let sentinel = wal_entry::encode_sentinel(self.epoch)
            .map_err(|error| ShardError::Internal { invariant: "P7", context: error.to_string() })?;
        match self.store.put_once(&path, sentinel).await? {
            PutOnce::Created => Ok(None),
            PutOnce::Exists { found } => self.decode(&path, found).await.map(Some),
            PutOnce::Unknown { source } => Err(ShardError::UnknownOutcome { path, reason: chain(&source) }),
        }
    }
}

/// The newest manifest, when its epoch is still `epoch`.
///
/// # Errors
/// [`ShardError::Fenced`] when it is not.
pub fn still_ours(manifest: Arc<ShardManifest>, epoch: Epoch) -> Result<Arc<ShardManifest>, ShardError> {
    if manifest.writer_epoch == epoch {
        return Ok(manifest);
    }
    Err(ShardError::Fenced { shard: manifest.shard_id, ours: epoch, theirs: manifest.writer_epoch })
}
