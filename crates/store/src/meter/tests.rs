//! Kinds by path, counting, differences.
#![allow(clippy::unwrap_used)]

use headwater_format::coord::{Generation, ManifestVersion, ShardId, WalPosition};
use headwater_format::path;
use uuid::Uuid;

use super::*;

#[test]
fn the_kind_of_an_object_is_told_from_its_path() {
    let shard = ShardId::new(Uuid::from_u128(7));
    let sstable = path::sstable_dir(shard, &path::sstable_name(0xab, Generation::new(3)));
    let cases = [
        (path::wal_path(shard, WalPosition::new(5)), Kind::Wal),
        (path::wal_dir(shard), Kind::Wal),
        (path::manifest_path(shard, ManifestVersion::new(5)), Kind::Manifest),
        (path::manifest_dir(shard), Kind::Manifest),
        (path::version_hint_path(shard), Kind::Hint),
        (format!("{sstable}/data/x.lance"), Kind::Sstable),
        (sstable, Kind::Sstable),
        (path::shard_dir(shard), Kind::Other),
        (path::MEM_WAL_DIR.to_owned(), Kind::Other),
        ("_versions/1.manifest".to_owned(), Kind::Base),
        ("data/x.lance".to_owned(), Kind::Base),
        ("_indices/7/page_data.lance".to_owned(), Kind::Base),
        (String::new(), Kind::Other),
        ("README".to_owned(), Kind::Other),
        ("x/_mem_wal/y/wal/z".to_owned(), Kind::Other),
    ];
    for (path, kind) in cases {
        assert_eq!(Kind::of(&path), kind, "{path}");
    }
}

#[test]
fn requests_failures_and_bytes_are_counted_by_class_and_kind() {
    let meter = Meter::new();
    meter.sent(Request::Put, Kind::Wal, 100);
    meter.sent(Request::Put, Kind::Wal, 50);
    meter.failed(Request::Put, Kind::Wal);
    meter.sent(Request::Get, Kind::Manifest, 0);
    meter.received(Request::Get, Kind::Manifest, 30);
    let before = meter.snapshot();
    assert_eq!(before.get(Request::Put, Kind::Wal), Counts { requests: 2, failed: 1, bytes: 150 });
    assert_eq!(before.of_request(Request::Get), Counts { requests: 1, failed: 0, bytes: 30 });
    assert_eq!(before.of_kind(Kind::Base), Counts::default());
    assert_eq!(before.total(), Counts { requests: 3, failed: 1, bytes: 180 });

    meter.sent(Request::Put, Kind::Wal, 1);
    meter.sent(Request::List, Kind::Other, 0);
    let since = meter.snapshot().since(&before);
    assert_eq!(since.rows.len(), 2, "{since:?}");
    assert_eq!(since.get(Request::Put, Kind::Wal), Counts { requests: 1, failed: 0, bytes: 1 });
    assert_eq!(since.of_request(Request::List).requests, 1);
}

#[test]
fn a_snapshot_is_a_table_and_comes_back_through_serde() {
    let meter = Meter::new();
    meter.sent(Request::Put, Kind::Sstable, 4_096);
    meter.sent(Request::Head, Kind::Base, 0);
    let snapshot = meter.snapshot();
    let table = snapshot.to_string();
    let lines: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines,
        [
            vec!["request", "object", "requests", "failed", "bytes"],
            vec!["put", "sstable", "1", "0", "4096"],
            vec!["head", "base", "1", "0", "0"],
            vec!["all", "all", "2", "0", "4096"],
        ]
    );
    let json = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<MeterSnapshot>(&json).unwrap(), snapshot);
    assert!(
        json.contains(r#"{"request":"put","kind":"sstable","requests":1,"failed":0,"bytes":4096}"#),
        "{json}"
    );
}
