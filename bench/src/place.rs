//! Where a table of one run lies.
//!
//! Owns: [`Place`] (a directory that is removed afterwards, or a bucket in memory), and what its WAL has come
//! to ([`Wal`]), read in the same way whoever wrote it. Does not own: who writes (`engine`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use headwater_store::{Kind, MeterSnapshot, Request};
use lance_io::object_store::{ObjectStoreParams, WrappingObjectStore};
use tempfile::TempDir;

use crate::bucket::{self, Bucket};
use crate::race::Counts;

/// See the module.
pub enum Place {
    /// A directory of the local disk.
    Disk {
        /// Removed with the place.
        home: TempDir,
        /// Whether ours syncs what it acknowledges. The reference never does.
        fsync: bool,
    },
    /// A bucket in memory, with the milliseconds a request takes once it is slow.
    Bucket {
        /// The bucket.
        bucket: Arc<Bucket>,
        /// Its delay.
        slow_ms: u64,
    },
}

/// WAL entries and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wal {
    /// Objects.
    pub entries: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Wal {
    /// What came after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            entries: self.entries.saturating_sub(earlier.entries),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

impl Place {
    /// A new directory below `parent`.
    pub fn disk(parent: &Path, fsync: bool) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("headwater-bench-").tempdir_in(parent);
        let home = home.with_context(|| format!("no directory can be made in {}", parent.display()))?;
        Ok(Self::Disk { home, fsync })
    }

    /// A new bucket. It answers at once until [`Place::slow`] says otherwise.
    pub fn bucket(slow_ms: u64) -> Self {
        Self::Bucket { bucket: Bucket::new(), slow_ms }
    }

    /// The table's address.
    pub fn uri(&self) -> String {
        match self {
            Self::Disk { home, .. } => table_of(home).display().to_string(),
            Self::Bucket { .. } => bucket::URI.to_owned(),
        }
    }

    /// The directory it lies in, or the place of the bucket: where a server keeps its databases.
    pub fn root(&self) -> String {
        match self {
            Self::Disk { home, .. } => home.path().display().to_string(),
            Self::Bucket { .. } => bucket::ROOT_URI.to_owned(),
        }
    }

    /// Whether ours is to sync.
    pub fn fsync(&self) -> bool {
        matches!(self, Self::Disk { fsync: true, .. })
    }

    /// The layer Lance is to put around its object store.
    pub fn wrapper(&self) -> Option<Arc<dyn WrappingObjectStore>> {
        match self {
            Self::Disk { .. } => None,
            Self::Bucket { bucket, .. } => {
                let wrapper: Arc<dyn WrappingObjectStore> = bucket.clone();
                Some(wrapper)
            }
        }
    }

    /// The same, as the reference takes it.
    pub fn store_params(&self) -> Option<ObjectStoreParams> {
        let wrapper = self.wrapper()?;
        Some(ObjectStoreParams { object_store_wrapper: Some(wrapper), ..ObjectStoreParams::default() })
    }

    /// Requests take their time from here on, or none any more. Nothing to do on disk.
    pub fn slow(&self, slow: bool) {
        if let Self::Bucket { bucket, slow_ms } = self {
            bucket.set_delay(if slow { *slow_ms } else { 0 });
        }
    }

    /// The WAL entries written so far, by all writers.
    pub fn wal(&self) -> Result<Wal> {
        match self {
            Self::Disk { home, .. } => {
                let files = wal_files(&table_of(home))?;
                let bytes = files.iter().map(|(_, bytes)| bytes).sum();
                Ok(Wal { entries: files.len() as u64, bytes })
            }
            Self::Bucket { bucket, .. } => {
                let puts = bucket.requests().get(Request::Put, Kind::Wal);
                Ok(Wal { entries: puts.requests, bytes: puts.bytes })
            }
        }
    }

    /// Every request so far; none on disk, where Lance goes around what could count them.
    pub fn requests(&self) -> MeterSnapshot {
        match self {
            Self::Disk { .. } => MeterSnapshot::default(),
            Self::Bucket { bucket, .. } => bucket.requests(),
        }
    }

    /// Requests since `earlier`, by class and kind of object.
    pub fn requests_since(&self, earlier: &MeterSnapshot) -> Counts {
        let since = self.requests().since(earlier);
        let counted = since.rows.iter().map(|row| {
            // Debug names are the variant names.
            let name = format!("{:?} {:?}", row.request, row.kind).to_lowercase();
            (name, row.counts.requests)
        });
        counted.collect()
    }

    /// Reads so far of anything but data files; see [`Bucket::metadata_reads`].
    pub fn metadata_reads(&self) -> Result<u64> {
        match self {
            Self::Disk { .. } => anyhow::bail!("requests are counted in a bucket only"),
            Self::Bucket { bucket, .. } => Ok(bucket.metadata_reads()),
        }
    }

    /// The bytes of one WAL entry on disk, the largest.
    pub fn largest_entry(&self) -> Result<Vec<u8>> {
        let Self::Disk { home, .. } = self else { anyhow::bail!("only entries on disk are read back") };
        let files = wal_files(&table_of(home))?;
        let (path, _) = files.into_iter().max_by_key(|(_, bytes)| *bytes).context("there is no WAL entry")?;
        fs::read(&path).with_context(|| path.display().to_string())
    }
}

fn table_of(home: &TempDir) -> PathBuf {
    home.path().join("table.lance")
}

/// Files of WAL entries with their sizes. Staging files have other extensions.
fn wal_files(table: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for shard in entries(&table.join("_mem_wal"))? {
        for file in entries(&shard.join("wal"))? {
            if file.extension().is_some_and(|extension| extension == "arrow") {
                let bytes = fs::metadata(&file).with_context(|| file.display().to_string())?.len();
                found.push((file, bytes));
            }
        }
    }
    Ok(found)
}

/// What is in a directory; nothing when there is none.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let listed = match fs::read_dir(directory) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| directory.display().to_string()),
    };
    let paths = listed.map(|entry| entry.map(|entry| entry.path()));
    Ok(paths.collect::<io::Result<Vec<PathBuf>>>()?)
}
