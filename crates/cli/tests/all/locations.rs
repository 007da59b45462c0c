//! Tables and input files by path and by URI.

use std::path::Path;

use crate::support::{Home, run, run_bare};

#[test]
fn a_file_uri_without_an_absolute_path_is_refused_and_touches_nothing() {
    let home = Home::new();
    let file = home.parquet("rows.parquet", 0..3);
    let table = "file://headwater-test.lance";
    let init = ["init", table, "--schema", &file, "--key", "id"];
    run(&init).failed(1, &[table, "three slashes", "plain path"]);
    run(&["init", table]).failed(1, &["three slashes"]);
    run(&["ingest", table, &file]).failed(1, &["three slashes"]);
    run(&["inspect", table]).failed(1, &["three slashes"]);
    assert!(!Path::new("/headwater-test.lance").exists());
}

#[test]
fn a_table_that_would_be_gone_with_the_command_is_refused() {
    let home = Home::new();
    let file = home.parquet("rows.parquet", 0..3);
    run_bare(&["init", "memory://t.lance", "--schema", &file, "--key", "id"])
        .failed(2, &["memory://t.lance", "gone when this command ends", "a path"]);
}

#[test]
fn a_table_and_its_input_can_be_given_as_file_uris() {
    let home = Home::new();
    let file = home.parquet("a b.parquet", 0..3);
    let columns = format!("file://{}", file.replace(' ', "%20"));
    let table = format!("file://{}", home.table());
    run(&["init", &table, "--schema", &columns, "--key", "id"]).ok();
    run(&["ingest", &table, &columns]).ok();
    home.parquet("part-1.parquet", 3..6);
    run(&["ingest", &home.table(), &format!("file://{}", home.name("part-?.parquet"))]).ok();
    assert_eq!(home.read().len(), 6);
}

#[test]
fn input_that_is_not_on_local_disk_is_refused_saying_what_to_do() {
    let home = Home::with_table(&[]);
    let ingest = |input: &str| run(&["ingest", &home.table(), input]);
    ingest("s3://bucket/rows.parquet").failed(1, &["s3://bucket/rows.parquet", "local disk", "-"]);
    ingest("file://rows.parquet").failed(1, &["file://rows.parquet", "three slashes"]);
    assert_eq!(home.inspect()["shards"], serde_json::json!([]), "nothing was claimed");
}

#[test]
fn an_unknown_scheme_is_named_with_those_there_are() {
    run_bare(&["inspect", "ftp://host/table.lance"])
        .failed(1, &["ftp://", "not supported", "s3://", "file://"])
        .without(&[".rs", ".cargo"]);
}
