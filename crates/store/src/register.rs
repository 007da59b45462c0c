//! A register: a record in versions 1, 2, 3, …, each an immutable object written put-if-absent
//! (compare-and-swap).
//!
//! Owns: finding the newest version, writing the next one, the version hint. Does not own: what a record
//! says, nor the fence. The engine fences itself with what it gets here: [`Register::refresh`] costs one
//! request while nothing changed, and [`RegisterWrite::Lost`] hands over the record that won. Keeps: versions
//! are gap-free (P8), a lost answer is never taken for a lost race (P7: each record's bytes are made unique
//! by its write id, so bytes are proof), what cannot be what its name says is [`StoreError::Corrupt`] (P14).
//!
//! The hint is best effort: missing, garbage, stale, too high are all tolerated. A hint that is too low is
//! healed by probing upward, one that points at nothing by listing. Called by the engine's `manifest` and by
//! `inspect`.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use headwater_format::coord::{ManifestVersion, ShardId};
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::version_hint;

use crate::error::StoreError;
use crate::put_once::PutOnce;
use crate::retry::RetryPolicy;
use crate::store::Store;

/// Versions probed one by one before the directory is listed instead.
const PROBES: u32 = 16;
/// Reads of one version before differing damage is believed.
const READS: u32 = 4;

/// What a register holds.
pub trait Record: Clone + Send + Sync + 'static {
    /// Its version: 1, 2, 3, …
    fn version(&self) -> ManifestVersion;

    /// The shard it belongs to.
    fn shard(&self) -> ShardId;

    /// Its bytes, unique to this one write.
    fn encode(&self) -> Bytes;

    /// The record whose bytes these are.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] naming `path`.
    fn decode(path: &str, bytes: &[u8]) -> Result<Self, StoreError>;
}

impl Record for ShardManifest {
    fn version(&self) -> ManifestVersion {
        self.version
    }

    fn shard(&self) -> ShardId {
        self.shard_id
    }

    fn encode(&self) -> Bytes {
        Self::encode(self)
    }

    fn decode(path: &str, bytes: &[u8]) -> Result<Self, StoreError> {
        Self::decode(bytes).map_err(|error| StoreError::corrupt(path, error.to_string()))
    }
}

/// What became of [`Register::write`].
#[derive(Clone, Debug)]
pub enum RegisterWrite<T> {
    /// The version is ours.
    Written,
    /// Somebody else wrote that version.
    Lost {
        /// The newest record now.
        latest: Arc<T>,
    },
    /// Nobody knows. Writing the same record again may tell; writing another may lose to our own.
    Unknown {
        /// The last failure.
        source: StoreError,
    },
}

/// The register of one shard. Cheap to clone.
#[derive(Debug)]
pub struct Register<T> {
    store: Store,
    shard: ShardId,
    /// The newest version a hint was asked for.
    hinted: Arc<AtomicU64>,
    record: PhantomData<fn() -> T>,
}

impl<T> Clone for Register<T> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            shard: self.shard,
            hinted: Arc::clone(&self.hinted),
            record: PhantomData,
        }
    }
}

impl Register<ShardManifest> {
    /// The manifest of `shard`.
    pub fn for_shard(store: Store, shard: ShardId) -> Self {
        Self::new(store, shard)
    }
}

impl<T: Record> Register<T> {
    /// A register in the manifest directory of `shard`.
    pub fn new(store: Store, shard: ShardId) -> Self {
        Self { store, shard, hinted: Arc::new(AtomicU64::new(0)), record: PhantomData }
    }

    /// The shard it belongs to.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The store it lies in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The newest record; `None` when there is no version at all.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the newest version, or one passed on the way, is no such record, or when
    /// a version is missing in between; otherwise what storage said.
    pub async fn load(&self) -> Result<Option<Arc<T>>, StoreError> {
        if let Some(hint) = self.hint().await
            && let Some(record) = self.read(hint).await?
        {
            return self.climb(record).await.map(Some);
        }
        // A listing may be stale, so an empty one is believed only when the first version is missing, too.
        let listed = self.newest_listed().await?;
        let newest = listed.unwrap_or(ManifestVersion::ZERO.next());
        match self.read(newest).await? {
            Some(record) => self.climb(record).await.map(Some),
            None if listed.is_none() => Ok(None),
            None => Err(self.gap(newest)),
        }
    }

    /// The newest record if it is newer than `known`. One request when it is not.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub async fn refresh(&self, known: ManifestVersion) -> Result<Option<Arc<T>>, StoreError> {
        if known == ManifestVersion::ZERO {
            return self.load().await;
        }
        match self.read(known.next()).await? {
            Some(record) => self.climb(record).await.map(Some),
            None => Ok(None),
        }
    }

    /// The record of one version, or `None`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is no record of that version and shard; otherwise what storage said.
    /// Damage is believed only when two reads in a row agree.
    pub async fn read(&self, version: ManifestVersion) -> Result<Option<Arc<T>>, StoreError> {
        let path = path::manifest_path(self.shard, version);
        let mut last: Option<(Bytes, StoreError)> = None;
        for _ in 0..READS {
            let Some(bytes) = self.store.get(&path).await? else { return Ok(None) };
            match self.check(&path, version, &bytes) {
                Ok(record) => return Ok(Some(Arc::new(record))),
                Err(error) if last.as_ref().is_some_and(|(before, _)| *before == bytes) => return Err(error),
                Err(error) => last = Some((bytes, error)),
            }
        }
        Err(last.map_or_else(|| StoreError::corrupt(path, "unreadable"), |(_, error)| error))
    }

    /// Writes `next` as its version, which the caller made the newest one's plus one, and says who won.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when `next` is of another shard, of version 0, or does not read back from its
    /// own bytes; [`StoreError::Corrupt`] when the version that won is no record; otherwise refusals, after
    /// which nothing was written.
    pub async fn write(&self, next: &T) -> Result<RegisterWrite<T>, StoreError> {
        let version = next.version();
        let path = path::manifest_path(self.shard, version);
        let bytes = next.encode();
        if version == ManifestVersion::ZERO {
            return Err(StoreError::invalid(path, "versions start at 1"));
        }
        // What we write must be what everybody can read.
        self.check(&path, version, &bytes).map_err(|error| StoreError::invalid(&path, error.to_string()))?;
        match self.store.put_once(&path, bytes).await? {
            PutOnce::Created => {
                self.write_hint(version).await;
                Ok(RegisterWrite::Written)
            }
            PutOnce::Exists { found } => {
                let winner = self.check(&path, version, &found)?;
                let latest = self.climb(Arc::new(winner)).await?;
                Ok(RegisterWrite::Lost { latest })
            }
            PutOnce::Unknown { source } => Ok(RegisterWrite::Unknown { source }),
        }
    }

    /// The record in `bytes`, if it is what its name says.
    fn check(&self, path: &str, version: ManifestVersion, bytes: &[u8]) -> Result<T, StoreError> {
        let record = T::decode(path, bytes)?;
        if record.version() != version {
            let reason = format!("is version {}, its name says {version}", record.version());
            return Err(StoreError::corrupt(path, reason));
        }
        if record.shard() != self.shard {
            let reason = format!("is of shard {}, its directory of {}", record.shard(), self.shard);
            return Err(StoreError::corrupt(path, reason));
        }
        Ok(record)
    }

    /// Goes up from `record` to the newest version.
    async fn climb(&self, mut record: Arc<T>) -> Result<Arc<T>, StoreError> {
        let mut probes = 0;
        while let Some(next) = self.read(record.version().next()).await? {
            record = next;
            probes += 1;
            if probes % PROBES != 0 {
                continue;
            }
            // Far behind: jump, then go on probing, because a listing may be behind too.
            match self.newest_listed().await? {
                Some(newest) if newest > record.version() => {
                    record = self.read(newest).await?.ok_or_else(|| self.gap(newest))?;
                }
                _ => {}
            }
        }
        Ok(record)
    }

    /// The highest version in a listing, which may be behind.
    async fn newest_listed(&self) -> Result<Option<ManifestVersion>, StoreError> {
        let dir = path::manifest_dir(self.shard);
        let listed = self.store.list(&dir).await?;
        let mut versions: Vec<_> =
            listed.iter().filter_map(|object| version_of(&dir, &object.path)).collect();
        versions.sort_unstable();
        for missing in gaps(&versions) {
            // The listing may be incomplete; only a version that is really not there is a gap.
            if !self.store.exists(&path::manifest_path(self.shard, missing)).await? {
                return Err(self.gap(missing));
            }
        }
        Ok(versions.last().copied())
    }

    fn gap(&self, missing: ManifestVersion) -> StoreError {
        let path = path::manifest_path(self.shard, missing);
        StoreError::corrupt(path, format!("version {missing} is missing although a later one is there"))
    }

    /// Where to begin looking, if there is a readable hint.
    async fn hint(&self) -> Option<ManifestVersion> {
        let path = path::version_hint_path(self.shard);
        match self.best_effort().get(&path).await {
            Ok(bytes) => version_hint::decode(&bytes?),
            Err(error) => {
                tracing::debug!(%path, %error, "cannot read the version hint");
                None
            }
        }
    }

    /// Leaves a hint for whoever loads next. Awaited, so that nothing of a writer goes on after it ended;
    /// tried once, and a failure shows in the meter only.
    async fn write_hint(&self, version: ManifestVersion) {
        let newest = self.hinted.fetch_max(version.get(), Ordering::Relaxed).max(version.get());
        if newest > version.get() {
            return;
        }
        let path = path::version_hint_path(self.shard);
        if let Err(error) = self.best_effort().put(&path, version_hint::encode(version)).await {
            tracing::debug!(%path, %error, "cannot write the version hint");
        }
    }

    /// The same store, trying once.
    fn best_effort(&self) -> Store {
        let once = RetryPolicy { max_attempts: 1, ..self.store.retry() };
        self.store.clone().with_retry(once)
    }
}

/// The version an object directly in `dir` is by its name.
fn version_of(dir: &str, path: &str) -> Option<ManifestVersion> {
    let name = path.strip_prefix(dir)?.strip_prefix('/')?;
    path::parse_manifest_name(name)
}

/// For each hole in ascending `versions`, the first version missing.
fn gaps(versions: &[ManifestVersion]) -> impl Iterator<Item = ManifestVersion> {
    let after = versions.iter().skip(1);
    versions.iter().zip(after).filter(|(low, high)| low.next() < **high).map(|(low, _)| low.next())
}

#[cfg(test)]
mod tests;
