#![allow(clippy::unwrap_used)]

use std::io::{PipeReader, PipeWriter, Write, pipe};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, Schema};

use super::*;
use crate::csv_file::CsvFile;
use crate::input::{FileReader, Reading};
use crate::ndjson::Ndjson;

/// Long enough that a test would be killed before it is over.
const FOR_EVER: Duration = Duration::MAX;

fn reading(batch_rows: usize) -> Reading {
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let (format, batch_wait) = (None, FOR_EVER);
    Reading { schema, format, batch_rows, batch_wait, skip_rows: 0, csv_delimiter: b',' }
}

/// A flow that waits so long for more, its stop, and where its input is written.
fn flow(wait: Duration, begin: &str) -> (Flow, StopReading, PipeWriter) {
    let (reader, mut writer): (PipeReader, PipeWriter) = pipe().unwrap();
    writer.write_all(begin.as_bytes()).unwrap();
    let stop = StopReading::default();
    (Flow::start(move || Ok(reader), wait, stop.clone()).unwrap(), stop, writer)
}

fn ids(file: &mut dyn FileReader) -> Option<Vec<i64>> {
    let chunk = file.next().unwrap()?;
    Some(chunk.rows.column(0).as_primitive::<Int64Type>().values().to_vec())
}

#[test]
fn whole_rows_do_not_wait_for_one_that_is_slow_to_come() {
    let (flow, _, mut writer) = flow(TICK, "{\"id\":1}\n{\"id\":2}\n{\"id\":");
    let mut file = Ndjson::open(flow, "pipe".into(), &reading(100), 0).unwrap().0;
    assert_eq!(ids(&mut file), Some(vec![1, 2]));
    writer.write_all(b"3}\n").unwrap();
    assert_eq!(ids(&mut file), Some(vec![3]));
    writer.write_all(b"{\"id\":4}").unwrap();
    drop(writer);
    assert_eq!(ids(&mut file), Some(vec![4]), "the last line needs no end");
    assert_eq!(ids(&mut file), None);

    let (flow, _, mut writer) = self::flow(TICK, "id\n1\n2\n\"3");
    let mut file = CsvFile::open(flow, "pipe".into(), &reading(100), 0).unwrap().0;
    assert_eq!(ids(&mut file), Some(vec![1, 2]));
    writer.write_all(b"4\"\n5\n").unwrap();
    assert_eq!(ids(&mut file), Some(vec![34, 5]));
    writer.write_all(b"6").unwrap();
    drop(writer);
    assert_eq!(ids(&mut file), Some(vec![6]));
    assert_eq!(ids(&mut file), None);
}

#[test]
fn a_batch_is_filled_while_input_comes() {
    let (flow, _, writer) = flow(FOR_EVER, "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n");
    let mut file = Ndjson::open(flow, "pipe".into(), &reading(2), 0).unwrap().0;
    assert_eq!(ids(&mut file), Some(vec![1, 2]));
    drop(writer);
    assert_eq!(ids(&mut file), Some(vec![3]));
    assert_eq!(ids(&mut file), None);
}

/// The writer stays: nothing but the stop ends the input.
#[test]
fn after_a_stop_the_whole_rows_that_came_are_read_and_the_cut_one_is_not() {
    let (flow, stop, _writer) = flow(FOR_EVER, "{\"id\":1}\n{\"id\":2}\n{\"id\":3");
    let mut file = Ndjson::open(flow, "pipe".into(), &reading(1), 0).unwrap().0;
    assert_eq!(ids(&mut file), Some(vec![1]));
    stop.set();
    assert_eq!(ids(&mut file), Some(vec![2]));
    assert_eq!(file.next().unwrap_err().line, Some(3), "which is no error of the command");

    let (flow, stop, mut writer) = self::flow(FOR_EVER, "id\n1\n2\n3");
    let mut file = CsvFile::open(flow, "pipe".into(), &reading(1), 0).unwrap().0;
    assert_eq!(ids(&mut file), Some(vec![1]));
    stop.set();
    assert_eq!(ids(&mut file), Some(vec![2]));
    assert_eq!(ids(&mut file), None, "3 may be the beginning of 34");
    // Whoever reads the pipe may have gone already.
    let _ = writer.write_all(b"4\n5\n");
    assert_eq!(ids(&mut file), None, "an end is an end");
}

#[test]
fn a_stop_ends_the_waiting_for_a_first_byte_too() {
    let (mut flow, stop, _writer) = flow(FOR_EVER, "");
    stop.set();
    assert_eq!(flow.begin(4).unwrap(), b"");
}

#[test]
fn the_first_bytes_are_read_again_however_they_came() {
    let (mut flow, _, mut writer) = flow(FOR_EVER, "a");
    assert_eq!(flow.begin(1).unwrap(), b"a");
    writer.write_all(b"bcdef").unwrap();
    drop(writer);
    assert_eq!(flow.begin(4).unwrap(), b"abcd");
    let mut all = String::new();
    flow.read_to_string(&mut all).unwrap();
    assert_eq!(all, "abcdef");
}

#[test]
fn what_cannot_be_opened_or_read_is_told() {
    let gone = || File::open("/nowhere/at/all");
    let mut flow = Flow::start(gone, FOR_EVER, StopReading::default()).unwrap();
    assert_eq!(flow.begin(4).unwrap_err().kind(), ErrorKind::NotFound);
}
