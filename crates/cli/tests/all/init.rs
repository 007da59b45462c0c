//! `headwater init`.

use crate::support::{Home, run};

#[test]
fn a_new_table_has_the_columns_of_a_parquet_file_and_its_key() {
    let home = Home::new();
    let file = home.parquet("rows.parquet", 0..3);
    let ended = run(&["init", &home.table(), "--schema", &file, "--key", "id"]).ok();
    assert!(ended.stdout.contains("2 columns") && ended.stdout.contains("key id"), "{ended:?}");
    let report = home.inspect();
    assert_eq!(report["key"], serde_json::json!(["id"]));
    assert_eq!(report["sharding"]["kind"], "unsharded");
    assert_eq!(report["shards"], serde_json::json!([]));
}

#[test]
fn a_new_table_has_the_columns_of_an_ndjson_file_and_a_key_of_several_columns() {
    let home = Home::new();
    let file = home.write("rows.jsonl", "{\"a\": 1, \"b\": \"x\", \"c\": 1.5}\n{\"a\": 2, \"b\": \"y\"}\n");
    run(&["init", &home.table(), "--schema", &file, "--key", "b,a", "--bucket", "b:4"]).ok();
    let report = home.inspect();
    assert_eq!(report["key"], serde_json::json!(["b", "a"]));
    assert_eq!(report["sharding"], serde_json::json!({"kind": "bucket", "column": "b", "num_buckets": 4}));
}

#[test]
fn an_existing_table_is_initialised_once() {
    let home = Home::with_table(&[]);
    run(&["init", &home.table()]).failed(1, &["already", &home.table()]);
    let columns = home.name("columns.parquet");
    run(&["init", &home.table(), "--schema", &columns]).failed(1, &["already", &home.table()]);
}

#[test]
fn another_key_than_the_table_has_is_refused_naming_both() {
    let home = Home::with_table(&[]);
    run(&["init", &home.table(), "--key", "name"]).failed(1, &["key of the table is (id)", "key (name)"]);
    run(&["init", &home.table(), "--key", "id"]).failed(1, &["already"]);
}

#[test]
fn without_a_table_and_a_schema_it_says_what_is_missing() {
    let home = Home::new();
    run(&["init", &home.table(), "--key", "id"]).failed(2, &["--schema", &home.table()]);
}

#[test]
fn bad_keys_schemas_and_shardings_are_named() {
    let home = Home::new();
    let file = home.parquet("rows.parquet", 0..3);
    let table = home.table();
    let init = |more: &[&str]| run(&[&["init", &table, "--schema", &file], more].concat());
    init(&["--key", "colour"]).failed(1, &["colour"]);
    init(&["--key", "id", "--bucket", "name:4"]).failed(1, &["name"]);
    init(&["--key", "id", "--bucket", "id"]).failed(2, &["COLUMN:N"]);
    init(&["--key", "id", "--bucket", "id:0"]).failed(1, &["buckets"]);
    let missing = home.name("nothing.parquet");
    run(&["init", &table, "--schema", &missing]).failed(1, &["nothing.parquet"]);
    let text = home.write("text.parquet", "not Parquet");
    run(&["init", &table, "--schema", &text]).failed(1, &["text.parquet", "Parquet"]);
}
