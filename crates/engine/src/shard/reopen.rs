//! Opening a shard again in the process whose writer a failure stopped.
//!
//! Owns: [`Shard::reopen`], when it may be tried, and whose claim the newest manifest holds
//! ([`OwnClaims`]). Does not own: which failures are worth it ([`ShardError::is_cured_by_reopening`]), the
//! opening itself (`open`), or trying it, which is up to whoever holds the handle. Keeps P7: a shard that
//! another writer claimed meanwhile is not taken back.

use headwater_format::shard_manifest::ShardManifest;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::error::ShardError;
use crate::shard::handle::Shard;
use crate::shard::state::Phase;

/// Claims made in the name of a stopped writer, by write id. One whose answer was lost, or whose replay
/// failed, raised the epoch and serves nobody; without them it would look like another writer's. 16 bytes a
/// try.
#[derive(Debug, Default)]
pub(super) struct OwnClaims(Mutex<Vec<Uuid>>);

impl OwnClaims {
    /// A claim with this write id is about to be made.
    pub fn note(&self, id: Uuid) -> Uuid {
        self.0.lock().push(id);
        id
    }

    /// Whether `manifest` was written by one of these claims. Such a claim never came to serve, so nothing
    /// was published on top of it in its epoch.
    fn made(&self, manifest: &ShardManifest) -> bool {
        manifest.write_id.is_some_and(|id| self.0.lock().contains(&id))
    }
}

impl Shard {
    /// Whether the next write may [`Shard::reopen`]: the writer was stopped by a failure that this can
    /// cure, and everybody who handed rows over has looked at the outcome. Otherwise a write sent while an
    /// earlier one's failure lies unread in its ticket would be acknowledged behind a gap: what is
    /// acknowledged of writes that follow one another is an unbroken beginning of them.
    pub fn may_reopen(&self) -> bool {
        self.failure().is_some_and(|cause| cause.is_cured_by_reopening()) && self.shared.all_told()
    }

    /// Opens the shard again, from what is durable, after a failure stopped this writer. The old handle stays
    /// stopped. May be called again when it fails; once it succeeded, what stops the new writer is the new
    /// handle's business.
    ///
    /// # Errors
    /// [`ShardError::Fenced`] when another writer has claimed the shard meanwhile: taking it back is for
    /// people to decide, with [`Shard::open`]. [`ShardError::Invalid`] while this writer still serves.
    /// Otherwise as [`Shard::open`].
    pub async fn reopen(&self) -> Result<Self, ShardError> {
        let ctx = &self.ctx;
        if matches!(self.shared.lock().phase, Phase::Serving | Phase::Closing) {
            return Err(ShardError::invalid(format!("shard {} is open already; close it first", ctx.shard)));
        }
        let unclaimed = |latest: &ShardManifest| {
            if latest.writer_epoch <= ctx.epoch || self.own_claims.made(latest) {
                return Ok(());
            }
            Err(ShardError::Fenced { shard: ctx.shard, ours: ctx.epoch, theirs: latest.writer_epoch })
        };
        let env = ctx.env();
        let claim_id = || self.own_claims.note(env.uuid());
        Self::open_if(ctx.shard, ctx.parts.clone(), ctx.settings.clone(), unclaimed, claim_id).await
    }
}
