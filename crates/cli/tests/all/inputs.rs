//! CSV and Arrow IPC as input: files and standard input, strict values, and going on after a bad row.

use std::fs;
use std::io::Cursor;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};

use crate::support::{Home, run, run_with};

/// `(id, name)` rows with names of another encoding than the table's.
fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    // A file has one dictionary for all its batches.
    let words = StringArray::from(vec!["name of 0", "name of 1", "name of 2"]);
    let places = Int32Array::from_iter_values(ids.clone().map(|id| (id % 3) as i32));
    let names = DictionaryArray::<Int32Type>::new(places, Arc::new(words));
    let ids = Int64Array::from_iter_values(ids);
    RecordBatch::try_from_iter([("name", Arc::new(names) as _), ("id", Arc::new(ids) as _)]).unwrap()
}

fn ipc_file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Cursor::new(Vec::new()), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap().into_inner()
}

fn ipc_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

/// The ids of the table, sorted.
fn ids(home: &Home) -> Vec<i64> {
    home.read().into_keys().collect()
}

/// As `scan --format csv` prints the table, sorted.
fn lines(home: &Home) -> Vec<String> {
    let text = run(&["scan", &home.table(), "--format", "csv"]).ok().stdout;
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn csv_is_read_by_the_names_in_its_header_with_quotes_nulls_and_a_byte_order_mark() {
    let home = Home::with_table(&[]);
    let text = "\u{feff}name,id\r\n\"a, \"\"b\"\"\",1\r\n,2\r\n\r\n\"over\r\ntwo lines\",3\r\n";
    let file = home.write("rows.csv", text);
    run(&["ingest", &home.table(), &file]).ok();
    let rows = home.read();
    assert_eq!(rows[&1].as_deref(), Some("a, \"b\""));
    assert_eq!(rows[&2], None);
    assert_eq!(rows[&3].as_deref(), Some("over\r\ntwo lines"));
    assert_eq!(rows.len(), 3);
}

#[test]
fn csv_comes_from_standard_input_with_other_delimiters_and_from_several_files() {
    let home = Home::with_table(&[]);
    let ingest = ["ingest", &home.table(), "-", "--input-format", "csv"];
    run_with(&ingest, b"id,name\n1,a\n").ok();
    run_with(&[&ingest[..], &["--csv-delimiter", ";"]].concat(), b"id;name\n2;b,c\n").ok();
    run_with(&[&ingest[..], &["--csv-delimiter", "tab"]].concat(), b"id\tname\n3\td\n").ok();
    let (first, second) = (home.write("a.csv", "id\n4\n5\n"), home.write("b.csv", "name,id\ne,6\nf,7\n"));
    run(&["ingest", &home.table(), &first, &second, "--skip-rows", "1"]).ok();
    assert_eq!(ids(&home), [1, 2, 3, 5, 6, 7]);
    assert_eq!(home.read()[&2].as_deref(), Some("b,c"));
    run(&["ingest", &home.table(), &first, "--csv-delimiter", "::"]).failed(2, &["--csv-delimiter", "ASCII"]);
}

#[test]
fn a_csv_value_that_does_not_fit_is_refused_by_file_line_and_column() {
    let home = Home::with_table(&[]);
    for (id, says) in [
        ("1.5", "\"1.5\" is not written as an integer"),
        ("1e3", "\"1e3\" is not written as an integer"),
        (" 12", "\" 12\" is not written as an integer"),
        ("twelve", "\"twelve\" is not written as an integer"),
        ("9223372036854775808", "out of the range of Int64"),
        ("", "null, where the table takes none"),
    ] {
        let file = home.write("rows.csv", &format!("id,name\n0,a\n1,\"b\nb\"\n{id},c\n"));
        run(&["ingest", &home.table(), &file]).failed(
            1,
            &["rows.csv", "line 5 (row 3)", "column id", says, "2 rows acknowledged", "--skip-rows 3"],
        );
    }
    assert_eq!(ids(&home), [0, 1], "what came before is there, no more");
}

#[test]
fn a_bad_record_can_be_left_out() {
    let home = Home::with_table(&[]);
    let file = home.write("rows.csv", "id,name\n1,a\n2,b,c\n3,d\n");
    run(&["ingest", &home.table(), &file]).failed(1, &["line 3 (row 2)", "3 values", "2 columns"]);
    run(&["ingest", &home.table(), &file, "--skip-rows", "2"]).ok();
    assert_eq!(ids(&home), [1, 3]);
    run(&["ingest", &home.table(), &file, "--skip-rows", "9"]).failed(1, &["only 3 rows", "--skip-rows 9"]);
}

#[test]
fn a_csv_header_that_does_not_fit_is_refused_by_name() {
    let home = Home::with_table(&[]);
    for (text, says) in [
        ("id,nmae\n1,a\n", "nmae"),
        ("id;name\n1;a\n", "--csv-delimiter"),
        ("id,name,id\n1,a,1\n", "twice"),
        ("name\na\n", "column id"),
        ("", "first row"),
    ] {
        let file = home.write("rows.csv", text);
        run(&["ingest", &home.table(), &file]).failed(1, &["rows.csv", says]);
    }
}

#[test]
fn a_table_can_have_the_columns_of_a_csv_file_with_types_told_from_its_rows() {
    let home = Home::new();
    let text = "id,at,price,on,note\n1,2024-05-31T09:30:00,1.5,true,\n2,,2,false,\n";
    let file = home.write("rows.csv", text);
    let ended = run(&["init", &home.table(), "--schema", &file, "--key", "id"]).ok();
    for part in ["first 2 rows", "id Int64", "price Float64", "on Boolean", "note Utf8"] {
        assert!(ended.stderr.contains(part), "{part} in {ended:?}");
    }
    run(&["ingest", &home.table(), &file]).ok();
    assert_eq!(lines(&home), ["1,2024-05-31T09:30:00,1.5,true,", "2,,2.0,false,"]);
    // What a scan prints can be read again.
    let printed = run(&["scan", &home.table(), "--format", "csv"]).ok().stdout;
    run_with(&["ingest", &home.table(), "-", "--input-format", "csv"], printed.as_bytes()).ok();
    assert_eq!(lines(&home).len(), 2);
    let header = home.write("header.csv", "id,name\n");
    run(&["init", &home.name("other"), "--schema", &header]).failed(1, &["header.csv", "no rows"]);
}

#[test]
fn arrow_files_and_streams_are_told_apart_by_their_content_and_dictionaries_become_text() {
    let home = Home::with_table(&[]);
    let batches = [batch(0..40), batch(40..50)];
    fs::write(home.path("file.arrow"), ipc_file(&batches)).unwrap();
    fs::write(home.path("stream.arrow"), ipc_stream(&[batch(50..60)])).unwrap();
    fs::write(home.path("unnamed"), ipc_stream(&[batch(60..70)])).unwrap();
    let files = [home.name("file.arrow"), home.name("stream.arrow"), home.name("unnamed")];
    let [file, stream, unnamed] = &files;
    run(&["ingest", &home.table(), file, stream, unnamed, "--batch-rows", "7"]).ok();
    run_with(&["ingest", &home.table(), "-"], &ipc_stream(&[batch(70..80)])).ok();
    run_with(&["ingest", &home.table(), "-", "--input-format", "arrow"], &ipc_file(&[batch(80..90)])).ok();
    let rows = home.read();
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), (0..90).collect::<Vec<_>>());
    assert!(rows.iter().all(|(id, name)| *name == Some(format!("name of {}", id % 3))), "{rows:?}");
}

#[test]
fn arrow_rows_are_skipped_over_batches_and_counted_over_files() {
    let home = Home::with_table(&[]);
    fs::write(home.path("a.arrow"), ipc_file(&[batch(0..10), batch(10..20)])).unwrap();
    fs::write(home.path("b.arrows"), ipc_stream(&[batch(20..30), batch(30..40)])).unwrap();
    let (first, second) = (home.name("a.arrow"), home.name("b.arrows"));
    let ended =
        run(&["ingest", &home.table(), &first, &second, "--skip-rows", "33", "--format", "json"]).ok();
    assert_eq!(ended.last_event()["skip_rows"], 40);
    assert_eq!(ids(&home), (33..40).collect::<Vec<_>>());
    run(&["ingest", &home.table(), &first, "--skip-rows", "21"]).failed(1, &["only 20 rows"]);
}

#[test]
fn arrow_that_does_not_fit_or_cannot_be_read_is_named() {
    let home = Home::with_table(&[]);
    let floats = Float64Array::from(vec![1.0]);
    let floats = RecordBatch::try_from_iter([("id", Arc::new(floats) as _)]).unwrap();
    fs::write(home.path("floats.feather"), ipc_file(&[floats])).unwrap();
    run(&["ingest", &home.table(), &home.name("floats.feather")])
        .failed(1, &["floats.feather", "column id", "Float64", "Int64"]);
    let text = home.write("text.arrow", "no Arrow at all");
    run(&["ingest", &home.table(), &text]).failed(1, &["text.arrow", "Arrow IPC"]);
    let old = home.write("old.feather", "FEA1 and so on");
    run(&["ingest", &home.table(), &old]).failed(1, &["old.feather", "version 1"]);
    let mut cut = ipc_file(&[batch(0..10)]);
    cut.truncate(cut.len() / 2);
    fs::write(home.path("cut.arrow"), cut).unwrap();
    run(&["ingest", &home.table(), &home.name("cut.arrow")]).failed(1, &["cut.arrow", "Arrow IPC"]);
}

#[test]
fn a_table_can_have_the_columns_of_an_arrow_file_without_its_encodings() {
    let home = Home::new();
    let views = StringViewArray::from(vec!["a long enough text to be elsewhere", "b"]);
    let plain = StringArray::from(vec!["c", "d"]);
    let words: DictionaryArray<Int32Type> = ["e", "e"].into_iter().collect();
    let rows = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![1, 2])) as _),
        ("view", Arc::new(views) as _),
        ("plain", Arc::new(plain) as _),
        ("word", Arc::new(words) as _),
    ]);
    fs::write(home.path("rows.ipc"), ipc_file(&[rows.unwrap()])).unwrap();
    let file = home.name("rows.ipc");
    run(&["init", &home.table(), "--schema", &file, "--key", "id"]).ok();
    run(&["ingest", &home.table(), &file]).ok();
    assert_eq!(lines(&home), ["1,a long enough text to be elsewhere,c,e", "2,b,d,e"]);
}
