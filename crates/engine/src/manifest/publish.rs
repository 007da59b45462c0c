//! Publishing a generation: one manifest version that names the SSTable and moves the replay cursor.
//!
//! Keeps P11 (generations publish in order, the cursor is the end of the contiguous published prefix), P12 (a
//! publish whose answer was lost is recognised as done) and P7 (a fenced writer publishes nothing).

use std::sync::Arc;

use headwater_format::coord::{Epoch, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::{ShardManifest, SsTable, TokenFloor};
use headwater_store::register::{Register, RegisterWrite};

use crate::error::{ShardError, chain};
use crate::hold::hold;

/// What to publish.
#[derive(Clone, Debug)]
pub struct Publish {
    /// The complete SSTable; its files are durable.
    pub sstable: SsTable,
    /// Position of the last WAL entry that holds rows of this generation, and of no later one.
    pub last_position: WalPosition,
    /// Which entries up to there still tell of client tokens.
    pub token_floor: Option<TokenFloor>,
    /// The publishing writer's epoch.
    pub epoch: Epoch,
    /// Always true but under a planted fault: refuse a generation before an earlier one.
    pub in_order: bool,
}

/// What became of it.
#[derive(Clone, Debug)]
pub enum Published {
    /// This call named the SSTable.
    Now(Arc<ShardManifest>),
    /// The generation had been published before, as `sstable`. Nothing was written.
    AlreadyPublished {
        /// The SSTable the manifest names for the generation; `None` once compaction took it off the list.
        sstable: Option<SsTable>,
        /// The newest manifest.
        manifest: Arc<ShardManifest>,
    },
}

impl Published {
    /// The newest manifest known after the publish.
    pub fn manifest(&self) -> &Arc<ShardManifest> {
        match self {
            Self::Now(manifest) | Self::AlreadyPublished { manifest, .. } => manifest,
        }
    }
}

impl Publish {
    /// Publishes over `known`, the newest manifest this writer has seen.
    ///
    /// # Errors
    /// [`ShardError::Fenced`] when the shard has a larger epoch; [`ShardError::Invalid`] when an earlier
    /// generation is not published yet; [`ShardError::UnknownOutcome`] and [`ShardError::Unavailable`]: call
    /// again, the same publish is recognised when it was applied after all.
    pub async fn run(
        &self,
        register: &Register<ShardManifest>,
        known: Arc<ShardManifest>,
        write_id: impl Fn() -> uuid::Uuid,
    ) -> Result<Published, ShardError> {
        let mut latest = known;
        loop {
            if latest.current_generation > self.sstable.generation {
                let sstable =
                    latest.sstables.iter().find(|named| named.generation == self.sstable.generation).cloned();
                return Ok(Published::AlreadyPublished { sstable, manifest: latest });
            }
            let mut next = next_manifest(&latest, self)?;
            next.write_id = Some(write_id());
            match register.write(&next).await? {
                RegisterWrite::Written => return Ok(Published::Now(Arc::new(next))),
                RegisterWrite::Lost { latest: theirs } => latest = theirs,
                RegisterWrite::Unknown { source } => {
                    return Err(ShardError::UnknownOutcome {
                        path: path::manifest_path(next.shard_id, next.version),
                        reason: chain(&source),
                    });
                }
            }
        }
    }
}

/// The manifest after `publish` on top of `latest`. Pure; `write_id` is left to the caller.
///
/// # Errors
/// See [`Publish::run`].
pub fn next_manifest(latest: &ShardManifest, publish: &Publish) -> Result<ShardManifest, ShardError> {
    let shard = latest.shard_id;
    if latest.writer_epoch != publish.epoch {
        return Err(ShardError::Fenced { shard, ours: publish.epoch, theirs: latest.writer_epoch });
    }
    if publish.in_order && publish.sstable.generation != latest.current_generation {
        return Err(ShardError::invalid(format!(
            "shard {shard}: generation {} cannot be published before generation {}",
            publish.sstable.generation, latest.current_generation
        )));
    }
    hold!(
        P11,
        publish.last_position > latest.replay_after,
        "shard {shard}: cursor would go from {} to {} with generation {}",
        latest.replay_after,
        publish.last_position,
        publish.sstable.generation
    );
    let mut next = latest.clone();
    next.version = latest.version.next();
    next.sstables.push(publish.sstable.clone());
    next.replay_after = publish.last_position;
    next.last_seen = latest.last_seen.max(publish.last_position);
    next.current_generation = publish.sstable.generation.next();
    next.token_floor = publish.token_floor.clone();
    Ok(next)
}
