#![allow(clippy::unwrap_used)]

use arrow_schema::TimeUnit;

use super::*;
use crate::reading_in_tests::{self, read_all};

fn reading(batch_rows: usize) -> Reading {
    let others = vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), true),
        Field::new("raw", DataType::Binary, true),
    ];
    reading_in_tests::reading(others, batch_rows)
}

/// Ids handed over, chunk by chunk, and the error at the end.
fn read(text: &str, batch_rows: usize, skip: u64) -> (Vec<Vec<i64>>, Option<InputError>) {
    let (mut file, skipped) =
        CsvFile::open(text.as_bytes(), "rows.csv".into(), &reading(batch_rows), skip).unwrap();
    assert_eq!(skipped, skip);
    read_all(&mut file, skip)
}

/// Where and what the error of a text is.
fn fault(text: &str, batch_rows: usize) -> (u64, u64, Option<String>, String) {
    let error = read(text, batch_rows, 0).1.unwrap();
    (error.row.unwrap(), error.line.unwrap(), error.column, error.reason)
}

#[test]
fn records_become_batches_whatever_their_line_ends_and_blank_lines_are_no_rows() {
    for text in [
        "id,name\n1,a\n\n2,\"b\nb\"\n3,c",
        "id,name\r\n1,a\r\n\r\n2,\"b\r\nb\"\r\n3,c\r\n",
        "id,name\r1,a\r2,b\r3,c\r",
        "\u{feff}name,id\na,1\n,2\n\"\",3\n\n",
    ] {
        assert_eq!(read(text, 2, 0), (vec![vec![1, 2], vec![3]], None), "{text:?}");
        assert_eq!(read(text, 2, 1), (vec![vec![2, 3]], None), "{text:?}");
    }
}

#[test]
fn a_bad_value_is_named_by_row_line_and_column_behind_the_rows_before_it() {
    let text = "id,name\n1,\"a\na\"\n\n2,b\n3.5,c\n4,d\n";
    for batch_rows in [1, 2, 10] {
        let (chunks, error) = read(text, batch_rows, 0);
        assert_eq!(chunks.concat(), [1, 2], "{batch_rows}");
        let error = error.unwrap();
        assert_eq!((error.row, error.line, error.column.as_deref()), (Some(2), Some(6), Some("id")));
        assert!(error.reason.contains("\"3.5\""), "{error}");
    }
    // And it can be left out.
    assert_eq!(read(text, 10, 3), (vec![vec![4]], None));
}

#[test]
fn what_only_the_decoder_finds_is_named_the_same_way() {
    let text = "id,at\n1,2024-05-31T09:30:00\n2,2024-05-31\n3,2024-13-01T00:00:00\n4,\n";
    let (row, line, column, reason) = fault(text, 10);
    assert_eq!((row, line, column.as_deref()), (2, 4, Some("at")));
    assert!(reason.contains("\"2024-13-01T00:00:00\"") && reason.contains("timestamp"), "{reason}");
    assert_eq!(read(text, 10, 0).0.concat(), [1, 2]);
}

#[test]
fn nulls_where_none_may_be_and_records_of_another_length_are_named() {
    let (row, line, column, reason) = fault("id,name\n1,a\n,b\n", 10);
    assert_eq!((row, line, column.as_deref()), (1, 3, Some("id")));
    assert!(reason.contains("null"), "{reason}");
    for (record, says) in [("2", "1 value,"), ("2,b,c", "3 values,")] {
        let (row, line, column, reason) = fault(&format!("id,name\n1,a\n{record}\n"), 10);
        assert_eq!((row, line, column), (1, 3, None));
        assert!(reason.contains(says) && reason.contains("2 columns"), "{reason}");
    }
}

#[test]
fn a_quote_without_an_end_is_no_value() {
    let error = read("id,name\n1,a\n2,\"b\n3,c\n", 10, 0).1.unwrap();
    assert_eq!(error.line, Some(3));
    assert!(error.reason.contains("quote"), "{error}");
}

#[test]
fn a_header_without_names_with_unknown_or_with_doubled_ones_is_refused() {
    for (text, says) in [
        ("", "empty"),
        ("id,,name\n", "column 2"),
        ("id,name,id\n", "twice"),
        ("id;name\n1;a\n", "--csv-delimiter"),
        ("name\na\n", "id"),
    ] {
        let opened = CsvFile::open(text.as_bytes(), "rows.csv".into(), &reading(10), 0);
        let said = opened.err().unwrap().to_string();
        assert!(said.contains(says), "{text:?}: {said}");
    }
}

#[test]
fn long_and_many_values_find_room() {
    let long = "x".repeat(3 * VALUE_BYTES);
    assert_eq!(read(&format!("id,name\n1,{long}\n2,b\n"), 10, 0), (vec![vec![1, 2]], None));
    let names: Vec<String> = (0..3 * VALUES).map(|place| format!("c{place}")).collect();
    let fields = names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect::<Vec<_>>();
    let reading = Reading { schema: Arc::new(Schema::new(fields)), ..reading(10) };
    let text = format!("{0}\n{0}\n", names.join(","));
    let (mut file, _) = CsvFile::open(text.as_bytes(), "rows.csv".into(), &reading, 0).unwrap();
    let chunk = file.next().unwrap().unwrap();
    assert_eq!((chunk.rows.num_rows(), chunk.rows.num_columns()), (1, 3 * VALUES));
}

#[test]
fn bytes_are_hex_and_a_mark_within_the_file_is_a_character() {
    let text = "name,id,raw\n\u{feff}a,1,1f8b\n";
    let (mut file, _) = CsvFile::open(text.as_bytes(), "rows.csv".into(), &reading(10), 0).unwrap();
    let rows = file.next().unwrap().unwrap().rows;
    assert_eq!(rows.column_by_name("name").unwrap().as_string::<i32>().value(0), "\u{feff}a");
    assert_eq!(rows.column_by_name("raw").unwrap().as_binary::<i32>().value(0), [0x1f, 0x8b]);
}

#[test]
fn types_are_told_from_the_rows_and_a_column_without_values_is_text() {
    let text = "\u{feff}a,b,c,d,e\n1,x,2024-05-31,,1.5\n2,,2024-06-01,,2\n";
    let (schema, rows) = schema(text.as_bytes(), "rows.csv", b',').unwrap();
    let types: Vec<DataType> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
    use DataType::{Date32, Float64, Int64, Utf8};
    assert_eq!((types, rows), (vec![Int64, Utf8, Date32, Utf8, Float64], 2));
}
