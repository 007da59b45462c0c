//! Commits that carry a mark, so that whoever asks again can be told that it was done.
//!
//! Owns: [`Connection::open_dataset`], the commit handler that writes a mark into the manifest of a commit,
//! and [`mark_of`]. The mark is the manifest's own field for a version's tag: it is written with the commit
//! or not at all, belongs to that version alone, and readers that do not know it ignore it. Does not own:
//! what is committed, or what marks mean (P12).

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use headwater_engine::table::TableError;
use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance_io::object_store::ObjectStore;
use lance_table::format::{IndexMetadata, Manifest};
use lance_table::io::commit::{
    CommitError, CommitHandler, ManifestLocation, ManifestNamingScheme, ManifestWriter,
    commit_handler_from_url,
};
use object_store::path::Path;

use crate::error;
use crate::location::normalize;
use crate::table::{Connection, TableOptions, mem_wal_entry, reading};

impl Connection {
    /// Opens the newest version of the table at `uri`, as Lance has it: without its write tier. Commits made
    /// through it carry `mark`, if one is given.
    ///
    /// # Errors
    /// [`TableError::NotFound`] when there is none; otherwise what storage said.
    pub async fn open_dataset(
        &self,
        uri: &str,
        options: &TableOptions,
        mark: Option<&str>,
    ) -> Result<Dataset, TableError> {
        let uri = normalize(uri)?;
        let params = self.store_params(options);
        let mut builder = DatasetBuilder::from_uri(&uri)
            .with_session(Arc::clone(self.session()))
            .with_store_params(params.clone());
        if let Some(mark) = mark {
            let inner = commit_handler_from_url(&uri, &Some(params)).await;
            let inner = inner.map_err(|error| error::of_table(&uri, error))?;
            builder = builder.with_commit_handler(Arc::new(Marking { inner, mark: mark.to_owned() }));
        }
        reading(&uri, builder.load()).await
    }
}

/// Whether this version has a write tier. What it says of it, [`crate::LanceTable::mem_wal`] reads.
///
/// # Errors
/// What storage said.
pub async fn has_write_tier(dataset: &Dataset) -> Result<bool, TableError> {
    let entry = mem_wal_entry(dataset).await.map_err(|error| error::of_table(dataset.uri(), error))?;
    Ok(entry.is_some())
}

/// The mark that the commit of this version carried.
pub fn mark_of(dataset: &Dataset) -> Option<&str> {
    dataset.manifest().tag.as_deref()
}

/// Hands commits on to the table's own handler, marked.
#[derive(Debug)]
struct Marking {
    inner: Arc<dyn CommitHandler>,
    mark: String,
}

#[async_trait]
impl CommitHandler for Marking {
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
        manifest.tag = Some(self.mark.clone());
        self.inner
            .commit(manifest, indices, base_path, object_store, manifest_writer, naming_scheme, transaction)
            .await
    }

    async fn delete(&self, base_path: &Path) -> lance_core::Result<()> {
        self.inner.delete(base_path).await
    }
}
