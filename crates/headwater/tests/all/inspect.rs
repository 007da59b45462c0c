//! `inspect` shows what is there, claims nothing, and its JSON keeps its form.

use std::fs;

use headwater::Sharding;

use crate::support::{Home, named, rows, tree};

#[tokio::test(flavor = "multi_thread")]
async fn it_claims_nothing_and_writes_nothing() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    let before = tree(&home.path());
    let report = home.inspect().await;
    assert_eq!(tree(&home.path()), before);
    assert_eq!(report.shards.len(), 1);
    table.put(rows(&[(2, "b")])).await.expect("the writer was not disturbed");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_counts_entries_rows_sentinels_and_what_is_not_flushed() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(named(0..10)).await.unwrap();
    table.flush().await.unwrap();
    table.put(named(10..13)).await.unwrap();
    table.abandon();
    let wal = home.shard().await.wal;
    // The first claim of a new shard fences nobody, so it leaves no sentinel.
    assert_eq!((wal.entries, wal.sentinels, wal.rows), (2, 0, 13));
    assert_eq!((wal.unflushed_entries, wal.unflushed_rows), (1, 3));
    let second = home.open().await;
    second.open_shards().await.unwrap();
    second.abandon();
    let wal = home.shard().await.wal;
    assert_eq!((wal.entries, wal.sentinels, wal.rows), (3, 1, 13));
    assert_eq!((wal.first, wal.last), (Some(1), Some(3)));
    assert_eq!((wal.unflushed_entries, wal.unflushed_rows), (2, 3));
    assert!(wal.bytes > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn left_overs_are_shown_with_their_reasons() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    table.close().await.unwrap();
    let shard = home.shard_dir().await;
    assert!(home.shard().await.left_overs.is_empty(), "a clean shard has none");

    let (wal, manifest) = (shard.join("wal"), shard.join("manifest"));
    fs::write(wal.join(format!("{}.arrow.tmp.0badcafe", "01".repeat(32))), b"half").unwrap();
    fs::write(manifest.join(format!("{}.binpb#1", "01".repeat(32))), b"half a manifest").unwrap();
    fs::write(wal.join("notes.txt"), b"?").unwrap();
    fs::create_dir_all(shard.join("0badcafe_gen_1/data")).unwrap();
    fs::write(shard.join("0badcafe_gen_1/data/x.lance"), b"12345").unwrap();
    fs::create_dir_all(shard.join("0badcafe_gen_9")).unwrap();
    fs::write(shard.join("0badcafe_gen_9/bloom_filter.bin"), b"123").unwrap();
    fs::write(home.path().join("_mem_wal/stray"), b"?").unwrap();

    let report = home.inspect().await;
    assert_eq!(report.left_overs.len(), 1);
    assert!(report.left_overs[0].path.ends_with("_mem_wal/stray"));
    let left_overs = &report.shards[0].left_overs;
    let why = |end: &str| {
        let found: Vec<_> = left_overs.iter().filter(|left_over| left_over.path.ends_with(end)).collect();
        assert_eq!(found.len(), 1, "{end} in {left_overs:?}");
        (found[0].bytes, found[0].why.clone())
    };
    assert_eq!(left_overs.len(), 5, "{left_overs:?}");
    assert!(why("0badcafe").1.contains("staging"));
    assert_eq!(why("#1").0, 15);
    assert!(why("#1").1.contains("staging"));
    assert!(why("notes.txt").1.contains("unknown"));
    assert_eq!(why("0badcafe_gen_1").0, 5);
    assert!(why("0badcafe_gen_1").1.contains("compacted"));
    assert!(why("0badcafe_gen_9").1.contains("under way"));
    // So that nobody who killed a writer looks for a failure.
    assert!(["_gen_1", "_gen_9"].iter().all(|end| why(end).1.contains("killed")), "{left_overs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_json_has_the_fields_of_its_contract() {
    let home = Home::new();
    let table = home.create(&Sharding::Bucket { column: "id".to_owned(), num_buckets: 2 }).await;
    table.put(named(0..20)).await.unwrap();
    table.close().await.unwrap();
    let json = serde_json::to_value(home.inspect().await).unwrap();
    assert_eq!(json["table"], home.uri());
    assert_eq!(json["key"], serde_json::json!(["id"]));
    assert_eq!(json["sharding"], serde_json::json!({"kind": "bucket", "column": "id", "num_buckets": 2}));
    let fields = |value: &serde_json::Value, names: &[&str]| {
        for name in names {
            assert!(value.get(name).is_some(), "{name} in {value}");
        }
    };
    for shard in json["shards"].as_array().unwrap() {
        fields(shard, &["id", "values", "manifest", "wal", "sstables", "left_overs"]);
        fields(
            &shard["manifest"],
            &["version", "writer_epoch", "replay_after", "last_seen", "current_generation", "status"],
        );
        fields(&shard["wal"], &["entries", "bytes", "first", "last", "sentinels", "rows"]);
        let sstable = &shard["sstables"][0];
        let names =
            ["generation", "path", "physical_rows", "in_memory_bytes", "primary_key_bytes", "file_bytes"];
        fields(sstable, &names);
        assert!(sstable["file_bytes"].as_u64().unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_not_there_is_an_error() {
    let home = Home::new();
    let env = std::sync::Arc::new(headwater::TokioEnv::new());
    let error =
        headwater::inspect::inspect(&home.uri(), &headwater::TableOptions::default(), env).await.unwrap_err();
    assert!(error.to_string().contains(&home.uri()), "{error}");
}
