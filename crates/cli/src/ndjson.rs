//! Rows of a file with one JSON object a line.
//!
//! Owns: splitting into lines, decoding in batches, and finding the line at fault. Does not own: which values
//! a column takes ([`crate::json_values`]). Blank lines are no rows, and a byte order mark at the beginning
//! is passed over. The rows before a bad line are handed over first, so that everything before it can be
//! acknowledged; so are those before a line that is slow to come ([`crate::flow`]). A line that was cut off
//! is a bad one: no part of an object is an object.

use std::io::{self, BufRead, Chain, Cursor, ErrorKind, Read};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::ReaderBuilder;
use arrow_json::reader::infer_json_schema;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};

use crate::convert::Fit;
use crate::flow::Paced;
use crate::input::{Chunk, FileReader, InputError, Reading};
use crate::json_values::{Fault, JsonValues};

/// Longest line, in bytes: a file without line ends is not read into memory whole.
pub const MAX_LINE: u64 = 64 << 20;
/// Rows looked at to find the columns of a file.
pub const INFER_ROWS: usize = 10_000;
/// The byte order mark that some editors put at the beginning of UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// An NDJSON file being read.
#[derive(Debug)]
pub struct Ndjson<R> {
    input: Text<R>,
    name: Arc<str>,
    schema: SchemaRef,
    values: JsonValues,
    fit: Fit,
    batch_rows: usize,
    lines: Lines,
    /// Lines and rows before the lines in hand.
    line: u64,
    row: u64,
    failed: Option<InputError>,
}

/// Lines in hand, one after the other in one buffer, and behind them what came of the next.
#[derive(Debug, Default)]
struct Lines {
    text: Vec<u8>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    text: Range<usize>,
    line: u64,
}

/// What reading a line came to.
enum Came {
    /// A line.
    Line,
    /// Nothing, or a part of a line: no more came for a while.
    Quiet,
    /// The end.
    End,
}

impl Lines {
    /// Lets go of the lines; what came of the next one stays.
    fn clear(&mut self) {
        let end = self.end();
        self.text.drain(..end);
        self.rows.clear();
    }

    /// Where the last line ends.
    fn end(&self) -> usize {
        self.rows.last().map_or(0, |row| row.text.end)
    }

    fn of(&self, row: &Row) -> &[u8] {
        self.text.get(row.text.clone()).unwrap_or_default()
    }

    /// The text of the first `rows` lines.
    fn before(&self, rows: usize) -> &[u8] {
        let end = self.rows.get(rows).map_or(self.end(), |row| row.text.start);
        self.text.get(..end).unwrap_or_default()
    }
}

impl<R: Paced> Ndjson<R> {
    /// Starts reading behind the first `skip` rows; also says how many of these there were.
    ///
    /// # Errors
    /// [`InputError`] when the input cannot be read.
    pub fn open(input: R, name: Arc<str>, reading: &Reading, skip: u64) -> Result<(Self, u64), InputError> {
        // Nulls are judged by `Fit`, which names row and column; so every column may hold them here.
        let fields = reading.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let fit = Fit::new(&name, &schema, &reading.schema)?;
        let input = without_mark(input).map_err(|error| InputError::of_file(&name, error.to_string()))?;
        let mut file = Self {
            input,
            name,
            values: JsonValues::new(schema.fields().clone()),
            schema,
            fit,
            batch_rows: reading.batch_rows,
            lines: Lines::default(),
            line: 0,
            row: 0,
            failed: None,
        };
        while file.row < skip && matches!(file.read_line()?, Came::Line) {
            file.row += file.lines.rows.len() as u64;
            file.lines.clear();
        }
        let skipped = file.row;
        Ok((file, skipped))
    }

    /// Reads one line, or the rest of one; a row unless it is blank.
    fn read_line(&mut self) -> Result<Came, InputError> {
        let start = self.lines.end();
        let room = MAX_LINE - (self.lines.text.len() - start) as u64;
        let read = (&mut self.input).take(room).read_until(b'\n', &mut self.lines.text);
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Came::Quiet),
            Err(error) => return Err(self.at_line(self.line + 1, error.to_string())),
        }
        let text = start..self.lines.text.len();
        if text.is_empty() {
            return Ok(Came::End);
        }
        self.line += 1;
        let line = self.lines.text.get(text.clone()).unwrap_or_default();
        if line.len() as u64 == MAX_LINE && !line.ends_with(b"\n") {
            return Err(self.at_line(self.line, format!("the line is longer than {MAX_LINE} bytes")));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            self.lines.text.truncate(start);
        } else {
            self.lines.rows.push(Row { text, line: self.line });
        }
        Ok(Came::Line)
    }

    fn at_line(&self, line: u64, reason: String) -> InputError {
        InputError { line: Some(line), ..InputError::of_file(&self.name, reason) }
    }

    /// The lines in hand as rows; those before the first bad line, which is then remembered as what failed.
    fn decode(&mut self) -> Result<Option<RecordBatch>, InputError> {
        let rows = self.lines.rows.len();
        if self.lines.rows.iter().all(|row| self.values.check(self.lines.of(row)).is_ok())
            && let Ok(Some(batch)) = decode(&self.schema, self.lines.before(rows), rows)
        {
            return Ok(Some(batch));
        }
        let mut lines = self.lines.rows.iter().enumerate();
        let bad = lines.find_map(|(row, line)| Some((row, line.line, self.fault(self.lines.of(line))?)));
        let Some((row, line, Fault { column, reason })) = bad else {
            return Err(InputError::of_file(
                &self.name,
                "lines that decode one by one do not decode together",
            ));
        };
        let row_in_file = Some(self.row + row as u64);
        let error = InputError { row: row_in_file, column, ..self.at_line(line, reason) };
        if row == 0 {
            return Err(error);
        }
        self.failed = Some(error);
        let good = decode(&self.schema, self.lines.before(row), row);
        good.map_err(|error| InputError::of_file(&self.name, error.to_string()))
    }

    /// What is wrong with one line: a value that does not fit its column, else what the decoder says.
    fn fault(&self, line: &[u8]) -> Option<Fault> {
        let reason = match decode(&self.schema, line, 1) {
            Ok(Some(_)) => None,
            Ok(None) => Some("not exactly one JSON object".to_owned()),
            Err(ArrowError::JsonError(reason)) => Some(reason),
            Err(error) => Some(error.to_string()),
        };
        match (self.values.check(line), reason) {
            (Err(fault @ Fault { column: Some(_), .. }), _) => Some(fault),
            (Err(_), Some(reason)) => Some(Fault { column: None, reason }),
            (Err(fault), None) => Some(fault),
            // It is JSON, so what is wrong is what some value looks like, such as a date.
            (Ok(()), Some(reason)) => Some(Fault { column: self.undecodable(line), reason }),
            (Ok(()), None) => None,
        }
    }

    /// The first column whose value in `line` the decoder does not take.
    fn undecodable(&self, line: &[u8]) -> Option<String> {
        let alone = |field: &Arc<Field>| {
            let builder = ReaderBuilder::new(Arc::new(Schema::new(vec![field.clone()])));
            let mut decoder = builder.with_batch_size(1).build_decoder()?;
            decoder.decode(line)?;
            decoder.flush()
        };
        self.schema.fields().iter().find(|field| alone(field).is_err()).map(|field| field.name().clone())
    }
}

/// Input behind its byte order mark.
pub type Text<R> = Chain<Cursor<Vec<u8>>, R>;

/// `input` without a byte order mark at its beginning.
pub fn without_mark<R: BufRead>(mut input: R) -> io::Result<Text<R>> {
    let mut begin = Vec::with_capacity(BYTE_ORDER_MARK.len());
    (&mut input).take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut begin)?;
    if begin == BYTE_ORDER_MARK {
        begin.clear();
    }
    Ok(Cursor::new(begin).chain(input))
}

impl<R: Paced> FileReader for Ndjson<R> {
    fn next(&mut self) -> Result<Option<Chunk>, InputError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.lines.clear();
        while self.lines.rows.len() < self.batch_rows {
            // Rows in hand do not wait for others that may never come.
            self.input.get_mut().1.hurry(!self.lines.rows.is_empty());
            match self.read_line() {
                Ok(Came::Line) => {}
                Ok(Came::Quiet | Came::End) => break,
                Err(error) if self.lines.rows.is_empty() => return Err(error),
                Err(error) => {
                    self.lines.text.truncate(self.lines.end());
                    self.failed = Some(error);
                    break;
                }
            }
        }
        if self.lines.rows.is_empty() {
            return Ok(None);
        }
        let Some(batch) = self.decode()? else { return Ok(None) };
        let (rows, fault) = self.fit.rows_before_fault(&batch, self.row)?;
        if let Some(fault) = fault {
            let line = self.lines.rows.get(rows.num_rows()).map(|row| row.line);
            let fault = InputError { line, ..fault };
            if rows.num_rows() == 0 {
                return Err(fault);
            }
            self.failed = Some(fault);
        }
        let chunk = Chunk { rows, file: self.name.clone(), first: self.row };
        self.row += chunk.rows.num_rows() as u64;
        Ok(Some(chunk))
    }
}

/// `text` as exactly `rows` rows; none when it holds another number of them.
fn decode(schema: &SchemaRef, text: &[u8], rows: usize) -> Result<Option<RecordBatch>, ArrowError> {
    let builder = ReaderBuilder::new(schema.clone()).with_strict_mode(true);
    // Room for one row too many, which then shows.
    let mut decoder = builder.with_batch_size(rows + 1).build_decoder()?;
    decoder.decode(text)?;
    if decoder.has_partial_record() {
        return Err(ArrowError::JsonError("the line ends in the middle of its object".to_owned()));
    }
    if decoder.len() != rows {
        return Ok(None);
    }
    decoder.flush()
}

/// The columns of an NDJSON file, as its first rows have them. All may hold nulls.
pub fn schema(input: impl BufRead, name: &str) -> Result<Schema, InputError> {
    let untold = |error: String| InputError::of_file(name, format!("its columns cannot be told: {error}"));
    let input = without_mark(input).map_err(|error| untold(error.to_string()))?;
    let (schema, _rows) =
        infer_json_schema(input, Some(INFER_ROWS)).map_err(|error| untold(error.to_string()))?;
    if schema.fields().is_empty() {
        return Err(InputError::of_file(name, "it has no rows to tell its columns from"));
    }
    Ok(schema)
}

#[cfg(test)]
mod tests;
