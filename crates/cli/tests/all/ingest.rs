//! `headwater ingest`: formats, sources, types, output.

use std::fs;
use std::sync::Arc;

use arrow_array::{Int32Array, LargeStringArray};

use crate::support::{Home, ndjson, run, run_with};

#[test]
fn parquet_and_ndjson_files_and_globs_are_read_in_the_order_of_their_names() {
    let home = Home::with_table(&[]);
    home.parquet("part-1.parquet", 0..100);
    home.parquet("part-2.parquet", 100..200);
    let later = home.write("later.ndjson", "{\"id\": 7, \"name\": \"seven\"}\n{\"id\": 300}\n");
    let glob = home.name("part-*.parquet");
    let ended = run(&["ingest", &home.table(), &glob, &later, "--batch-rows", "30"]).ok();
    assert!(ended.stdout.contains("202 rows acknowledged"), "{ended:?}");
    assert!(ended.stdout.contains("rows/s") && ended.stdout.contains("1 SSTable"), "{ended:?}");
    assert!(ended.stdout.contains("not synced"), "--no-fsync is said: {ended:?}");
    assert_eq!(ended.stderr, "", "no bar without a terminal");

    let rows = home.read();
    assert_eq!(rows.len(), 201);
    assert_eq!(rows[&7].as_deref(), Some("seven"));
    assert_eq!(rows[&300], None);
    assert_eq!(rows[&199].as_deref(), Some("name of 199"));
}

#[test]
fn standard_input_is_read_as_ndjson_or_as_parquet_by_how_it_begins() {
    let home = Home::with_table(&[]);
    run_with(&["ingest", &home.table(), "-"], ndjson(0..50).as_bytes()).ok();
    let parquet = fs::read(home.parquet("rows.parquet", 50..90)).unwrap();
    run_with(&["ingest", &home.table(), "-"], &parquet).ok();
    run_with(&["ingest", &home.table(), "-", "--input-format", "ndjson"], ndjson(90..100).as_bytes()).ok();
    assert_eq!(home.read().into_keys().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

#[test]
fn narrower_types_are_widened_without_loss() {
    let home = Home::with_table(&[]);
    let names = LargeStringArray::from(vec![Some("a"), None]);
    let file = home.parquet_of("narrow.parquet", Arc::new(Int32Array::from(vec![1, 2])), Arc::new(names));
    run(&["ingest", &home.table(), &file]).ok();
    let rows = home.read();
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), [(1, Some("a".to_owned())), (2, None)]);
}

#[test]
fn json_output_is_lines_of_progress_and_a_last_line_with_totals() {
    let home = Home::with_table(&[]);
    let file = home.parquet("rows.parquet", 0..25_000);
    let ended =
        run(&["ingest", &home.table(), &file, "--format", "json", "--set", "freeze.max_rows=10000"]).ok();
    let events: Vec<serde_json::Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (done, progress) = events.split_last().unwrap();
    assert!(progress.len() >= 2, "at least every 10,000 rows: {}", ended.stdout);
    let mut last = 0;
    for event in progress {
        assert_eq!(event["event"], "progress");
        let rows = event["rows_acknowledged"].as_u64().unwrap();
        assert!(rows > last && rows <= 25_000, "{event}");
        assert!(event["bytes"].as_u64().unwrap() >= rows * 16, "{event}");
        last = rows;
    }
    assert_eq!((&done["event"], &done["rows_acknowledged"]), (&"done".into(), &25_000.into()));
    assert!(
        done["seconds"].as_f64().unwrap() > 0.0 && done["rows_per_second"].as_f64().unwrap() > 0.0,
        "{done}"
    );
    assert!(done["puts"].as_u64().unwrap() >= 1, "{done}");
    assert_eq!(done["generations"], 3, "{done}");
    assert_eq!(done["fsync"], false, "{done}");
    assert_eq!(home.inspect()["shards"][0]["sstables"].as_array().unwrap().len(), 3);
}

#[test]
fn without_a_flush_rows_stay_in_the_wal() {
    let home = Home::with_table(&[]);
    let file = home.parquet("rows.parquet", 0..10);
    let ended = run(&["ingest", &home.table(), &file, "--no-flush"]).ok();
    assert!(ended.stdout.contains("1 PUT of WAL entries, 0 SSTables"), "{ended:?}");
    let shard = home.inspect()["shards"][0].clone();
    assert_eq!((&shard["wal"]["unflushed_rows"], &shard["sstables"]), (&10.into(), &serde_json::json!([])));
    assert_eq!(home.read().len(), 10);
}

#[test]
fn rows_spread_over_shards_and_come_back_whole() {
    let home = Home::with_table(&["--bucket", "id:4"]);
    let file = home.parquet("rows.parquet", 0..1000);
    run(&["ingest", &home.table(), &file, "--batch-rows", "50", "--in-flight", "4"]).ok();
    assert_eq!(home.inspect()["shards"].as_array().unwrap().len(), 4);
    assert_eq!(home.read().len(), 1000);
}

#[test]
fn settings_come_from_a_file_and_single_ones_win_over_it() {
    let home = Home::with_table(&[]);
    let file = home.parquet("rows.parquet", 0..100);
    let settings = home.write("settings.toml", "[freeze]\nmax_rows = 10\n[wal]\ncompression = \"zstd\"\n");
    let ingest =
        ["ingest", &home.table(), &file, "--batch-rows", "10", "--format", "json", "--settings", &settings];
    let ended = run(&ingest).ok();
    assert_eq!(ended.last_event()["generations"], 10);
    let ended = run(&[&ingest[..], &["--set", "freeze.max_rows=50"]].concat()).ok();
    assert_eq!(ended.last_event()["generations"], 2);
}

#[test]
fn skipped_rows_are_counted_over_all_files() {
    let home = Home::with_table(&[]);
    let (first, second) = (home.parquet("a.parquet", 0..100), home.write("b.ndjson", &ndjson(100..200)));
    let ended =
        run(&["ingest", &home.table(), &first, &second, "--skip-rows", "150", "--format", "json"]).ok();
    assert_eq!(ended.last_event()["rows_acknowledged"], 50);
    assert_eq!(ended.last_event()["skip_rows"], 200);
    assert_eq!(home.read().into_keys().collect::<Vec<_>>(), (150..200).collect::<Vec<_>>());
    let all = run(&["ingest", &home.table(), &first, "--skip-rows", "100", "--format", "json"]).ok();
    assert_eq!(all.last_event()["rows_acknowledged"], 0);
    run(&["ingest", &home.table(), &first, "--skip-rows", "101"]).failed(1, &["101", "100 rows"]);
}
