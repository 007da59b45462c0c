//! `headwater flush` and `headwater inspect`.

use std::fs;

use crate::support::{Home, run};

#[test]
fn flush_turns_the_wal_into_sstables_and_says_so() {
    let home = Home::with_table(&["--bucket", "id:2"]);
    let file = home.parquet("rows.parquet", 0..40);
    run(&["ingest", &home.table(), &file, "--no-flush"]).ok();
    let ended = run(&["flush", &home.table()]).ok();
    assert!(ended.stdout.contains("2 shards") && ended.stdout.contains("40 rows"), "{ended:?}");
    assert!(ended.stdout.contains("2 SSTables"), "{ended:?}");
    let ended = run(&["flush", &home.table()]).ok();
    assert!(ended.stdout.contains("0 SSTables"), "nothing is left to flush: {ended:?}");
}

#[test]
fn flush_of_an_empty_table_does_nothing() {
    let home = Home::with_table(&[]);
    let ended = run(&["flush", &home.table()]).ok();
    assert!(ended.stdout.contains("0 shards"), "{ended:?}");
}

#[test]
fn inspect_for_people_shows_shards_wal_sstables_and_left_overs() {
    let home = Home::with_table(&["--bucket", "id:2"]);
    let file = home.parquet("rows.parquet", 0..40);
    run(&["ingest", &home.table(), &file]).ok();
    run(&["ingest", &home.table(), &file, "--no-flush"]).ok();
    let report = home.inspect();
    let shard = report["shards"][0]["id"].as_str().unwrap().to_owned();
    let sstable = report["shards"][0]["sstables"][0]["path"].as_str().unwrap().to_owned();
    fs::write(home.path("table/_mem_wal").join(&shard).join("wal/notes.txt"), "?").unwrap();

    let text = run(&["inspect", &home.table()]).ok().stdout;
    for part in
        [&home.table(), &shard, &sstable, "2 buckets", "epoch", "not yet flushed", "left-overs", "notes.txt"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains("PROBLEM"), "{text}");
    assert!(text.contains("1 of them a fence"), "{text}");
    fs::remove_dir_all(home.path("table/_mem_wal").join(&shard).join(&sstable)).unwrap();
    let text = run(&["inspect", &home.table()]).ok().stdout;
    assert!(text.contains("PROBLEM"), "{text}");
}
