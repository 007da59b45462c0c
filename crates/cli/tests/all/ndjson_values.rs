//! Values of NDJSON are stored as they are written, or refused by file, line and column.

use crate::support::{Home, ndjson, run, run_with};

#[test]
fn a_value_that_would_be_stored_as_another_is_refused_by_file_line_and_column() {
    let home = Home::with_table(&[]);
    for (id, says) in [
        ("1.5", "1.5 is not written as an integer"),
        ("1.0", "1.0 is not written as an integer"),
        ("1e3", "1e3 is not written as an integer"),
        ("\"12\"", "the string \"12\""),
        ("true", "true"),
        ("9223372036854775808", "out of the range of Int64"),
    ] {
        let file = home.write("rows.ndjson", &format!("{}{{\"id\": {id}}}\n", ndjson(0..2)));
        run(&["ingest", &home.table(), &file]).failed(1, &["rows.ndjson", "line 3", "column id", says]);
    }
    let file = home.write("rows.ndjson", "{\"id\": 7, \"name\": 12}\n");
    run(&["ingest", &home.table(), &file]).failed(1, &["rows.ndjson", "line 1", "column name", "12"]);
    assert_eq!(home.read().into_keys().collect::<Vec<_>>(), [0, 1], "what came before is there, no more");
}

#[test]
fn a_byte_order_mark_at_the_beginning_is_passed_over() {
    let home = Home::new();
    let file = home.write("rows.json", &format!("\u{feff}{}", ndjson(0..3)));
    run(&["init", &home.table(), "--schema", &file, "--key", "id"]).ok();
    run(&["ingest", &home.table(), &file]).ok();
    run_with(&["ingest", &home.table(), "-"], format!("\u{feff}{}", ndjson(3..5)).as_bytes()).ok();
    let unnamed = home.write("rows", &format!("\u{feff}{}", ndjson(5..6)));
    run(&["ingest", &home.table(), &unnamed]).ok();
    assert_eq!(home.read().into_keys().collect::<Vec<_>>(), (0..6).collect::<Vec<_>>());
}
