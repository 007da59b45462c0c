#![allow(clippy::unwrap_used)]

use std::io::{PipeReader, PipeWriter, Write, pipe};

use super::*;
use crate::csv_file::CsvFile;
use crate::input::FileReader;
use crate::ndjson::Ndjson;
use crate::reading_in_tests::{self, reading};

/// Long enough that a test would be killed before it is over.
const FOR_EVER: Duration = Duration::MAX;

/// A flow that waits so long for more, its stop, and where its input is written.
fn flow(wait: Duration, begin: &str) -> (Flow, StopReading, PipeWriter) {
    let (reader, mut writer): (PipeReader, PipeWriter) = pipe().unwrap();
    writer.write_all(begin.as_bytes()).unwrap();
    let stop = StopReading::default();
    (Flow::start(move || Ok(reader), wait, stop.clone()).unwrap(), stop, writer)
}

/// Rows of a pipe, at most so many at a time.
struct Piped {
    file: Box<dyn FileReader>,
    stop: StopReading,
    writer: PipeWriter,
}

fn ndjson(wait: Duration, batch_rows: usize, begin: &str) -> Piped {
    let (flow, stop, writer) = flow(wait, begin);
    let file = Ndjson::open(flow, "pipe".into(), &reading(Vec::new(), batch_rows), 0).unwrap().0;
    Piped { file: Box::new(file), stop, writer }
}

fn csv(wait: Duration, batch_rows: usize, begin: &str) -> Piped {
    let (flow, stop, writer) = flow(wait, begin);
    let file = CsvFile::open(flow, "pipe".into(), &reading(Vec::new(), batch_rows), 0).unwrap().0;
    Piped { file: Box::new(file), stop, writer }
}

impl Piped {
    fn write(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).unwrap();
    }

    /// Ids of the next rows; none at the end.
    fn ids(&mut self) -> Option<Vec<i64>> {
        self.file.next().unwrap().as_ref().map(reading_in_tests::ids)
    }

    /// The same after the writer has gone, and nothing behind them.
    fn last_ids(self) -> Option<Vec<i64>> {
        let Self { mut file, writer, .. } = self;
        drop(writer);
        let last = file.next().unwrap().as_ref().map(reading_in_tests::ids);
        assert_eq!(file.next().unwrap().map(|chunk| chunk.first), None);
        last
    }
}

#[test]
fn whole_rows_do_not_wait_for_one_that_is_slow_to_come() {
    let cases = [
        (ndjson(TICK, 100, "{\"id\":1}\n{\"id\":2}\n{\"id\":"), "3}\n{\"id\":4}\n", [3, 4], "{\"id\":5}"),
        (csv(TICK, 100, "id\n1\n2\n\"3"), "4\"\n5\n", [34, 5], "5"),
    ];
    for (mut piped, more, ids, last) in cases {
        assert_eq!(piped.ids(), Some(vec![1, 2]));
        piped.write(more);
        assert_eq!(piped.ids(), Some(ids.to_vec()));
        piped.write(last);
        assert_eq!(piped.last_ids(), Some(vec![5]), "the last line needs no end");
    }
}

#[test]
fn a_batch_is_filled_while_input_comes() {
    let mut piped = ndjson(FOR_EVER, 2, "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n");
    assert_eq!(piped.ids(), Some(vec![1, 2]));
    assert_eq!(piped.last_ids(), Some(vec![3]));
}

/// The writer stays: nothing but the stop ends the input.
#[test]
fn after_a_stop_the_whole_rows_that_came_are_read_and_the_cut_one_is_not() {
    let stopped = |mut piped: Piped| {
        assert_eq!(piped.ids(), Some(vec![1]));
        piped.stop.set();
        assert_eq!(piped.ids(), Some(vec![2]));
        piped
    };
    let mut piped = stopped(ndjson(FOR_EVER, 1, "{\"id\":1}\n{\"id\":2}\n{\"id\":3"));
    assert_eq!(piped.file.next().unwrap_err().line, Some(3), "which is no error of the command");
    let mut piped = stopped(csv(FOR_EVER, 1, "id\n1\n2\n3"));
    assert_eq!(piped.ids(), None, "3 may be the beginning of 34");
    // Whoever reads the pipe may have gone already.
    let _ = piped.writer.write_all(b"4\n5\n");
    assert_eq!(piped.ids(), None, "an end is an end");
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
