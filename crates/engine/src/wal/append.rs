//! Writing one encoded entry at the tip of the WAL.
//!
//! A position stays bound to one encoded entry until storage says created or foreign; `AlreadyExists` by
//! itself decides nothing (P7). Called by the conductor, one append at a time: entry N + 1 never exists
//! before N (P8).

use bytes::Bytes;
use headwater_format::coord::{Epoch, ShardId, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{self, WalBody};
use headwater_store::register::Register;
use headwater_store::{PutOnce, Store};
use std::sync::Arc;

use crate::error::{ShardError, chain};
use crate::hold::hold;

/// Foreign sentinels one append steps over before it gives up; each is a claim that came and went.
const MAX_FOREIGN_ENTRIES: usize = 1024;

/// What an append needs to know of its shard.
#[derive(Clone, Debug)]
pub struct Appender {
    /// Storage below the table root.
    pub store: Store,
    /// The shard.
    pub shard: ShardId,
    /// The shard's manifest register.
    pub register: Register<ShardManifest>,
    /// This writer's epoch.
    pub epoch: Epoch,
}

/// A durable entry.
#[derive(Clone, Debug)]
pub struct Appended {
    /// Where it is.
    pub position: WalPosition,
    /// A newer manifest, when one was seen on the way.
    pub manifest: Option<Arc<ShardManifest>>,
}

impl Appender {
    /// Writes `entry` at `tip`, or behind late sentinels of dead claims found there.
    ///
    /// # Errors
    /// [`ShardError::Fenced`] when a larger epoch is seen; [`ShardError::UnknownOutcome`] when storage does
    /// not say whether the entry exists; [`ShardError::Internal`] (P7) when another writer's rows are found
    /// at the tip. After any of them nothing may be appended any more.
    pub async fn append(
        &self,
        tip: WalPosition,
        entry: &Bytes,
        known: &Arc<ShardManifest>,
    ) -> Result<Appended, ShardError> {
        let mut position = tip;
        let mut newer = None;
        for _ in 0..MAX_FOREIGN_ENTRIES {
            let path = path::wal_path(self.shard, position);
            match self.store.put_once(&path, entry.clone()).await? {
                PutOnce::Created => return Ok(Appended { position, manifest: newer }),
                PutOnce::Unknown { source } => {
                    return Err(ShardError::UnknownOutcome { path, reason: chain(&source) });
                }
                PutOnce::Exists { found } => {
                    let known = newer.as_ref().unwrap_or(known);
                    if let Some(manifest) = self.foreign(&path, found, known).await? {
                        newer = Some(manifest);
                    }
                    position = position.next();
                }
            }
        }
        Err(ShardError::Conflict {
            shard: self.shard,
            reason: format!("{MAX_FOREIGN_ENTRIES} entries of other writers follow the WAL tip {tip}"),
        })
    }

    /// Judges an entry of somebody else's at our tip: fenced, a dead claim's late sentinel (go on), or a
    /// violation.
    async fn foreign(
        &self,
        path: &str,
        found: Bytes,
        known: &Arc<ShardManifest>,
    ) -> Result<Option<Arc<ShardManifest>>, ShardError> {
        let newest = self.register.refresh(known.version).await?;
        let epoch_on_storage = newest.as_ref().map_or(known.writer_epoch, |manifest| manifest.writer_epoch);
        let entry = wal_entry::decode(found)
            .map_err(|error| ShardError::Corrupt { path: path.to_owned(), reason: error.to_string() })?;
        let theirs = epoch_on_storage.max(entry.epoch);
        if theirs > self.epoch {
            return Err(ShardError::Fenced { shard: self.shard, ours: self.epoch, theirs });
        }
        let late_sentinel = matches!(entry.body, WalBody::FenceSentinel) && entry.epoch < self.epoch;
        hold!(
            P7,
            late_sentinel,
            "{path} holds another entry of epoch {} while epoch {} writes",
            entry.epoch,
            self.epoch
        );
        Ok(newest)
    }
}
