//! Commits to the base that go onto exactly the version they were planned on, or not at all.
//!
//! Owns: [`commit_onto`] and the commit handler that refuses any other version (Lance would silently rebase).
//! Does not own: what is committed. Keeps P16: an operation planned on one state of the indexes never meets
//! another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use headwater_engine::table::TableError;
use lance::Dataset;
use lance::dataset::CommitBuilder;
use lance::dataset::transaction::{Operation, Transaction};
use lance_io::object_store::ObjectStore;
use lance_table::format::{IndexMetadata, Manifest};
use lance_table::io::commit::{
    CommitError, CommitHandler, ManifestLocation, ManifestNamingScheme, ManifestWriter,
};
use object_store::path::Path;

use crate::error;

/// How a commit ended.
pub(crate) enum Outcome {
    /// It is the table's newest version.
    Committed(Box<Dataset>),
    /// Somebody else committed first: plan again on the newest version.
    Moved,
    /// The answer was lost: read the newest version and look for the own mark in it.
    Unknown(TableError),
}

/// Commits `operation`, planned on the version `dataset` is at, as the next version.
///
/// # Errors
/// What Lance refused for good, as [`TableError`].
pub(crate) async fn commit_onto(
    dataset: &Dataset,
    handler: &Arc<dyn CommitHandler>,
    operation: Operation,
) -> Result<Outcome, TableError> {
    let planned = dataset.version_id();
    let strict = Arc::new(StrictHandler {
        inner: Arc::clone(handler),
        only: planned.saturating_add(1),
        refused: AtomicBool::new(false),
    });
    let committed = CommitBuilder::new(Arc::new(dataset.clone()))
        .with_commit_handler(Arc::clone(&strict) as Arc<dyn CommitHandler>)
        .with_max_retries(1)
        .with_skip_auto_cleanup(true)
        .execute(Transaction::new(planned, operation, None))
        .await;
    let error = match committed {
        Ok(dataset) => return Ok(Outcome::Committed(Box::new(dataset))),
        Err(error) => error,
    };
    if strict.refused.load(Ordering::Acquire) {
        return Ok(Outcome::Moved);
    }
    use lance_core::Error as E;
    match &error {
        E::CommitConflict { .. }
        | E::RetryableCommitConflict { .. }
        | E::IncompatibleTransaction { .. }
        | E::TooMuchWriteContention { .. } => Ok(Outcome::Moved),
        E::InvalidInput { .. } | E::NotSupported { .. } | E::Schema { .. } => {
            Err(error::of_table(dataset.uri(), error))
        }
        _ => Ok(Outcome::Unknown(error::of_table(dataset.uri(), error))),
    }
}

/// Hands commits of one version on to the table's own handler and refuses every other.
#[derive(Debug)]
struct StrictHandler {
    inner: Arc<dyn CommitHandler>,
    only: u64,
    refused: AtomicBool,
}

#[async_trait]
impl CommitHandler for StrictHandler {
    fn is_version_not_found_definitive(&self) -> bool {
        self.inner.is_version_not_found_definitive()
    }

    fn propagate_commit_error_after_success(&self) -> bool {
        self.inner.propagate_commit_error_after_success()
    }

    async fn resolve_latest_location(
        &self,
        base_path: &Path,
        object_store: &ObjectStore,
    ) -> lance_core::Result<ManifestLocation> {
        self.inner.resolve_latest_location(base_path, object_store).await
    }

    async fn resolve_version_location(
        &self,
        base_path: &Path,
        version: u64,
        object_store: &dyn object_store::ObjectStore,
    ) -> lance_core::Result<ManifestLocation> {
        self.inner.resolve_version_location(base_path, version, object_store).await
    }

    async fn version_exists(
        &self,
        base_path: &Path,
        version: u64,
        object_store: &dyn object_store::ObjectStore,
        naming_scheme: ManifestNamingScheme,
    ) -> lance_core::Result<bool> {
        self.inner.version_exists(base_path, version, object_store, naming_scheme).await
    }

    fn list_detached_manifest_locations<'a>(
        &self,
        base_path: &Path,
        object_store: &'a ObjectStore,
    ) -> BoxStream<'a, lance_core::Result<ManifestLocation>> {
        self.inner.list_detached_manifest_locations(base_path, object_store)
    }

    fn list_manifest_locations<'a>(
        &self,
        base_path: &Path,
        object_store: &'a ObjectStore,
        sorted_descending: bool,
    ) -> BoxStream<'a, lance_core::Result<ManifestLocation>> {
        self.inner.list_manifest_locations(base_path, object_store, sorted_descending)
    }

    fn list_manifest_locations_since<'a>(
        &self,
        base_path: &Path,
        object_store: &'a ObjectStore,
        since_version: u64,
    ) -> BoxStream<'a, lance_core::Result<ManifestLocation>> {
        self.inner.list_manifest_locations_since(base_path, object_store, since_version)
    }

    async fn commit(
        &self,
        manifest: &mut Manifest,
        indices: Option<Vec<IndexMetadata>>,
        base_path: &Path,
        object_store: &ObjectStore,
        manifest_writer: ManifestWriter,
        naming_scheme: ManifestNamingScheme,
        transaction: Option<lance_table::format::Transaction>,
    ) -> Result<ManifestLocation, CommitError> {
        if manifest.version != self.only {
            self.refused.store(true, Ordering::Release);
            return Err(CommitError::CommitConflict);
        }
        self.inner
            .commit(manifest, indices, base_path, object_store, manifest_writer, naming_scheme, transaction)
            .await
    }

    async fn delete(&self, base_path: &Path) -> lance_core::Result<()> {
        self.inner.delete(base_path).await
    }
}
