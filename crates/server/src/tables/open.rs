//! A table that is open.
//!
//! Owns: [`OpenTable`]: its base at the newest version, and its writer if it has a write tier, which is
//! noticed whoever gave it one. Does not own: reads and writes (`plain`, `spec`). A change begun is made to
//! its end, whatever becomes of the connection that asked for it: half of it would be nobody's.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use headwater::{Connection, EnvRef, OpenOptions, Sharding, Table, TableStats, WriterSpec};
use headwater_lance::has_write_tier;
use lance::Dataset;
use parking_lot::Mutex;
use tokio::sync::RwLock;

use crate::error::{Again, ApiError};
use crate::names::TableId;
use crate::tables::replays::Replays;

/// A table that is open.
#[derive(Debug)]
pub struct OpenTable {
    id: TableId,
    uri: String,
    options: OpenOptions,
    env: EnvRef,
    newest: Mutex<Dataset>,
    tier: RwLock<Option<Arc<Table>>>,
    used: Mutex<Duration>,
    pub(super) replays: Arc<tokio::sync::Mutex<Replays>>,
}

/// What a table is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// An ordinary Lance table, at its newest version.
    Plain(Arc<Dataset>),
    /// One with a write tier.
    Tiered(Arc<Table>),
}

impl OpenTable {
    /// Opens the table at `uri`.
    ///
    /// # Errors
    /// 404 when there is none; otherwise what storage says.
    pub async fn open(
        id: &TableId,
        uri: String,
        options: &OpenOptions,
        env: &EnvRef,
    ) -> Result<Self, ApiError> {
        let opened = options.connection.open_dataset(&uri, &options.table, None).await;
        let dataset = opened.map_err(|error| of_opening(id.name(), &uri, &error))?;
        let (options, env, now) = (options.clone(), Arc::clone(env), env.now());
        Ok(Self {
            id: id.clone(),
            uri,
            options,
            env,
            newest: Mutex::new(dataset),
            tier: RwLock::default(),
            used: Mutex::new(now),
            replays: Arc::default(),
        })
    }

    /// What clients call it.
    pub fn name(&self) -> &str {
        self.id.name()
    }

    /// Where it is.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// What it was opened with.
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// How its storage is reached.
    pub fn connection(&self) -> &Connection {
        &self.options.connection
    }

    /// Clock and tasks.
    pub fn env(&self) -> &EnvRef {
        &self.env
    }

    /// Remembers that it is used now.
    pub(crate) fn touch(&self) {
        *self.used.lock() = self.env.now();
    }

    /// When it was used last.
    pub(crate) fn used(&self) -> Duration {
        *self.used.lock()
    }

    /// What it is now.
    ///
    /// # Errors
    /// 404 when it is gone; otherwise what storage says.
    pub async fn kind(&self) -> Result<Kind, ApiError> {
        if let Some(tier) = self.tier.read().await.clone() {
            return Ok(Kind::Tiered(tier));
        }
        let base = self.base().await?;
        let tiered = has_write_tier(&base).await;
        if !tiered.map_err(|error| of_opening(self.name(), base.uri(), &error))? {
            return Ok(Kind::Plain(base));
        }
        let mut place = self.tier.write().await;
        if let Some(tier) = place.clone() {
            return Ok(Kind::Tiered(tier));
        }
        let opened = Table::open(&self.uri, self.options.clone()).await;
        let tier = Arc::new(opened.map_err(|error| ApiError::tier(self.name(), &error, Again::Harmless))?);
        *place = Some(Arc::clone(&tier));
        Ok(Kind::Tiered(tier))
    }

    /// The base at its newest version.
    ///
    /// # Errors
    /// 404 when it is gone; otherwise what storage says.
    pub async fn base(&self) -> Result<Arc<Dataset>, ApiError> {
        let mut dataset = self.newest.lock().clone();
        let looked = dataset.checkout_latest().await;
        looked.map_err(|error| ApiError::lance(self.name(), error, Again::Harmless))?;
        self.adopt(&dataset);
        Ok(Arc::new(dataset))
    }

    /// One version of the base; the newest when none is named.
    ///
    /// # Errors
    /// 400 when there is no such version; otherwise as [`OpenTable::base`].
    pub async fn base_at(&self, version: Option<u64>) -> Result<Arc<Dataset>, ApiError> {
        let base = self.base().await?;
        at_version(self.name(), base, version).await
    }

    /// The base opened so that its next commit carries `mark`.
    pub(super) async fn marked(&self, mark: Option<&str>) -> Result<Dataset, ApiError> {
        let opened = self.connection().open_dataset(&self.uri, &self.options.table, mark).await;
        opened.map_err(|error| of_opening(self.name(), &self.uri, &error))
    }

    /// Remembers a version that was read or committed, unless a later one is known.
    pub(super) fn adopt(&self, dataset: &Dataset) {
        let mut newest = self.newest.lock();
        if dataset.version_id() >= newest.version_id() {
            *newest = dataset.clone();
        }
    }

    /// Gives the table a write tier. Requests wait meanwhile: there is one writer of a shard, and it is this
    /// one.
    ///
    /// # Errors
    /// 400 when it has one already, or one like this cannot be.
    pub async fn install(&self, sharding: &Sharding, writers: &WriterSpec) -> Result<(), ApiError> {
        let mut place = self.tier.write().await;
        if place.is_some() {
            return Err(ApiError::state(format!("table {:?} has a write tier already", self.name())));
        }
        let installed = Table::init_for(&self.uri, &[], sharding, writers, self.options.clone()).await;
        let tier = installed.map_err(|error| ApiError::tier(self.name(), &error, Again::Harmless))?;
        *place = Some(Arc::new(tier));
        Ok(())
    }

    /// Takes the write tier away, if it holds no row that is not in the base.
    ///
    /// # Errors
    /// 400 when it holds some, or there is no tier.
    pub async fn remove_tier(&self) -> Result<(), ApiError> {
        let mut place = self.tier.write().await;
        let Some(tier) = place.clone() else { return Err(ApiError::no_tier(self.name())) };
        let failed = |error| ApiError::tier(self.name(), &error, Again::Harmless);
        tier.check_folded().await.map_err(failed)?;
        // Closed, whatever comes of it: the next request finds out what the table is.
        *place = None;
        tier.disable().await.map_err(failed)
    }

    /// Numbers about its write tier; none when there is none, or it is just being installed or removed.
    pub fn stats(&self) -> Option<TableStats> {
        Some(self.tier.try_read().ok()?.as_ref()?.stats())
    }

    /// Flushes and closes the writer; says whether everything was flushed.
    pub async fn close(&self) -> bool {
        let Some(tier) = self.tier.read().await.clone() else { return true };
        match tier.close().await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, table = self.name(), "closing");
                false
            }
        }
    }

    /// Lets go of the writer as a crash would: what was acknowledged is in the WAL.
    pub async fn abandon(&self) {
        if let Some(tier) = self.tier.read().await.as_ref() {
            tier.abandon();
        }
    }

    /// Runs `change` to its end, even when whoever waits for it goes away.
    ///
    /// # Errors
    /// Those of `change`; 500 when it panicked.
    pub async fn to_the_end<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (sender, receiver) = oneshot::channel();
        let run = async move {
            // Nobody may want to know any more.
            let _ = sender.send(change.await);
        };
        self.env.spawn("change", run.boxed()).detach();
        let lost = || ApiError::internal("changing a table", &"the change stopped half-way");
        receiver.await.unwrap_or_else(|_| Err(lost()))
    }
}

/// `base` at another version.
///
/// # Errors
/// 400 when there is no such version.
pub async fn at_version(
    name: &str,
    base: Arc<Dataset>,
    version: Option<u64>,
) -> Result<Arc<Dataset>, ApiError> {
    let Some(version) = version.filter(|version| *version != base.version_id()) else { return Ok(base) };
    match base.checkout_version(version).await {
        Ok(dataset) => Ok(Arc::new(dataset)),
        Err(lance::Error::NotFound { .. } | lance::Error::DatasetNotFound { .. }) => Err(ApiError::new(
            http::StatusCode::BAD_REQUEST,
            crate::error::Code::VersionNotFound,
            format!("table {name:?} has no version {version}"),
        )),
        Err(error) => Err(ApiError::lance(name, error, Again::Harmless)),
    }
}

fn of_opening(name: &str, uri: &str, error: &headwater::TableError) -> ApiError {
    match error {
        headwater::TableError::NotFound { path } if path == uri => ApiError::no_table(name),
        error => ApiError::table(name, error, Again::Harmless).named(uri, name),
    }
}
