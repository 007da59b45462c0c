//! Opening a shard: check, claim, recover, fence, check again, serve.
//!
//! Everything that can be refused is refused before the claim, for a claim ends another writer's life
//! (lance#7872, lance#7949). Order of the rest: epoch + 1 in the manifest, sentinel at the WAL tip, replay,
//! newest manifest read again with the epoch still ours (P1, P7).

use std::sync::Arc;

use headwater_format::coord::{Generation, ShardId};
use headwater_format::shard_manifest::{ShardManifest, ShardStatus, TokenFloor};
use headwater_format::wal_entry::WalEntry;
use headwater_store::register::Register;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use crate::error::ShardError;
use crate::ingest::{Ingest, IngestLimits};
use crate::manifest::claim;
use crate::plants::Plants;
use crate::settings::ShardSettings;
use crate::shard::conductor::Conductor;
use crate::shard::context::{Context, ShardParts};
use crate::shard::event::Event;
use crate::shard::handle::Shard;
use crate::shard::logging;
use crate::shard::reopen::OwnClaims;
use crate::shard::replay::Replay;
use crate::shard::state::{Phase, Shared, State};
use crate::shard::task_slot::TaskSlot;
use crate::shard::tiers::Tiers;
use crate::shard::tokens::Tokens;
use crate::wal::recover::{Recovery, still_ours};

impl Shard {
    /// Claims `shard` and recovers it. Its manifest must exist (`manifest::create_shard`).
    ///
    /// # Errors
    /// Before the claim: [`ShardError::Invalid`] for settings, schema, indexes or a shard that does not
    /// exist; [`ShardError::Sealed`]. From the claim on: [`ShardError::Conflict`] and [`ShardError::Fenced`]
    /// when another process claims too; [`ShardError::Corrupt`] with the path for entries or manifests that
    /// cannot be right and for holes; [`ShardError::Invalid`] for entries of another schema;
    /// [`ShardError::UnknownOutcome`] and [`ShardError::Unavailable`]: open again.
    pub async fn open(
        shard: ShardId,
        parts: ShardParts,
        settings: ShardSettings,
    ) -> Result<Self, ShardError> {
        let env = Arc::clone(&parts.env);
        Self::open_if(shard, parts, settings, |_| Ok(()), || env.uuid()).await
    }

    /// Opens the shard if `may_claim` says so of its newest manifest, with a write id drawn from
    /// `claim_id`. The claim is put if absent on top of that manifest, or of one of no higher epoch written
    /// since.
    pub(super) async fn open_if(
        shard: ShardId,
        parts: ShardParts,
        settings: ShardSettings,
        may_claim: impl FnOnce(&ShardManifest) -> Result<(), ShardError>,
        claim_id: impl Fn() -> Uuid,
    ) -> Result<Self, ShardError> {
        settings.validate().map_err(|error| ShardError::invalid(error.to_string()))?;
        let base = parts.table.base().await?;
        let ingest = Ingest::new(&base.schema, IngestLimits::from(&settings))?;
        for factory in &parts.indexes {
            factory.create(Generation::new(1), ingest.schema())?;
        }
        let register: Register<ShardManifest> = Register::for_shard(parts.store.clone(), shard);
        let latest = register.load().await?.ok_or_else(|| {
            ShardError::invalid(format!("shard {shard} has no manifest; initialise the table first"))
        })?;
        if latest.status == ShardStatus::Sealed {
            return Err(ShardError::Sealed { shard });
        }
        may_claim(&latest)?;
        let claimed = claim(&register, latest, claim_id).await?;
        let (schema, key) = (Arc::clone(ingest.schema()), ingest.key().cloned());
        let epoch = claimed.writer_epoch;
        let ctx = Arc::new(Context { shard, epoch, parts, register, settings, ingest, schema, key });
        Self::recover(ctx, claimed).await
    }

    async fn recover(ctx: Arc<Context>, claimed: Arc<ShardManifest>) -> Result<Self, ShardError> {
        let (outbox, inbox) = mpsc::unbounded_channel();
        let tiers = Tiers::new(&ctx, claimed.current_generation, outbox.clone())?;
        let recovery = recovery(&ctx);
        let mut tokens = covered_tokens(&ctx, &recovery, &claimed).await?;
        let mut replay = Replay::new(Arc::clone(&ctx), claimed.current_generation, tiers);
        let replayed = recovery.run(&claimed, |at, mut entry, size| {
            let (listed, first) = (std::mem::take(&mut entry.tokens), replay.tiers.next_seq);
            replay.apply(at, entry, size)?;
            // Rows of a published generation are passed over.
            let first = Some(first).filter(|first| replay.tiers.next_seq > *first);
            tokens.replayed(listed, at, first, ctx.clocks());
            Ok(())
        });
        let next_position = replayed.await?;
        let Replay { tiers, counters, .. } = replay;
        let confirmed = ctx.now();
        let newest = ctx.register.refresh(claimed.version).await?.unwrap_or(claimed);
        let manifest = still_ours(newest, ctx.epoch)?;
        logging::opened(ctx.shard, ctx.epoch, counters.replayed_entries, counters.replayed_rows);
        let durable = tiers.next_seq;
        let phase = Phase::Serving;
        let state =
            State { tiers, manifest, durable, next_position, phase, confirmed, counters, last_error: None };
        Ok(Self::start(ctx, state, tokens, outbox, inbox))
    }

    fn start(
        ctx: Arc<Context>,
        state: State,
        tokens: Tokens,
        outbox: mpsc::UnboundedSender<Event>,
        inbox: mpsc::UnboundedReceiver<Event>,
    ) -> Self {
        let shared = Arc::new(Shared::new(ctx.shard, state));
        let conductor = Conductor::new(Arc::clone(&ctx), Arc::clone(&shared), tokens, outbox.clone(), inbox);
        let mut conductor_task = TaskSlot::default();
        conductor_task.set(ctx.env().spawn("conductor", Box::pin(conductor.run())));
        let mut pressure_task = TaskSlot::default();
        let pressure = forward_pressure(ctx.parts.budget.pressure(), outbox.clone());
        pressure_task.set(ctx.env().spawn("pressure", Box::pin(pressure)));
        Self {
            ctx,
            shared,
            outbox,
            own_claims: OwnClaims::default(),
            _conductor: conductor_task,
            _pressure: pressure_task,
        }
    }
}

/// The client tokens of entries whose rows are in SSTables already.
async fn covered_tokens(
    ctx: &Context,
    recovery: &Recovery,
    claimed: &ShardManifest,
) -> Result<Tokens, ShardError> {
    let mut tokens = Tokens::new(&ctx.settings.tokens, ctx.parts.budget.charge(0));
    let alive = |floor: &TokenFloor| {
        ctx.clocks().wall_ms.saturating_sub(floor.newest_ms) < ctx.settings.tokens.window_ms
    };
    if let Some(floor) = claimed.token_floor.as_ref().filter(|floor| alive(floor)) {
        let remember = |at, entry: Option<WalEntry>| match entry {
            Some(entry) => tokens.replayed(entry.tokens, at, None, ctx.clocks()),
            None => tokens.unread(at, floor.newest_ms, ctx.clocks()),
        };
        recovery.covered(floor.to_read(claimed.replay_after), remember).await?;
    }
    Ok(tokens)
}

fn recovery(ctx: &Context) -> Recovery {
    // The first epoch of a shard has no predecessor to fence.
    let first = ctx.epoch.get() <= 1;
    Recovery {
        store: ctx.parts.store.clone(),
        env: Arc::clone(ctx.env()),
        shard: ctx.shard,
        epoch: ctx.epoch,
        parallel: ctx.settings.wal.replay_parallelism,
        sentinel: !first && !ctx.parts.plants.has(Plants::ClaimWithoutSentinel),
        durable: false,
    }
}

async fn forward_pressure(mut pressure: watch::Receiver<()>, outbox: mpsc::UnboundedSender<Event>) {
    while pressure.changed().await.is_ok() {
        if outbox.send(Event::Pressure).is_err() {
            return;
        }
    }
}
