//! What a reading begins from.
//!
//! Owns: [`Source`], a shard as a reader finds it, and [`Source::start`]: the newest manifest, the columns of
//! the table, and empty memtables behind the replay cursor. Does not own: reading on (`catch_up`).

use std::sync::Arc;
use std::time::Duration;

use headwater_format::coord::{Epoch, ShardId};
use headwater_format::shard_manifest::ShardManifest;
use headwater_store::register::Register;

use crate::error::ShardError;
use crate::ingest::{Ingest, IngestLimits};
use crate::settings::ShardSettings;
use crate::shard::context::{Context, ShardParts};
use crate::shard::follow::tail::Tail;
use crate::snapshot::Lineage;
use crate::wal::recover::Recovery;

/// The newest manifest, and since when it is known to be that.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub manifest: Arc<ShardManifest>,
    /// The moment before storage was asked: an answer is as old as its question. None when it is not to be
    /// relied on.
    pub asked: Option<Duration>,
}

/// A shard on storage, to be read.
#[derive(Debug)]
pub(super) struct Source {
    pub shard: ShardId,
    pub parts: ShardParts,
    pub settings: ShardSettings,
    pub register: Register<ShardManifest>,
}

impl Source {
    pub fn new(shard: ShardId, parts: ShardParts, settings: ShardSettings) -> Self {
        let register = Register::for_shard(parts.store.clone(), shard);
        Self { shard, parts, settings, register }
    }

    pub fn now(&self) -> Duration {
        self.parts.env.now()
    }

    /// The newest manifest from nothing; `None` when there is none.
    pub async fn load(&self) -> Result<Option<Known>, ShardError> {
        let asked = self.now();
        let manifest = self.register.load().await?;
        Ok(manifest.map(|manifest| Known { manifest, asked: Some(asked) }))
    }

    /// A reading that begins behind the cursor of `known`, with the columns the table has now.
    pub async fn start(&self, known: Known, lineage: Lineage) -> Result<Tail, ShardError> {
        let base = self.parts.table.base().await?;
        let ingest = Ingest::new(&base.schema, IngestLimits::from(&self.settings))?;
        let (schema, key) = (Arc::clone(ingest.schema()), ingest.key().cloned());
        let ctx = Arc::new(Context {
            shard: self.shard,
            epoch: known.manifest.writer_epoch,
            parts: self.parts.clone(),
            register: self.register.clone(),
            settings: self.settings.clone(),
            ingest,
            schema,
            key,
        });
        Tail::new(ctx, known, lineage)
    }

    /// The WAL, as whoever writes nothing reads it.
    pub fn wal(&self) -> Recovery {
        Recovery {
            store: self.parts.store.clone(),
            env: Arc::clone(&self.parts.env),
            shard: self.shard,
            // Writers that come meanwhile are as good as the one before.
            epoch: Epoch::MAX,
            parallel: self.settings.wal.replay_parallelism,
            sentinel: false,
            durable: true,
        }
    }
}
