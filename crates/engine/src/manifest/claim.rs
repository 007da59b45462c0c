//! Claiming a shard: epoch + 1 in the manifest, by compare-and-swap. The claim alone fences nobody: the
//! sentinel in the WAL does (`wal::recover`). Called once per open.

use std::sync::Arc;

use headwater_format::path;
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_store::register::{Register, RegisterWrite};

use crate::error::{ShardError, chain};

/// Manifest changes by others that a claim survives before it gives up.
const CLAIM_TRIES: usize = 16;

/// Claims the shard whose manifest is `latest` and returns the manifest that records the new epoch.
///
/// # Errors
/// [`ShardError::Sealed`] when the shard takes no writer; [`ShardError::Conflict`] when another process
/// claimed it in the same moment (that process is the writer now); [`ShardError::UnknownOutcome`] when
/// storage does not say whether the claim was applied.
pub async fn claim(
    register: &Register<ShardManifest>,
    latest: Arc<ShardManifest>,
    write_id: impl Fn() -> uuid::Uuid,
) -> Result<Arc<ShardManifest>, ShardError> {
    let mut latest = latest;
    for _ in 0..CLAIM_TRIES {
        let shard = latest.shard_id;
        if latest.status == ShardStatus::Sealed {
            return Err(ShardError::Sealed { shard });
        }
        let mut next = ShardManifest::clone(&latest);
        next.version = latest.version.next();
        next.writer_epoch = latest.writer_epoch.next();
        next.last_seen = latest.last_seen.max(latest.replay_after);
        next.write_id = Some(write_id());
        match register.write(&next).await? {
            RegisterWrite::Written => return Ok(Arc::new(next)),
            RegisterWrite::Lost { latest: theirs } if theirs.writer_epoch >= next.writer_epoch => {
                return Err(ShardError::Conflict {
                    shard,
                    reason: format!(
                        "another process claimed epoch {} in the same moment",
                        theirs.writer_epoch
                    ),
                });
            }
            RegisterWrite::Lost { latest: theirs } => latest = theirs,
            RegisterWrite::Unknown { source } => {
                return Err(ShardError::UnknownOutcome {
                    path: path::manifest_path(shard, next.version),
                    reason: chain(&source),
                });
            }
        }
    }
    Err(ShardError::Conflict {
        shard: latest.shard_id,
        reason: format!("its manifest changed {CLAIM_TRIES} times while it was being claimed"),
    })
}
