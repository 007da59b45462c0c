//! Errors name the file, the row or the setting at fault, and the exit code is not zero.

use std::sync::Arc;

use arrow_array::{Float64Array, Int64Array, StringArray};

use crate::support::{Home, ndjson, run, run_bare, run_with};

#[test]
fn a_bad_row_in_the_middle_tells_how_many_came_before_and_how_to_go_on() {
    let home = Home::with_table(&[]);
    let text = format!("{}{{\"id\": \"seventy\"}}\n{}", ndjson(0..70), ndjson(71..100));
    let file = home.write("rows.ndjson", &text);
    let ended = run(&["ingest", &home.table(), &file, "--batch-rows", "20", "--format", "json"])
        .failed(1, &["rows.ndjson", "line 71", "70 rows acknowledged", "--skip-rows 70", "--skip-rows 71"]);
    let last = ended.last_event();
    assert_eq!((&last["event"], &last["rows_acknowledged"]), (&"error".into(), &70.into()));
    assert_eq!(home.read().len(), 70, "what came before is there");

    run(&["ingest", &home.table(), &file, "--skip-rows", "71"]).ok();
    assert_eq!(home.read().len(), 99);
}

#[test]
fn a_null_key_in_a_parquet_file_is_named_by_file_row_and_column() {
    let home = Home::with_table(&[]);
    let ids = Int64Array::from(vec![Some(1), Some(2), None, Some(4)]);
    let names = StringArray::from(vec!["a", "b", "c", "d"]);
    let file = home.parquet_of("rows.parquet", Arc::new(ids), Arc::new(names));
    run(&["ingest", &home.table(), &file])
        .failed(1, &["rows.parquet", "row 3", "column id", "null", "2 rows acknowledged", "--skip-rows 2"]);
    assert_eq!(home.read().len(), 2);
}

#[test]
fn a_type_that_would_lose_values_is_refused_naming_both_types() {
    let home = Home::with_table(&[]);
    let ids = Float64Array::from(vec![1.0, 2.5]);
    let file = home.parquet_of("rows.parquet", Arc::new(ids), Arc::new(StringArray::from(vec!["a", "b"])));
    run(&["ingest", &home.table(), &file]).failed(1, &["rows.parquet", "column id", "Float64", "Int64"]);
}

#[test]
fn an_unknown_column_is_refused_by_name() {
    let home = Home::with_table(&[]);
    let file = home.write("rows.ndjson", "{\"id\": 1, \"nmae\": \"a\"}\n");
    run(&["ingest", &home.table(), &file]).failed(1, &["rows.ndjson", "line 1", "nmae"]);
}

#[test]
fn a_missing_file_or_pattern_is_named_before_anything_is_opened() {
    let home = Home::with_table(&[]);
    run(&["ingest", &home.table(), &home.name("nothing.parquet")]).failed(1, &["nothing.parquet"]);
    run(&["ingest", &home.table(), &home.name("nothing-*.parquet")])
        .failed(1, &["nothing-*.parquet", "no file"]);
    run(&["ingest", &home.table(), &home.name("")]).failed(1, &["directory"]);
    assert_eq!(home.inspect()["shards"], serde_json::json!([]), "nothing was claimed");
}

#[test]
fn a_file_that_is_not_what_its_name_says_is_named() {
    let home = Home::with_table(&[]);
    let text = home.write("rows.parquet", "{\"id\": 1}\n");
    run(&["ingest", &home.table(), &text]).failed(1, &["rows.parquet", "Parquet"]);
    let mystery = home.write("rows.dat", "id,name\n1,a\n");
    run(&["ingest", &home.table(), &mystery]).failed(1, &["rows.dat", "--input-format"]);
}

#[test]
fn an_unknown_setting_is_named_with_the_known_ones_near() {
    let home = Home::with_table(&[]);
    let ingest = |more: &[&str]| run_with(&[&["ingest", &home.table(), "-"], more].concat(), b"");
    ingest(&["--set", "freeze.max_row=10"]).failed(1, &["freeze.max_row", "freeze.max_rows"]);
    ingest(&["--set", "max_rows=10"]).failed(1, &["max_rows", "freeze.max_rows"]);
    ingest(&["--set", "freeze.max_rows=many"]).failed(1, &["freeze.max_rows", "many"]);
    ingest(&["--set", "freeze.max_rows=0"]).failed(1, &["freeze.max_rows"]);
    ingest(&["--set", "freeze.max_rows"]).failed(1, &["freeze.max_rows", "value"]);
    let unknown = home.write("settings.toml", "[freeze]\nmax_rowz = 10\n");
    ingest(&["--settings", &unknown]).failed(1, &["settings.toml", "freeze.max_rowz", "freeze.max_rows"]);
    let broken = home.write("broken.toml", "[freeze\n");
    ingest(&["--settings", &broken]).failed(1, &["broken.toml"]);
    ingest(&["--settings", &home.name("nothing.toml")]).failed(1, &["nothing.toml"]);
}

#[test]
fn wrong_usage_ends_with_two() {
    let home = Home::new();
    run(&["ingest", &home.table()]).failed(2, &["FILE"]);
    run(&["ingest", &home.table(), "-", "--batch-rows", "0"]).failed(2, &["--batch-rows"]);
    run(&["inspect", &home.table(), "--storage-option", "region"]).failed(2, &["region", "KEY=VALUE"]);
    run(&["frobnicate"]).failed(2, &["frobnicate"]);
}

#[test]
fn a_table_that_is_not_there_is_named_by_every_command() {
    let home = Home::new();
    let table = home.table();
    for arguments in [&["ingest", &table, "-"][..], &["flush", &table], &["inspect", &table]] {
        run(arguments).failed(1, &["there is no Lance table at", &table, "headwater init"]);
    }
}

#[test]
fn a_file_is_no_table() {
    let home = Home::new();
    let file = home.parquet("rows.parquet", 0..3);
    for command in ["flush", "inspect"] {
        run(&[command, &file]).failed(1, &[&file, "is a file", "directory"]);
    }
}

#[test]
fn more_rows_to_skip_than_there_are_tell_how_many_there_are() {
    let home = Home::with_table(&[]);
    let file = home.parquet("rows.parquet", 0..100);
    run(&["ingest", &home.table(), &file, "--skip-rows", "101"])
        .failed(1, &["rows.parquet", "only 100 rows", "--skip-rows 101", "no rows were acknowledged"])
        .without(&["to go on from there"]);
}

#[test]
fn an_unknown_storage_option_is_named_with_the_known_ones_near() {
    let home = Home::with_table(&[]);
    let file = home.parquet("rows.parquet", 0..3);
    for command in [&["inspect", &home.table()][..], &["ingest", &home.table(), &file]] {
        let with = |option| run(&[command, &["--storage-option", option]].concat());
        with("region=eu-west-1").failed(2, &["region", "no such option"]);
        with("blocksize=4096").failed(2, &["blocksize", "block_size"]);
        with("block_size=4096").ok();
    }
    let s3 = ["inspect", "s3://bucket/table", "--storage-option", "aws_regoin=eu-west-1"];
    run_bare(&s3).failed(2, &["aws_regoin", "aws_region"]);
}

#[test]
fn no_fsync_and_an_open_endpoint_are_refused_before_anything_is_asked() {
    let s3 = ["inspect", "s3://bucket/table"];
    run(&s3).failed(2, &["--no-fsync", "s3://bucket/table", "local disk"]);
    run_bare(&[&s3[..], &["--storage-option", "endpoint=http://127.0.0.1:1"]].concat())
        .failed(2, &["http://127.0.0.1:1", "allow_http=true"]);
}
