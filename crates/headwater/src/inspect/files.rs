//! What each object under `_mem_wal/` is, by its name alone.
//!
//! Owns: [`Files`], a sorted inventory of a listing. Pure. Does not own: listing, or looking into an object.
//! Whether an SSTable directory is in use is not in its name: a manifest decides ([`Files`] keeps all of
//! them).

use std::collections::BTreeMap;

use headwater_format::coord::{Generation, ManifestVersion, ShardId, WalPosition};
use headwater_format::path;

use super::report::LeftOver;

/// Why a staging file is a left-over.
const STAGING: &str = "staging file of a write that did not finish";
/// Why an object of an unknown name is a left-over.
const UNKNOWN: &str = "unknown name; ignored";

/// Name of the hint beside the manifests.
const HINT: &str = "version_hint.json";

/// All objects under `_mem_wal/` of a table.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub shards: BTreeMap<ShardId, ShardFiles>,
    pub left_overs: Vec<LeftOver>,
}

/// All objects of one shard.
#[derive(Debug, Default)]
pub(super) struct ShardFiles {
    pub manifests: BTreeMap<ManifestVersion, u64>,
    pub wal: BTreeMap<WalPosition, u64>,
    /// SSTable directories by name.
    pub sstables: BTreeMap<String, Directory>,
    pub left_overs: Vec<LeftOver>,
}

/// An SSTable directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory {
    pub generation: Generation,
    pub bytes: u64,
    pub files: u64,
}

impl Files {
    /// Sorts the objects of a listing, given as paths relative to the table's root with their sizes.
    pub fn sort(objects: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut files = Self::default();
        for (path, bytes) in objects {
            files.add(path, bytes);
        }
        files
    }

    fn add(&mut self, path: String, bytes: u64) {
        let mut parts = path.split('/').skip(1);
        let shard = parts.next().and_then(|name| name.parse::<ShardId>().ok());
        let (Some(shard), Some(kind), Some(name)) = (shard, parts.next(), parts.next()) else {
            let why = if is_staging(&path) { STAGING } else { UNKNOWN };
            self.left_overs.push(LeftOver { path, bytes, why: why.to_owned() });
            return;
        };
        let deeper = parts.next().is_some();
        let files = self.shards.entry(shard).or_default();
        if let Some(why) = files.place(kind, name, deeper, is_staging(&path), bytes) {
            files.left_overs.push(LeftOver { path, bytes, why: why.to_owned() });
        }
    }
}

impl ShardFiles {
    /// Counts one object where it belongs, or says why it belongs nowhere.
    fn place(
        &mut self,
        kind: &str,
        name: &str,
        deeper: bool,
        staging: bool,
        bytes: u64,
    ) -> Option<&'static str> {
        if staging {
            return Some(STAGING);
        }
        if let Some((_, generation)) = path::parse_sstable_name(kind) {
            let new = Directory { generation, bytes: 0, files: 0 };
            let directory = self.sstables.entry(kind.to_owned()).or_insert(new);
            directory.bytes += bytes;
            directory.files += 1;
            return None;
        }
        match (kind, deeper) {
            ("manifest", false) if name == HINT => None,
            ("manifest", false) => match path::parse_manifest_name(name) {
                Some(version) => self.manifests.insert(version, bytes),
                None => return Some(UNKNOWN),
            },
            ("wal", false) => match path::parse_wal_name(name) {
                Some(position) => self.wal.insert(position, bytes),
                None => return Some(UNKNOWN),
            },
            _ => return Some(UNKNOWN),
        };
        None
    }
}

/// Names a write uses before the object has its own: `{name}.tmp.{hex}` and `{name}#{number}`.
fn is_staging(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let numbered =
        name.rsplit_once('#').is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    numbered || name.contains(".tmp.")
}
