//! The place where all databases are: a directory of this machine, or an object store.
//!
//! Owns: [`Storage`]: which tables a database has, where a table is, taking one away, and whether it answers
//! at all. Does not own: names (`names`), what is in a table.

use std::path::absolute;
use std::sync::Arc;

use futures::StreamExt;
use headwater::{EnvRef, OpenOptions};
use headwater_store::env::EnvExt;
use lance::io::ObjectStore;
use object_store::path::Path;

use crate::error::{Again, ApiError};
use crate::names::{DatabaseId, TABLE_SUFFIX, TableId};

/// Where the databases are.
#[derive(Clone, Debug)]
pub struct Storage {
    root: String,
    base: Path,
    store: Arc<ObjectStore>,
}

impl Storage {
    /// `data` is a path or the URI of an object store, as `s3://bucket/data`.
    ///
    /// # Errors
    /// What is wrong with the address, or what storage says.
    pub async fn open(data: &str, options: &OpenOptions) -> Result<Self, ApiError> {
        let root =
            if data.contains("://") { data.trim_end_matches('/').to_owned() } else { directory(data)? };
        let registry = options.connection.session().store_registry();
        let params = options.connection.store_params(&options.table);
        let opened = ObjectStore::from_uri_and_params(registry, &root, &params).await;
        let (store, base) = opened.map_err(|error| ApiError::lance(&root, error, Again::Harmless))?;
        Ok(Self { root, base, store })
    }

    /// The address of a table.
    pub fn uri(&self, table: &TableId) -> String {
        format!("{}/{}", self.root, table.segments().join("/"))
    }

    /// Names of the tables directly in a database or namespace, in their order.
    ///
    /// # Errors
    /// What storage says.
    pub async fn tables(&self, database: &DatabaseId) -> Result<Vec<String>, ApiError> {
        let found = self.store.read_dir(self.path(&database.segments())).await;
        let found = match found {
            Ok(found) => found,
            Err(lance::Error::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(ApiError::lance(database.name(), error, Again::Harmless)),
        };
        let mut names: Vec<String> =
            found.iter().filter_map(|name| name.strip_suffix(TABLE_SUFFIX)).map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Takes every file of a table away; fine when there is none.
    ///
    /// # Errors
    /// What storage says.
    pub async fn remove(&self, table: &TableId) -> Result<(), ApiError> {
        match self.store.remove_dir_all(self.path(&table.segments())).await {
            Ok(()) | Err(lance::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(ApiError::lance(table.name(), error, Again::Harmless)),
        }
    }

    /// Whether it answers: a directory is read, an object store asked for any object below it.
    ///
    /// # Errors
    /// 503 with the kind of error.
    pub async fn look(&self, env: &EnvRef) -> Result<(), ApiError> {
        let answer = match local(&self.root).map(str::to_owned) {
            Some(root) => {
                let read = env.blocking(move || std::fs::read_dir(root).map(drop)).await;
                read.map_err(|failed| (OTHER, failed.to_string()))
                    .and_then(|read| read.map_err(|error| (kind_of_io(error.kind()), error.to_string())))
            }
            None => match self.store.inner.list(Some(&self.base)).next().await {
                None | Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err((kind_of(&error), error.to_string())),
            },
        };
        answer.map_err(|(kind, error)| {
            tracing::warn!(target: "headwater::server", %error, "storage is not ready");
            ApiError::unavailable(format!("storage: {kind}"), Again::Harmless)
        })
    }

    fn path(&self, segments: &[String]) -> Path {
        segments.iter().fold(self.base.clone(), |path, segment| path.join(segment.as_str()))
    }
}

const MISSING: &str = "the data directory or bucket is not there";
const REFUSED: &str = "it refuses access";
const OTHER: &str = "it does not answer as it should";

fn kind_of_io(kind: std::io::ErrorKind) -> &'static str {
    match kind {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => MISSING,
        std::io::ErrorKind::PermissionDenied => REFUSED,
        _ => OTHER,
    }
}

fn kind_of(error: &object_store::Error) -> &'static str {
    match error {
        object_store::Error::NotFound { .. } => MISSING,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => REFUSED,
        _ => OTHER,
    }
}

/// The path of a directory of this machine.
fn local(root: &str) -> Option<&str> {
    match root.strip_prefix("file://") {
        Some(path) => Some(path),
        None => Some(root).filter(|root| !root.contains("://")),
    }
}

/// A directory that exists, as an absolute path.
fn directory(data: &str) -> Result<String, ApiError> {
    let refused = |error: std::io::Error| ApiError::invalid(format!("data directory {data:?}: {error}"));
    let path = absolute(data).map_err(refused)?;
    std::fs::create_dir_all(&path).map_err(refused)?;
    let path = path.to_str().map(|path| path.trim_end_matches('/').to_owned());
    path.ok_or_else(|| ApiError::invalid(format!("data directory {data:?}: its path is no UTF-8")))
}
