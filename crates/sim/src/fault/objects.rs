//! The objects, which of them a power cut may take away, and what put-if-absent sees.
//!
//! Durability follows a local disk with fsync: a write is durable a moment after it was applied, in any case
//! before anything is answered about it, and makes durable whatever was written into its directory before it,
//! for a directory is synced as a whole. A process that dies in that moment leaves it unsynced. Without fsync
//! nothing is synced.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

/// One object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its bytes.
    pub bytes: Bytes,
    /// Changes with every write.
    pub etag: u64,
    /// When it was written, by the machine's clock.
    pub modified: Duration,
    /// Whether a power cut leaves it.
    pub synced: bool,
    /// What was there before, while this write is not synced.
    previous: Option<Bytes>,
}

/// All objects by path.
#[derive(Debug, Default)]
pub struct Objects {
    map: BTreeMap<String, Object>,
    next_etag: u64,
}

impl Objects {
    /// The object at `path`.
    pub fn get(&self, path: &str) -> Option<&Object> {
        self.map.get(path)
    }

    /// Objects whose path starts with `prefix`, in order.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a String, &'a Object)> + 'a {
        self.map.range(prefix.to_owned()..).take_while(move |(path, _)| path.starts_with(prefix))
    }

    /// Objects after `path` that start with `prefix`.
    pub fn after<'a>(
        &'a self,
        prefix: &'a str,
        path: &str,
    ) -> impl Iterator<Item = (&'a String, &'a Object)> + 'a {
        let from = (std::ops::Bound::Excluded(path.to_owned()), std::ops::Bound::Unbounded);
        self.map.range(from).take_while(move |(path, _)| path.starts_with(prefix))
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Writes an object; false when `create` is set and one is there.
    pub fn put(&mut self, path: &str, bytes: Bytes, create: bool, now: Duration) -> bool {
        if create && self.map.contains_key(path) {
            return false;
        }
        self.next_etag += 1;
        let previous =
            self.map.remove(path).and_then(|old| if old.synced { Some(old.bytes) } else { old.previous });
        let object = Object { bytes, etag: self.next_etag, modified: now, synced: false, previous };
        self.map.insert(path.to_owned(), object);
        true
    }

    /// Makes the write at `path`, and everything already in its directory, durable.
    pub fn sync(&mut self, path: &str) {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let prefix = format!("{directory}/");
        for (path, object) in self.map.range_mut(prefix.clone()..) {
            let Some(name) = path.strip_prefix(&prefix) else { break };
            if !name.contains('/') {
                object.synced = true;
                object.previous = None;
            }
        }
    }

    /// Removes an object, durably.
    pub fn remove(&mut self, path: &str) -> bool {
        self.map.remove(path).is_some()
    }

    /// Takes away unsynced writes as a power cut does: of each directory a suffix, in the order of writing
    /// (its journal is ordered), as long as `keep` says. Returns the paths that vanished.
    pub fn lose_unsynced(&mut self, mut keep: impl FnMut() -> bool) -> Vec<String> {
        let mut unsynced: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
        for (path, object) in self.map.iter().filter(|(_, object)| !object.synced) {
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            unsynced.entry(directory.to_owned()).or_default().push((object.etag, path.clone()));
        }
        let mut lost = Vec::new();
        for (_, mut writes) in unsynced {
            writes.sort_unstable();
            let kept = writes.iter().take_while(|_| keep()).count();
            lost.extend(writes.drain(kept..).map(|(_, path)| path));
        }
        for path in &lost {
            let Some(object) = self.map.remove(path) else { continue };
            if let Some(bytes) = object.previous.clone() {
                let before = Object { bytes, synced: true, previous: None, ..object };
                self.map.insert(path.clone(), before);
            }
        }
        // What survived a power cut is on the disk.
        for object in self.map.values_mut() {
            object.synced = true;
            object.previous = None;
        }
        lost
    }
}
