//! `headwater index`: what it prints, refuses and leaves findable.

use serde_json::Value;

use crate::support::{Home, run};

fn listed(home: &Home) -> Vec<Value> {
    let list = run(&["index", "list", &home.table(), "--format", "json"]).ok();
    serde_json::from_str(&list.stdout).unwrap()
}

#[test]
fn an_index_is_created_listed_and_dropped_and_rows_are_found_all_the_while() {
    let home = Home::with_table(&[]);
    let file = home.parquet("rows.parquet", 0..20);
    run(&["ingest", &home.table(), &file]).ok();
    let count = || run(&["count", &home.table(), "--filter", "name = 'name of 7'"]).ok().stdout;
    assert_eq!(count().trim(), "1");

    let created = run(&["index", "create", &home.table(), "name", "--kind", "bitmap"]).ok();
    assert!(created.stdout.contains("name_idx (bitmap on name)"), "{created:?}");
    assert!(created.stdout.contains("the base has no rows yet"), "all 20 are fresh: {created:?}");
    assert_eq!(count().trim(), "1");
    let indexes = listed(&home);
    let shown: Vec<_> = indexes.iter().map(|index| (&index["name"], &index["kind"])).collect();
    let (key, name) = (Value::from("headwater_key"), Value::from("name_idx"));
    assert_eq!(shown, [(&key, &Value::from("btree")), (&name, &Value::from("bitmap"))]);
    assert_eq!(indexes[1]["columns"], serde_json::json!(["name"]));
    assert_eq!(indexes[1]["unindexed_rows"], 0);
    let people = run(&["index", "list", &home.table()]).ok().stdout;
    assert!(people.contains("unindexed rows") && people.contains("name_idx"), "{people}");

    let dropped = run(&["index", "drop", &home.table(), "name_idx"]).ok();
    assert!(dropped.stdout.contains("name_idx"), "{dropped:?}");
    assert_eq!(listed(&home).len(), 1);
    assert_eq!(count().trim(), "1");
}

#[test]
fn what_cannot_be_is_refused_naming_what_there_is() {
    let home = Home::with_table(&[]);
    let table = home.table();
    run(&["index", "create", &table, "nmae"]).failed(1, &["nmae", "id, name", &table]);
    run(&["index", "create", &table, "name", "--kind", "hash"]).failed(2, &["hash", "btree", "bitmap"]);
    run(&["index", "create", &table, "name", "--name", "headwater_key"]).failed(1, &["already", "on id"]);
    run(&["index", "drop", &table, "nope"]).failed(1, &["nope", "headwater_key"]);
    run(&["index", "drop", &table, "__lance_mem_wal", "--force"]).failed(1, &["write tier itself"]);
    run(&["index", "drop", &table, "headwater_key"]).failed(1, &["by key", "--force"]);
    run(&["index", "drop", &table, "headwater_key", "--force"]).ok();
    assert_eq!(listed(&home), [] as [Value; 0]);
    run(&["index"]).failed(2, &["create", "list", "drop"]);
}
