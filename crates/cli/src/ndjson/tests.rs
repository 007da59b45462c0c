#![allow(clippy::unwrap_used)]

use arrow_schema::{DataType, Field};

use super::*;
use crate::reading_in_tests::{self, read_all};

fn reading(batch_rows: usize) -> Reading {
    reading_in_tests::reading(vec![Field::new("name", DataType::Utf8, true)], batch_rows)
}

/// Ids handed over, chunk by chunk, and the error at the end.
fn read(text: &str, batch_rows: usize, skip: u64) -> (Vec<Vec<i64>>, Option<InputError>) {
    let (mut file, skipped) =
        Ndjson::open(text.as_bytes(), "rows.ndjson".into(), &reading(batch_rows), skip).unwrap();
    assert_eq!(skipped, skip);
    read_all(&mut file, skip)
}

#[test]
fn lines_become_batches_and_blank_lines_are_no_rows() {
    let text = "{\"id\":1}\n\n{\"id\":2,\"name\":\"b\"}\n   \n{\"id\":3}";
    assert_eq!(read(text, 2, 0), (vec![vec![1, 2], vec![3]], None));
}

#[test]
fn skipped_rows_are_counted_without_blank_lines() {
    let text = "\n{\"id\":1}\n\n{\"id\":2}\n{\"id\":3}\n";
    assert_eq!(read(text, 10, 2), (vec![vec![3]], None));
}

#[test]
fn rows_before_a_bad_line_are_handed_over_and_the_line_is_named() {
    let cases = [
        ("{\"id\":1}\n{\"id\":2}\n\n{\"id\":\"x\"}\n{\"id\":4}\n", "Int64"),
        ("{\"id\":1}\n{\"id\":2}\n\n{\"id\":3,\n{\"id\":4}\n", "middle of its object"),
        ("{\"id\":1}\n{\"id\":2}\n\n{\"id\":3}{\"id\":4}\n", "exactly one"),
        ("{\"id\":1}\n{\"id\":2}\n\n{\"id\":3,\"nmae\":\"c\"}\n", "no such column"),
        ("{\"id\":1}\n{\"id\":2}\n\n{\"id\":null}\n{\"id\":4}\n", "takes none"),
        ("{\"id\":1}\n{\"id\":2}\n\n{\"name\":\"c\"}\n{\"id\":4}\n", "takes none"),
        ("{\"id\":1}\n{\"id\":2}\n\nnonsense\n", ""),
    ];
    for (text, reason) in cases {
        let (chunks, error) = read(text, 10, 0);
        assert_eq!(chunks, [vec![1, 2]], "{text}");
        let error = error.unwrap();
        assert_eq!((error.row, error.line), (Some(2), Some(4)), "{text}: {error}");
        assert!(error.reason.contains(reason), "{error}");
    }
}

#[test]
fn a_value_that_would_be_stored_as_another_is_named_by_line_and_column() {
    for value in ["1.5", "1.0", "1e3", "\"12\"", "true", "9223372036854775808"] {
        let text = format!("{{\"id\":1}}\n{{\"id\":{value},\"name\":\"b\"}}\n{{\"id\":3}}\n");
        let (chunks, error) = read(&text, 10, 0);
        assert_eq!(chunks, [vec![1]], "{value}");
        let error = error.unwrap();
        assert_eq!((error.line, error.column.as_deref()), (Some(2), Some("id")), "{value}: {error}");
    }
    let (_, error) = read("{\"id\":1,\"name\":12}\n", 10, 0);
    assert_eq!(error.unwrap().column.as_deref(), Some("name"));
}

#[test]
fn a_value_the_decoder_cannot_read_is_named_by_line_and_column() {
    let at = Field::new("at", DataType::Date32, true);
    let fields = vec![Field::new("id", DataType::Int64, false), at];
    let reading = Reading { schema: Arc::new(Schema::new(fields)), ..reading(10) };
    let text = "{\"id\":1,\"at\":\"2024-05-31\"}\n{\"id\":2,\"at\":\"yesterday\"}\n";
    let (mut file, _) = Ndjson::open(text.as_bytes(), "rows.ndjson".into(), &reading, 0).unwrap();
    assert_eq!(file.next().unwrap().unwrap().rows.num_rows(), 1);
    let error = file.next().unwrap_err();
    assert_eq!((error.line, error.column.as_deref()), (Some(2), Some("at")), "{error}");
}

#[test]
fn a_byte_order_mark_at_the_beginning_is_passed_over() {
    let text = "\u{feff}{\"id\":1}\n{\"id\":2}\n";
    assert_eq!(read(text, 10, 0), (vec![vec![1, 2]], None));
    assert_eq!(read(text, 10, 1), (vec![vec![2]], None));
    let schema = schema(text.as_bytes(), "rows.ndjson").unwrap();
    assert_eq!(schema.field(0).name(), "id");
    assert_eq!(read("", 10, 0), (vec![], None), "an empty file has no mark and no rows");
}

#[test]
fn a_bad_first_line_is_an_error_at_once() {
    let (chunks, error) = read("[1]\n{\"id\":2}\n", 10, 0);
    assert!(chunks.is_empty());
    assert_eq!(error.unwrap().line, Some(1));
}

#[test]
fn the_first_of_two_bad_rows_is_named_whatever_its_column() {
    let fields = vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Int64, false)];
    let reading = Reading { schema: Arc::new(Schema::new(fields)), ..reading(10) };
    let text = "{\"a\":1,\"b\":1}\n{\"a\":2}\n{\"b\":3}\n";
    let (mut file, _) = Ndjson::open(text.as_bytes(), "rows.ndjson".into(), &reading, 0).unwrap();
    assert_eq!(file.next().unwrap().unwrap().rows.num_rows(), 1);
    let error = file.next().unwrap_err();
    assert_eq!((error.line, error.column.as_deref()), (Some(2), Some("b")));
}

#[test]
fn columns_are_told_from_the_rows() {
    let schema =
        schema("{\"id\":1,\"x\":1.5}\n{\"id\":2,\"name\":\"b\"}\n".as_bytes(), "rows.ndjson").unwrap();
    assert_eq!(schema.field_with_name("id").unwrap().data_type(), &DataType::Int64);
    assert_eq!(schema.field_with_name("x").unwrap().data_type(), &DataType::Float64);
    assert_eq!(schema.field_with_name("name").unwrap().data_type(), &DataType::Utf8);
}
