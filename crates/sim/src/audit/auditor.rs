//! The observer that keeps the books.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_format::coord::{ManifestVersion, ShardId, WalPosition};
use headwater_format::path::{manifest_dir, parse_manifest_name, parse_wal_name, wal_dir};
use headwater_format::shard_manifest::ShardManifest;
use parking_lot::Mutex;

use super::manifest::check_step;
use super::sstable::{Place, check_sstable};
use super::wal::{Entry, check_entry, read_entry};
use crate::fault::{Change, Objects, Observer};
use crate::rows::{Row, Rows};
use crate::table::FileNames;
use crate::violation::Violation;

/// The books of one shard. Cheap to clone; every clone is the same.
#[derive(Clone, Debug)]
pub struct Audit {
    books: Arc<Mutex<Books>>,
}

#[derive(Debug)]
struct Books {
    rows: Rows,
    shard: ShardId,
    root: String,
    entries: BTreeMap<WalPosition, Entry>,
    manifests: BTreeMap<ManifestVersion, ShardManifest>,
    violations: Vec<Violation>,
}

/// Feeds the books from the store.
#[derive(Debug)]
pub struct Auditor(Audit);

impl Audit {
    /// Books of `shard` of the table below `root`, whose rows are `rows`.
    pub fn new(rows: Rows, shard: ShardId, root: &str) -> Self {
        let books = Books {
            rows,
            shard,
            root: root.to_owned(),
            entries: BTreeMap::new(),
            manifests: BTreeMap::new(),
            violations: Vec::new(),
        };
        Self { books: Arc::new(Mutex::new(books)) }
    }

    /// What the store calls.
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(Auditor(self.clone()))
    }

    /// What was found so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.books.lock().violations.clone()
    }

    /// The WAL as it lies on storage, from position 1.
    pub fn entries(&self) -> Vec<Entry> {
        self.books.lock().entries.values().cloned().collect()
    }

    /// The last position there is; 0 for an empty WAL.
    pub fn tip(&self) -> WalPosition {
        self.books.lock().entries.last_key_value().map_or(WalPosition::ZERO, |(position, _)| *position)
    }

    /// The newest manifest.
    pub fn manifest(&self) -> Option<ShardManifest> {
        self.books.lock().manifests.last_key_value().map(|(_, manifest)| manifest.clone())
    }

    /// Number of manifest versions.
    pub fn versions(&self) -> usize {
        self.books.lock().manifests.len()
    }

    /// Whether the WAL has an entry at `position` now.
    pub fn has_entry(&self, position: WalPosition) -> bool {
        self.books.lock().entries.contains_key(&position)
    }

    /// Notes a violation seen elsewhere.
    pub fn report(&self, violation: Violation) {
        self.books.lock().violations.push(violation);
    }
}

impl Observer for Auditor {
    fn changed(&mut self, objects: &Objects, change: Change<'_>) {
        self.0.books.lock().changed(objects, change);
    }
}

/// What the name of an object says, if it is one the auditor judges.
enum Judged {
    Entry(WalPosition),
    Manifest(ManifestVersion),
}

impl Books {
    fn judge(&self, path: &str) -> Option<Judged> {
        let below = path.strip_prefix(&self.root)?.strip_prefix('/')?;
        let name = |directory: String| below.strip_prefix(&directory)?.strip_prefix('/').map(str::to_owned);
        let entry = name(wal_dir(self.shard)).and_then(|name| parse_wal_name(&name)).map(Judged::Entry);
        entry.or_else(|| {
            name(manifest_dir(self.shard)).and_then(|name| parse_manifest_name(&name)).map(Judged::Manifest)
        })
    }

    fn changed(&mut self, objects: &Objects, change: Change<'_>) {
        let (path, gone) = match change {
            Change::Put { path, .. } => (path, false),
            Change::Deleted { path } | Change::Lost { path } => (path, true),
        };
        let deleted = matches!(change, Change::Deleted { .. });
        match self.judge(path) {
            Some(Judged::Entry(position)) if gone => {
                self.entries.remove(&position);
                self.check_removal(deleted, &format!("WAL entry {position}"));
                if self.entries.contains_key(&position.next()) {
                    let what = format!("WAL entry {position} is gone, the next one is not");
                    self.violations.push(Violation::new("P8", what));
                }
            }
            Some(Judged::Manifest(version)) if gone => {
                self.manifests.remove(&version);
                self.check_removal(deleted, &format!("shard manifest {version}"));
            }
            Some(Judged::Entry(position)) => self.put_entry(objects, path, position),
            Some(Judged::Manifest(version)) => self.put_manifest(objects, path, version),
            None => {}
        }
    }

    /// P10: nothing collects yet, so nothing may be deleted.
    fn check_removal(&mut self, deleted: bool, what: &str) {
        if deleted {
            self.violations.push(Violation::new("P10", format!("{what} was deleted")));
        }
    }

    fn put_entry(&mut self, objects: &Objects, path: &str, position: WalPosition) {
        let Some(object) = objects.get(path) else { return };
        if self.entries.contains_key(&position) {
            self.violations.push(Violation::new("P7", format!("WAL entry {position} was written over")));
        }
        match read_entry(&self.rows, position, object.bytes.clone()) {
            Ok(entry) => {
                self.violations.extend(check_entry(&entry, &self.entries));
                self.entries.insert(position, entry);
            }
            Err(violation) => self.violations.push(violation),
        }
    }

    fn put_manifest(&mut self, objects: &Objects, path: &str, version: ManifestVersion) {
        let Some(object) = objects.get(path) else { return };
        let manifest = match ShardManifest::decode(&object.bytes) {
            Ok(manifest) => manifest,
            Err(error) => {
                let what = format!("manifest {version} is undecodable: {error}");
                self.violations.push(Violation::new("P9", what));
                return;
            }
        };
        if manifest.version != version || manifest.shard_id != self.shard {
            let what = format!("manifest {version} says it is {} of {}", manifest.version, manifest.shard_id);
            self.violations.push(Violation::new("P9", what));
        }
        let before = self.manifests.last_key_value().map(|(_, before)| before.clone());
        self.violations.extend(check_step(before.as_ref(), &manifest));
        self.check_published(objects, before.as_ref(), &manifest);
        self.manifests.insert(version, manifest);
    }

    /// P9, P11, P12: what `next` newly names is complete and holds exactly the rows its cursor newly covers.
    fn check_published(&mut self, objects: &Objects, before: Option<&ShardManifest>, next: &ShardManifest) {
        let known = before.map_or(0, |before| before.sstables.len());
        let from = before.map_or(WalPosition::ZERO, |before| before.replay_after);
        let place = Place { objects, root: &self.root };
        let mut flushed: Vec<Row> = Vec::new();
        for sstable in next.sstables.iter().skip(known) {
            let names = FileNames::new(self.shard, &sstable.path);
            match check_sstable(&place, &self.rows, &names, sstable) {
                Ok(rows) => flushed.extend(rows),
                Err(violation) => {
                    self.violations.push(violation);
                    return;
                }
            }
        }
        let covered = self.entries.range(from.next()..).take_while(|(at, _)| **at <= next.replay_after);
        let logged: Vec<Row> = covered.flat_map(|(_, entry)| entry.rows.iter().flatten()).copied().collect();
        if flushed != logged {
            let what = format!(
                "manifest {}: the cursor moved from {from} to {} over {} rows, the new SSTables hold {}{}",
                next.version,
                next.replay_after,
                logged.len(),
                flushed.len(),
                if flushed.len() == logged.len() { ", others" } else { "" },
            );
            self.violations.push(Violation::new("P11", what));
        }
    }
}
