//! The local disk as an object store whose writes are durable when they are acknowledged.
//!
//! Owns: [`local_store`], [`sync_tree`]. Does not own: staging and atomic publishing of files, which is
//! `object_store`'s. On local disk durable means: the file, its directory, and the directories above it are
//! synced (P1). Three things are added to `object_store`'s fsync: directories above an object are synced
//! once by each process even when somebody else made them (they may have died before syncing); an object
//! that is found to exist is reported only after it and its directory are synced; and so is one that a
//! [`DurableRead`] asks for, because a write can be seen before its directory is synced, and whoever got no
//! answer looks it up. So reading own bytes back proves that they stay. Called by `headwater` to open local
//! tables, `sync_tree` by `headwater-lance` before an SSTable is named.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use parking_lot::Mutex;

use crate::durable_read::DurableRead;
use crate::env::{Env, EnvExt, blocking_here};
use crate::error::{NotSynced, StoreError};

const NAME: &str = "LocalDisk";

/// The existing directory `dir` as an object store. With `fsync` a write is acknowledged when it is on stable
/// storage; without, a power cut may take back acknowledged writes, so say so to whoever relies on them.
///
/// # Errors
/// [`StoreError::Invalid`] when `dir` is no directory; otherwise what the operating system said.
pub fn local_store(
    dir: impl AsRef<FsPath>,
    fsync: bool,
) -> std::result::Result<Arc<dyn ObjectStore>, StoreError> {
    let dir = dir.as_ref();
    let shown = || dir.display().to_string();
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(StoreError::invalid(shown(), "not a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::invalid(shown(), "no such directory"));
        }
        Err(error) => return Err(StoreError::from_io(shown(), error)),
    }
    let files = LocalFileSystem::new_with_prefix(dir)
        .map_err(|error| StoreError::other(shown(), error))?
        .with_fsync(fsync);
    if fsync { Ok(Arc::new(LocalDisk { files, rooted: Arc::default() })) } else { Ok(Arc::new(files)) }
}

/// Syncs every file and directory at and below `dir`, then the directories above it, so that a tree written
/// by somebody else survives a power cut. Symbolic links are not followed.
///
/// # Errors
/// [`StoreError::Invalid`] when `dir` does not exist; otherwise what the operating system said, with the
/// path.
pub async fn sync_tree(env: &dyn Env, dir: impl Into<PathBuf>) -> std::result::Result<(), StoreError> {
    let dir = dir.into();
    let shown = dir.display().to_string();
    let synced = env.blocking(move || sync_below(&dir).and_then(|()| sync_above(&dir))).await;
    match synced {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.source.kind() == io::ErrorKind::NotFound => {
            Err(StoreError::invalid(error.path, "no such file or directory"))
        }
        Ok(Err(error)) => Err(StoreError::from_io(error.path, error.source)),
        Err(failed) => Err(StoreError::other(shown, failed)),
    }
}

/// [`LocalFileSystem`] with fsync, and the directories above synced too.
#[derive(Debug)]
struct LocalDisk {
    files: LocalFileSystem,
    /// Directories this process has synced the way up from.
    rooted: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl fmt::Display for LocalDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME}({})", self.files)
    }
}

impl LocalDisk {
    /// Makes the object `location`, if it exists, durable: itself and its directory if `again`, for who
    /// wrote it may not have come to that; the directories above once.
    async fn settle(&self, location: &Path, again: bool) -> Result<()> {
        let file = self.files.path_to_filesystem(location)?;
        let Some(dir) = file.parent().map(FsPath::to_path_buf) else { return Ok(()) };
        let first = !self.rooted.lock().contains(&dir);
        if !first && !again {
            return Ok(());
        }
        let rooted = Arc::clone(&self.rooted);
        let settle = move || -> std::result::Result<(), NotSynced> {
            if std::fs::symlink_metadata(&file).is_err() {
                return Ok(());
            }
            if again {
                sync(&file)?;
            }
            sync(&dir)?;
            if first {
                sync_above(&dir)?;
                rooted.lock().insert(dir);
            }
            Ok(())
        };
        match blocking_here(settle).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::Generic { store: NAME, source: Box::new(error) }),
            Err(failed) => Err(Error::Generic { store: NAME, source: Box::new(failed) }),
        }
    }
}

#[async_trait]
impl ObjectStore for LocalDisk {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let answer = self.files.put_opts(location, payload, options).await;
        // After an error the object may be there all the same, published but not synced.
        self.settle(location, answer.is_err()).await?;
        answer
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let durably = DurableRead::is_asked(&options);
        let found = self.files.get_opts(location, options).await?;
        if durably {
            // Once it is found, not before: it may have been written in between.
            self.settle(location, true).await?;
        }
        Ok(found)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.files.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.files.rename_opts(from, to, options).await
    }
}

/// Syncs one file or directory.
fn sync(path: &FsPath) -> std::result::Result<(), NotSynced> {
    // Directories cannot be opened and synced elsewhere.
    if cfg!(not(unix)) && path.is_dir() {
        return Ok(());
    }
    File::open(path).and_then(|file| file.sync_all()).map_err(|source| not_synced(path, source))
}

/// Syncs `path` and everything below it, children first.
fn sync_below(path: &FsPath) -> std::result::Result<(), NotSynced> {
    let kind = std::fs::symlink_metadata(path).map_err(|source| not_synced(path, source))?.file_type();
    if kind.is_dir() {
        for entry in std::fs::read_dir(path).map_err(|source| not_synced(path, source))? {
            sync_below(&entry.map_err(|source| not_synced(path, source))?.path())?;
        }
    }
    if kind.is_dir() || kind.is_file() { sync(path) } else { Ok(()) }
}

/// Syncs the directories above `dir`. Ends at the first one we may not open: we cannot have changed it.
fn sync_above(dir: &FsPath) -> std::result::Result<(), NotSynced> {
    let dir = std::path::absolute(dir).map_err(|source| not_synced(dir, source))?;
    for above in dir.ancestors().skip(1) {
        match sync(above) {
            Ok(()) => {}
            Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied => break,
            Err(error) if error.source.kind() == io::ErrorKind::ReadOnlyFilesystem => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn not_synced(path: &FsPath, source: io::Error) -> NotSynced {
    NotSynced { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests;
