//! `headwater verify`: what it prints and the exit code.

use std::fs;

use serde_json::Value;

use crate::support::{Home, run};

#[test]
fn a_sound_table_ends_with_0_and_a_broken_one_with_1_naming_what_is_wrong() {
    let home = Home::with_table(&[]);
    let file = home.parquet("rows.parquet", 0..40);
    run(&["ingest", &home.table(), &file]).ok();
    run(&["ingest", &home.table(), &file, "--no-flush"]).ok();
    let sound = run(&["verify", &home.table()]).ok();
    for part in [home.table().as_str(), "1 shard", "1 SSTable with 40 rows", "sound"] {
        assert!(sound.stdout.contains(part), "{part} in {sound:?}");
    }
    assert_eq!(sound.stderr, "", "progress is for terminals");

    let shard = home.inspect()["shards"][0].clone();
    let (id, sstable) = (shard["id"].as_str().unwrap(), shard["sstables"][0]["path"].as_str().unwrap());
    let bloom = format!("_mem_wal/{id}/{sstable}/bloom_filter.bin");
    fs::remove_file(home.path("table").join(&bloom)).unwrap();
    let broken = run(&["verify", &home.table()]).failed(1, &["not sound", "1 finding"]);
    for part in ["BROKEN", "P9", bloom.as_str(), "restore"] {
        assert!(broken.stdout.contains(part), "{part} in {broken:?}");
    }

    let broken = run(&["verify", &home.table(), "--format", "json"]).failed(1, &["not sound"]);
    let report: Value = serde_json::from_str(&broken.stdout).unwrap();
    assert_eq!((&report["sound"], &report["checked"]["sstables"]), (&false.into(), &1.into()));
    let finding = &report["findings"][0];
    assert_eq!((&finding["invariant"], &finding["path"]), (&"P9".into(), &bloom.as_str().into()));
    assert!(finding["advice"].as_str().is_some_and(|advice| !advice.is_empty()));
}

#[test]
fn a_table_without_rows_is_sound_and_said_to_have_none() {
    let home = Home::with_table(&[]);
    for (command, label) in [("verify", "checked"), ("inspect", "shards")] {
        let text = run(&[command, &home.table()]).ok().stdout;
        let line = text.lines().find(|line| line.starts_with(label)).unwrap();
        assert!(line.ends_with("nothing was written yet"), "{text}");
    }
    let report = run(&["verify", &home.table(), "--format", "json"]).ok();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!((&report["sound"], &report["checked"]["shards"]), (&true.into(), &0.into()));
}

#[test]
fn a_table_that_is_not_there_is_named() {
    let home = Home::new();
    run(&["verify", &home.table()]).failed(1, &[&home.table()]);
}
