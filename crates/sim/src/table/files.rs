//! Files with a checksum, as objects below the table's root.

use std::sync::Arc;

use bytes::Bytes;
use headwater_engine::table::TableError;
use headwater_store::env::Trace;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

const CHECK_BYTES: usize = 8;

/// The table's objects, for one process.
#[derive(Clone, Debug)]
pub struct Files {
    store: Arc<dyn ObjectStore>,
    root: Path,
}

impl Files {
    /// Objects of `store` below `root`.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path) -> Self {
        Self { store, root }
    }

    /// Writes a new file: one request, no retry. The caller tries again under another name.
    ///
    /// # Errors
    /// [`TableError::Unavailable`]: it may or may not be there.
    pub async fn write(&self, path: &str, bytes: &[u8]) -> Result<u64, TableError> {
        let framed = frame(path, bytes);
        let size = framed.len() as u64;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let result = self.store.put_opts(&self.full(path)?, PutPayload::from_bytes(framed), options).await;
        result.map_err(|error| unavailable(path, &error))?;
        Ok(size)
    }

    /// Reads a file: one request, no retry.
    ///
    /// # Errors
    /// [`TableError::NotFound`], [`TableError::Corrupt`] or [`TableError::Unavailable`].
    pub async fn read(&self, path: &str) -> Result<Bytes, TableError> {
        let answer = self.store.get(&self.full(path)?).await.map_err(|error| match error {
            object_store::Error::NotFound { .. } => TableError::NotFound { path: path.to_owned() },
            error => unavailable(path, &error),
        })?;
        let promised = answer.range.end - answer.range.start;
        let bytes = answer.bytes().await.map_err(|error| unavailable(path, &error))?;
        if bytes.len() as u64 != promised {
            let reason = format!("{} of {promised} bytes arrived", bytes.len());
            return Err(TableError::Unavailable { path: path.to_owned(), reason });
        }
        unframe(path, &bytes)
    }

    /// Names of the directories right below `path`: one request.
    ///
    /// # Errors
    /// [`TableError::Unavailable`].
    pub async fn directories(&self, path: &str) -> Result<Vec<String>, TableError> {
        let full = self.full(path)?;
        let found =
            self.store.list_with_delimiter(Some(&full)).await.map_err(|error| unavailable(path, &error))?;
        Ok(found.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect())
    }

    fn full(&self, path: &str) -> Result<Path, TableError> {
        let joined =
            if self.root.as_ref().is_empty() { path.to_owned() } else { format!("{}/{path}", self.root) };
        Path::parse(joined).map_err(|error| TableError::invalid(error.to_string()))
    }
}

fn unavailable(path: &str, error: &object_store::Error) -> TableError {
    TableError::Unavailable { path: path.to_owned(), reason: error.to_string() }
}

fn checksum(path: &str, bytes: &[u8]) -> u64 {
    let mut trace = Trace::default();
    trace.feed_text(path);
    trace.feed_bytes(bytes);
    trace.value()
}

fn frame(path: &str, bytes: &[u8]) -> Bytes {
    let mut framed = Vec::with_capacity(bytes.len() + CHECK_BYTES);
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(&checksum(path, bytes).to_le_bytes());
    framed.into()
}

/// The bytes of the file at `path` (relative to the table), its checksum verified and taken off.
///
/// # Errors
/// [`TableError::Corrupt`] when they are not what was written there.
pub fn unframe(path: &str, framed: &Bytes) -> Result<Bytes, TableError> {
    let corrupt =
        || TableError::Corrupt { path: path.to_owned(), reason: "the checksum is wrong".to_owned() };
    let at = framed.len().checked_sub(CHECK_BYTES).ok_or_else(corrupt)?;
    let (bytes, check) = (framed.slice(..at), framed.slice(at..));
    if checksum(path, &bytes).to_le_bytes()[..] != check[..] {
        return Err(corrupt());
    }
    Ok(bytes)
}
