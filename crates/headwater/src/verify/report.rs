//! What `verify` found, as plain data.
//!
//! Owns: the JSON contract of `headwater verify --format json`: fields are added, never renamed or removed.
//! Paths are relative to the table's root.

use headwater_lance::{FileFinding, KeyIndexCoverage};
use serde::Serialize;

/// A table, what was checked of it and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Address of the table.
    pub table: String,
    /// Version of the base when the check began.
    pub base_version: u64,
    /// Whether nothing is wrong.
    pub sound: bool,
    /// How much was looked at: a check of nothing finds nothing.
    pub checked: Checked,
    /// The B-trees on key columns of the base. What they do not cover is scanned, and no fault.
    pub key_indexes: Vec<KeyIndexReport>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Shards.
    pub shards: u64,
    /// Versions of shard manifests.
    pub manifests: u64,
    /// WAL entries, sentinels included.
    pub entries: u64,
    /// How many of them are fence sentinels.
    pub sentinels: u64,
    /// Rows in WAL entries, tombstones included.
    pub entry_rows: u64,
    /// SSTables.
    pub sstables: u64,
    /// Rows in their data files, replaced ones and tombstones included.
    pub sstable_rows: u64,
    /// Rows their deletion vectors mark.
    pub replaced_rows: u64,
    /// Rows in them that are deletes.
    pub tombstones: u64,
}

/// A B-tree on a key column of the base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyIndexReport {
    /// Name of the index.
    pub name: String,
    /// Fragments of the base.
    pub fragments: u64,
    /// Those it covers.
    pub covered: u64,
}

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Id of the invariant that does not hold, as `docs/invariants.md` has it.
    pub invariant: String,
    /// Where: an object, or a directory.
    pub path: String,
    /// What was found.
    pub found: String,
    /// What it means and what to do.
    pub advice: String,
}

impl Checked {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            shards: self.shards + other.shards,
            manifests: self.manifests + other.manifests,
            entries: self.entries + other.entries,
            sentinels: self.sentinels + other.sentinels,
            entry_rows: self.entry_rows + other.entry_rows,
            sstables: self.sstables + other.sstables,
            sstable_rows: self.sstable_rows + other.sstable_rows,
            replaced_rows: self.replaced_rows + other.replaced_rows,
            tombstones: self.tombstones + other.tombstones,
        }
    }
}

impl Finding {
    pub(super) fn new(
        invariant: &'static str,
        path: impl Into<String>,
        found: impl Into<String>,
        advice: &str,
    ) -> Self {
        Self {
            invariant: invariant.to_owned(),
            path: path.into(),
            found: found.into(),
            advice: advice.to_owned(),
        }
    }
}

impl From<FileFinding> for Finding {
    fn from(found: FileFinding) -> Self {
        Self::new(found.invariant, found.path, found.found, found.advice)
    }
}

impl From<KeyIndexCoverage> for KeyIndexReport {
    fn from(index: KeyIndexCoverage) -> Self {
        Self { name: index.name, fragments: index.fragments, covered: index.covered }
    }
}
