//! Every rule of the auditor is shown to fail on storage that breaks it, and to pass on storage that does
//! not.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Duration;

use bytes::Bytes;
use headwater_engine::ingest::{Ingest, IngestLimits};
use headwater_format::coord::{Epoch, Generation, ManifestVersion, WalPosition};
use headwater_format::path::{manifest_path, wal_path};
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{Compression, encode_rows, encode_sentinel};
use headwater_store::env::Env;

use super::*;
use crate::fault::{Change, Objects};
use crate::history::OpKind;
use crate::table::FileNames;
use crate::world::{ROOT, World, WorldConfig};

/// A shard with two generations flushed and a tail in the WAL, and a copy of its objects to break.
struct Bench {
    world: World,
    objects: Objects,
}

fn bench() -> Bench {
    let mut config = WorldConfig::new(1);
    config.slow_index = Some(Duration::from_millis(1));
    let world = World::new(config);
    let machine = world.machine.clone();
    machine.block_on(async {
        world.create().await.unwrap();
        let writer = world.open("writer", Duration::from_secs(60)).await.unwrap();
        for keys in [vec![1, 2], vec![2, 3]] {
            world.write(&writer, OpKind::Put(keys), false);
            while writer.in_flight.count() > 0 {
                machine.sleep(Duration::from_millis(1)).await;
            }
            world.seal(&writer);
            while writer.in_flight.count() > 0 {
                machine.sleep(Duration::from_millis(1)).await;
            }
        }
        world.write(&writer, OpKind::Put(vec![4]), false);
        while writer.in_flight.count() > 0 {
            machine.sleep(Duration::from_millis(1)).await;
        }
    });
    let mut objects = Objects::default();
    world.store.read(|from| {
        for (path, object) in from.under("") {
            objects.put(path, object.bytes.clone(), false, Duration::ZERO);
        }
    });
    Bench { world, objects }
}

impl Bench {
    /// Shows all objects to a fresh auditor in the order they could have been written; the ids of what it
    /// finds.
    fn audit(&self) -> Vec<&'static str> {
        let audit = Audit::new((*self.world.rows).clone(), self.world.shard, ROOT);
        let mut observer = audit.observer();
        let numbered =
            |path: &str| path.rsplit(['/', '.']).nth(1).and_then(headwater_format::path::parse_rev64);
        let mut paths: Vec<(bool, Option<u64>, String)> = self
            .objects
            .under("")
            .map(|(path, _)| (path.contains("/manifest/"), numbered(path), path.clone()))
            .collect();
        paths.sort();
        for (_, _, path) in &paths {
            observer.changed(&self.objects, Change::Put { path, process: "writer" });
        }
        let mut found: Vec<_> = audit.violations().iter().map(|violation| violation.invariant).collect();
        found.dedup();
        found
    }

    fn put(&mut self, path: &str, bytes: Bytes) {
        self.objects.put(&format!("{ROOT}/{path}"), bytes, false, Duration::ZERO);
    }

    fn remove(&mut self, path: &str) {
        assert!(self.objects.remove(&format!("{ROOT}/{path}")), "{path}");
    }

    fn newest(&self) -> ShardManifest {
        self.world.audit.manifest().unwrap()
    }

    /// Replaces the newest manifest by a changed one.
    fn change(&mut self, change: impl FnOnce(&mut ShardManifest)) {
        let mut manifest = self.newest();
        change(&mut manifest);
        let path = manifest_path(self.world.shard, self.newest().version);
        self.put(&path, manifest.encode());
    }

    /// Files of the newest SSTable.
    fn names(&self) -> FileNames {
        FileNames::new(self.world.shard, &self.newest().sstables.last().unwrap().path)
    }
}

#[test]
fn a_right_shard_passes() {
    let bench = bench();
    assert_eq!(bench.audit(), [""; 0]);
    assert_eq!(bench.world.audit.violations(), []);
    assert_eq!(bench.newest().sstables.len(), 2);
}

#[test]
fn each_missing_file_of_a_named_sstable_breaks_p9() {
    let files: [fn(&FileNames) -> String; 6] = [
        FileNames::data,
        FileNames::deletions,
        FileNames::sidecar,
        FileNames::bloom,
        FileNames::manifest,
        |names| names.index("slow"),
    ];
    for file in files {
        let mut bench = bench();
        let path = file(&bench.names());
        bench.remove(&path);
        assert_eq!(bench.audit(), ["P9"], "{path}");
    }
}

#[test]
fn a_damaged_or_swapped_file_breaks_p9() {
    let mut bench = bench();
    let older = FileNames::new(bench.world.shard, &bench.newest().sstables[0].path);
    let bytes = bench.objects.get(&format!("{ROOT}/{}", older.sidecar())).unwrap().bytes.clone();
    let path = bench.names().sidecar();
    bench.put(&path, bytes);
    assert_eq!(bench.audit(), ["P9"]);
}

#[test]
fn a_cursor_past_rows_no_sstable_holds_breaks_p11() {
    let mut bench = bench();
    bench.change(|manifest| {
        manifest.replay_after = manifest.replay_after.next();
        manifest.last_seen = manifest.last_seen.max(manifest.replay_after);
    });
    assert_eq!(bench.audit(), ["P11"]);
}

#[test]
fn a_cursor_that_stays_behind_its_sstable_breaks_p11() {
    let mut bench = bench();
    bench.change(|manifest| manifest.replay_after = manifest.replay_after.previous());
    assert_eq!(bench.audit(), ["P11"]);
}

#[test]
fn a_generation_that_is_skipped_breaks_p11() {
    let mut bench = bench();
    bench.change(|manifest| manifest.current_generation = manifest.current_generation.next());
    assert_eq!(bench.audit(), ["P11"]);
}

#[test]
fn a_gap_in_the_manifest_versions_breaks_p8() {
    let mut bench = bench();
    let version = ManifestVersion::new(bench.newest().version.get() - 1);
    bench.remove(&manifest_path(bench.world.shard, version));
    assert!(bench.audit().contains(&"P8"));
}

#[test]
fn an_epoch_that_falls_or_leaps_breaks_p7() {
    for change in [0, 3] {
        let mut bench = bench();
        bench.change(|manifest| manifest.writer_epoch = Epoch::new(change));
        assert_eq!(bench.audit(), ["P7"]);
    }
}

#[test]
fn a_manifest_of_another_version_than_its_name_breaks_p9() {
    let mut bench = bench();
    bench.change(|manifest| manifest.version = manifest.version.next());
    assert!(bench.audit().contains(&"P9"));
}

#[test]
fn a_hole_in_the_wal_breaks_p8() {
    let mut bench = bench();
    let sentinel = encode_sentinel(Epoch::new(1)).unwrap();
    let far = wal_path(bench.world.shard, bench.world.audit.tip().plus(2));
    bench.put(&far, sentinel);
    assert_eq!(bench.audit(), ["P8"]);
}

#[test]
fn rows_of_a_lower_epoch_above_a_fence_break_p7_a_late_sentinel_does_not() {
    for (late_sentinel, expected) in [(true, vec![]), (false, vec!["P7"])] {
        let mut bench = bench();
        let (shard, tip) = (bench.world.shard, bench.world.audit.tip());
        bench.put(&wal_path(shard, tip.next()), encode_sentinel(Epoch::new(2)).unwrap());
        let late = if late_sentinel {
            encode_sentinel(Epoch::new(1)).unwrap()
        } else {
            entry(&bench.world, Epoch::new(1))
        };
        bench.put(&wal_path(shard, tip.plus(2)), late);
        assert_eq!(bench.audit(), expected);
    }
}

fn entry(world: &World, epoch: Epoch) -> Bytes {
    let limits = IngestLimits { max_rows: 100, max_bytes: 1 << 20 };
    let ingest = Ingest::new(world.rows.schema(), limits).unwrap();
    let rows = ingest.rows(world.rows.put(77, &[1])).unwrap().batch;
    encode_rows(ingest.schema(), epoch, Generation::new(3), &[rows], Compression::None).unwrap()
}

#[test]
fn an_undecodable_entry_breaks_p9() {
    let mut bench = bench();
    let path = wal_path(bench.world.shard, bench.world.audit.tip().next());
    bench.put(&path, Bytes::from_static(b"not an entry"));
    assert_eq!(bench.audit(), ["P9"]);
}

#[test]
fn deleting_what_nothing_collects_breaks_p10() {
    let bench = bench();
    let mut observer = bench.world.audit.observer();
    let path = format!("{ROOT}/{}", wal_path(bench.world.shard, WalPosition::new(1)));
    observer.changed(&bench.objects, Change::Deleted { path: &path });
    let found: Vec<_> = bench.world.audit.violations().iter().map(|violation| violation.invariant).collect();
    assert_eq!(found, ["P10", "P8"]);
}

#[test]
fn an_entry_written_over_breaks_p7() {
    let bench = bench();
    let mut observer = bench.world.audit.observer();
    let path = format!("{ROOT}/{}", wal_path(bench.world.shard, bench.world.audit.tip()));
    observer.changed(&bench.objects, Change::Put { path: &path, process: "writer" });
    assert!(bench.world.audit.violations().iter().any(|violation| violation.invariant == "P7"));
}
