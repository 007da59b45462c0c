//! Reading a shard without claiming it.
//!
//! Owns: [`peek`]: newest manifest, then the WAL behind its replay cursor into memtables of this process's
//! own. An entry that is there is durable and every writer replays it, so this is as fresh as storage (P1,
//! P2); the shard's writer is not disturbed. What is read twice, once here and once in an SSTable published
//! meanwhile, cannot be: the manifest was read first, and only what it names is read (P12).

use std::sync::Arc;
use std::time::Duration;

use headwater_format::coord::{Epoch, ShardId};
use headwater_format::shard_manifest::ShardManifest;
use headwater_store::register::Register;
use tokio::sync::mpsc;

use crate::error::ShardError;
use crate::ingest::{Ingest, IngestLimits};
use crate::settings::ShardSettings;
use crate::shard::context::{Context, ShardParts};
use crate::shard::replay::Replay;
use crate::shard::tiers::Tiers;
use crate::snapshot::{ReadLevel, ShardSnapshot, SnapshotLimits};
use crate::wal::recover::Recovery;

/// The durable rows of `shard` as of now; none when it has no manifest, so was never written to. Claims
/// nothing, writes nothing. A sealed shard is read like any other.
///
/// # Errors
/// As [`Shard::open`](super::Shard::open), but for those that come of claiming.
pub async fn peek(
    shard: ShardId,
    parts: ShardParts,
    settings: ShardSettings,
) -> Result<Option<ShardSnapshot>, ShardError> {
    settings.validate().map_err(|error| ShardError::invalid(error.to_string()))?;
    let base = parts.table.base().await?;
    let ingest = Ingest::new(&base.schema, IngestLimits::from(&settings))?;
    let register: Register<ShardManifest> = Register::for_shard(parts.store.clone(), shard);
    let Some(manifest) = register.load().await? else { return Ok(None) };
    let (schema, key) = (Arc::clone(ingest.schema()), ingest.key().cloned());
    let epoch = manifest.writer_epoch;
    let ctx = Context { shard, epoch, parts, register, settings, ingest, schema, key };
    // Nobody listens: a reader's memtables carry no search index that would have something to tell.
    let (outbox, _inbox) = mpsc::unbounded_channel();
    let tiers = Tiers::new(&ctx, manifest.current_generation, outbox)?;
    let mut replay = Replay::new(&ctx, manifest.current_generation, tiers);
    let recovery = Recovery {
        store: ctx.parts.store.clone(),
        env: Arc::clone(ctx.env()),
        shard,
        // Writers that come meanwhile are as good as the one before.
        epoch: Epoch::MAX,
        parallel: ctx.settings.wal.replay_parallelism,
        sentinel: false,
    };
    recovery.run(&manifest, |at, entry, size| replay.apply(at, entry, size)).await?;
    let limits = SnapshotLimits {
        env: Arc::clone(ctx.env()),
        taken: ctx.now(),
        max_age: Duration::from_millis(ctx.settings.reads.snapshot_max_age_ms),
    };
    let tiers = replay.tiers;
    let snapshot =
        ShardSnapshot::new(shard, tiers.next_seq, ReadLevel::Durable, manifest, tiers.views(), limits);
    Ok(Some(snapshot))
}
