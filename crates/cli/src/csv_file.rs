//! Rows of a CSV file below a header.
//!
//! Owns: splitting into records and finding the one at fault ([`CsvFile`]), the columns of a file
//! ([`schema`]). Does not own: which values a column takes ([`crate::csv_values`]), nor CSV: `csv-core` says
//! where records end, and `arrow-csv`, which reads by the same rules, makes arrays of them. Values may be
//! quoted and hold line ends; lines without anything are no rows, and a byte order mark at the beginning is
//! passed over. The rows before a bad record are handed over first, so that everything before it can be
//! acknowledged; so are those before one that is slow to come ([`crate::flow`]). The beginning of a record
//! may look like one, so what was cut off is no record.

use std::io::{BufRead, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_csv::ReaderBuilder;
use arrow_csv::reader::Format;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use csv_core::ReadRecordResult;

use crate::convert::Fit;
use crate::csv_values;
use crate::flow::Paced;
use crate::input::{Chunk, FileReader, InputError, Reading};
use crate::ndjson::{INFER_ROWS, MAX_LINE, Text, without_mark};

/// Room for the values of a record at first, in bytes.
const VALUE_BYTES: usize = 4 << 10;
/// Room for the ends of its values at first.
const VALUES: usize = 64;

/// A CSV file being read.
#[derive(Debug)]
pub struct CsvFile<R> {
    records: Records<R>,
    name: Arc<str>,
    /// The columns of the file in its order, with the types of the table.
    columns: SchemaRef,
    fit: Fit,
    delimiter: u8,
    batch_rows: usize,
    /// The records in hand, one after the other, and behind them what came of the next.
    text: Vec<u8>,
    rows: Vec<Record>,
    /// Rows before those in hand.
    row: u64,
    failed: Option<InputError>,
}

/// A record in hand: where its text is, line end included, and the line it begins on.
#[derive(Clone, Debug)]
struct Record {
    text: Range<usize>,
    line: u64,
}

/// What reading a record came to.
enum Came<T> {
    /// A record.
    Record(T),
    /// Nothing, or a part of a record: no more came for a while.
    Quiet,
    /// The end.
    End,
}

/// What is wrong with a record: the column, if it is one, and why.
type Fault = (Option<String>, String);

impl<R: Paced> CsvFile<R> {
    /// Starts reading behind the header and the first `skip` rows; also says how many of these there were.
    /// Rows that are left out are not looked at.
    ///
    /// # Errors
    /// [`InputError`] when the input cannot be read, has no header, or names columns that do not fit the
    /// table.
    pub fn open(input: R, name: Arc<str>, reading: &Reading, skip: u64) -> Result<(Self, u64), InputError> {
        let input = without_mark(input).map_err(|error| InputError::of_file(&name, error.to_string()))?;
        let mut records = Records::new(input, Arc::clone(&name), reading.csv_delimiter);
        let columns = columns(&name, &records.header()?, &reading.schema)?;
        let fit = Fit::new(&name, &columns, &reading.schema).map_err(of_header)?;
        for field in columns.fields() {
            if csv_values::read_as(field.data_type()).is_none() {
                let reason = format!(
                    "it is {} in the table, and CSV has no such values: give Parquet, Arrow or NDJSON",
                    field.data_type()
                );
                return Err(InputError::of_column(&name, field.name(), reason));
            }
        }
        let mut file = Self {
            records,
            name,
            columns: Arc::new(columns),
            fit,
            delimiter: reading.csv_delimiter,
            batch_rows: reading.batch_rows,
            text: Vec::new(),
            rows: Vec::new(),
            row: 0,
            failed: None,
        };
        while file.row < skip && matches!(file.records.read(&mut file.text)?, Came::Record(_)) {
            file.row += 1;
            file.text.clear();
        }
        let skipped = file.row;
        Ok((file, skipped))
    }

    /// Takes the next record in hand.
    fn read_row(&mut self) -> Result<Came<()>, InputError> {
        let record = match self.records.read(&mut self.text)? {
            Came::Record(record) => record,
            Came::Quiet => return Ok(Came::Quiet),
            Came::End => return Ok(Came::End),
        };
        if let Some(fault) = self.records.fault(&self.columns) {
            return Err(self.at(self.rows.len(), record.line, fault));
        }
        self.rows.push(record);
        Ok(Came::Record(()))
    }

    /// An error of the row in place `place` of those in hand.
    fn at(&self, place: usize, line: u64, (column, reason): Fault) -> InputError {
        let row = Some(self.row + place as u64);
        InputError { row, line: Some(line), column, ..InputError::of_file(&self.name, reason) }
    }

    /// The records in hand as rows; those before the first bad one, which is then remembered as what failed.
    fn decode(&mut self) -> Result<RecordBatch, InputError> {
        let error = match self.typed(self.before(self.rows.len()), self.rows.len()) {
            Ok(batch) => return Ok(batch),
            Err(error) => error,
        };
        let mut rows = self.rows.iter().enumerate();
        let bad = rows.find_map(|(place, row)| Some((place, row.line, self.undecodable(row)?)));
        let Some((place, line, fault)) = bad else {
            let reason = format!("records that decode one by one do not decode together: {error}");
            return Err(InputError::of_file(&self.name, reason));
        };
        let error = self.at(place, line, fault);
        if place == 0 {
            return Err(error);
        }
        self.failed = Some(error);
        let good = self.typed(self.before(place), place);
        good.map_err(|error| InputError::of_file(&self.name, error.to_string()))
    }

    /// The text of the first `rows` records.
    fn before(&self, rows: usize) -> &[u8] {
        let end = rows.checked_sub(1).and_then(|last| self.rows.get(last)).map_or(0, |row| row.text.end);
        self.text.get(..end).unwrap_or_default()
    }

    /// What the decoder does not take of one record: what a date looks like, say.
    fn undecodable(&self, row: &Record) -> Option<Fault> {
        let text = self.text.get(row.text.clone()).unwrap_or_default();
        let error = self.typed(text, 1).err()?;
        let texts = self.columns.fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true));
        let texts = Arc::new(Schema::new(texts.collect::<Vec<_>>()));
        let Ok(texts) = self.read(text, 1, texts, None) else { return Some((None, error.to_string())) };
        for (place, field) in self.columns.fields().iter().enumerate() {
            if self.one_column(text, place).is_err() {
                let value = texts.column(place).as_string_opt::<i32>().map_or("", |value| value.value(0));
                return Some((Some(field.name().clone()), csv_values::wrong(value, field.data_type())));
            }
        }
        Some((None, error.to_string()))
    }

    /// One column of a record.
    fn one_column(&self, text: &[u8], place: usize) -> Result<(), ArrowError> {
        let field = self.columns.field(place);
        let batch = self.read(text, 1, self.read_schema(), Some(place))?;
        csv_values::finish(batch.column(0), field.data_type()).map(|_| ())
    }

    /// `text` as exactly `rows` rows with the columns of the file.
    fn typed(&self, text: &[u8], rows: usize) -> Result<RecordBatch, ArrowError> {
        let batch = self.read(text, rows, self.read_schema(), None)?;
        let columns = batch.columns().iter().zip(self.columns.fields());
        let columns = columns.map(|(column, field)| csv_values::finish(column, field.data_type()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(
            Arc::clone(&self.columns),
            columns.collect::<Result<Vec<_>, _>>()?,
            &options,
        )
    }

    /// The columns of the file with the types they are read as.
    fn read_schema(&self) -> SchemaRef {
        let fields = self.columns.fields().iter().map(|field| {
            let read_as = csv_values::read_as(field.data_type()).unwrap_or(DataType::Utf8);
            Field::new(field.name(), read_as, true)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn read(
        &self,
        text: &[u8],
        rows: usize,
        schema: SchemaRef,
        only: Option<usize>,
    ) -> Result<RecordBatch, ArrowError> {
        let mut builder = ReaderBuilder::new(schema).with_delimiter(self.delimiter).with_batch_size(rows);
        if let Some(only) = only {
            builder = builder.with_projection(vec![only]);
        }
        let mut decoder = builder.build_decoder();
        // It would take these bytes for a byte order mark at the beginning of what it is given, which is not
        // the beginning of the file. A line end that belongs to no record is passed over.
        decoder.decode(b"\n")?;
        decoder.decode(text)?;
        // The end, where the last record has no line end.
        decoder.decode(&[])?;
        let batch = decoder.flush()?.filter(|batch| batch.num_rows() == rows);
        batch.ok_or_else(|| ArrowError::CsvError("records are not split alike".to_owned()))
    }
}

impl<R: Paced> FileReader for CsvFile<R> {
    fn next(&mut self) -> Result<Option<Chunk>, InputError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.text.drain(..self.rows.last().map_or(0, |row| row.text.end));
        self.rows.clear();
        while self.rows.len() < self.batch_rows {
            // Rows in hand do not wait for others that may never come.
            self.records.input.get_mut().1.hurry(!self.rows.is_empty());
            match self.read_row() {
                Ok(Came::Record(())) => {}
                Ok(Came::Quiet | Came::End) => break,
                Err(error) if self.rows.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        if self.rows.is_empty() {
            return Ok(None);
        }
        let batch = self.decode()?;
        let (rows, fault) = self.fit.rows_before_fault(&batch, self.row)?;
        if let Some(fault) = fault {
            let line = self.rows.get(rows.num_rows()).map(|row| row.line);
            let fault = InputError { line, ..fault };
            if rows.num_rows() == 0 {
                return Err(fault);
            }
            self.failed = Some(fault);
        }
        let chunk = Chunk { rows, file: Arc::clone(&self.name), first: self.row };
        self.row += chunk.rows.num_rows() as u64;
        Ok(Some(chunk))
    }
}

/// The records of a file, one by one.
#[derive(Debug)]
struct Records<R> {
    input: Text<R>,
    name: Arc<str>,
    core: csv_core::Reader,
    /// Values of the record read last, one behind the other and without quotes, and where each ends.
    values: Vec<u8>,
    ends: Vec<usize>,
    /// How much of both it takes.
    written: usize,
    ended: usize,
    /// Bytes that came of a record that is not whole yet.
    begun: usize,
    /// Line ends before what comes next.
    lines: u64,
}

impl<R: Paced> Records<R> {
    fn new(input: Text<R>, name: Arc<str>, delimiter: u8) -> Self {
        Self {
            input,
            name,
            core: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            values: vec![0; VALUE_BYTES],
            ends: vec![0; VALUES],
            written: 0,
            ended: 0,
            begun: 0,
            lines: 0,
        }
    }

    /// Reads the next record and appends its text to `text`, where what came of it before is the end.
    fn read(&mut self, text: &mut Vec<u8>) -> Result<Came<Record>, InputError> {
        let start = text.len() - self.begun;
        if self.begun == 0 {
            (self.written, self.ended) = (0, 0);
        }
        let failed = |name: &str, line: u64, reason: String| InputError {
            line: Some(line),
            ..InputError::of_file(name, reason)
        };
        loop {
            let at_end = match self.input.fill_buf() {
                Ok(buffer) => buffer.is_empty(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.begun = text.len() - start;
                    return Ok(Came::Quiet);
                }
                Err(error) => return Err(failed(&self.name, self.lines + 1, error.to_string())),
            };
            let is_cut = || self.input.get_ref().1.is_cut();
            if at_end && (is_blank(text.get(start..).unwrap_or_default()) || is_cut()) {
                text.truncate(start);
                self.begun = 0;
                return Ok(Came::End);
            }
            // Told of a line end first, the splitter goes on only where a quote is open.
            let more = if at_end { b"\n".as_slice() } else { self.input.fill_buf().unwrap_or_default() };
            let values = self.values.get_mut(self.written..).unwrap_or_default();
            let ends = self.ends.get_mut(self.ended..).unwrap_or_default();
            let (result, read, written, ended) = self.core.read_record(more, values, ends);
            self.written += written;
            self.ended += ended;
            if !at_end {
                text.extend_from_slice(more.get(..read).unwrap_or_default());
                self.input.consume(read);
            }
            let so_far = text.get(start..).unwrap_or_default();
            match result {
                ReadRecordResult::Record => break,
                ReadRecordResult::OutputFull => self.values.resize(self.values.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::InputEmpty | ReadRecordResult::End if at_end => {
                    let reason = "a quote that begins in this record has no end";
                    return Err(failed(&self.name, self.first_line(so_far), reason.to_owned()));
                }
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
            }
            if so_far.len() as u64 > MAX_LINE {
                let reason = format!("the record is longer than {MAX_LINE} bytes: has a quote no end?");
                return Err(failed(&self.name, self.first_line(so_far), reason));
            }
        }
        self.begun = 0;
        let record = text.get(start..).unwrap_or_default();
        let line = self.first_line(record);
        self.lines += line_ends(record);
        Ok(Came::Record(Record { text: start..text.len(), line }))
    }

    /// The line a record begins on; blank lines may lie before it.
    fn first_line(&self, record: &[u8]) -> u64 {
        let begin = record.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(record.len());
        self.lines + 1 + line_ends(record.get(..begin).unwrap_or_default())
    }

    /// The values of the record read last; none when it is no UTF-8.
    fn values(&self) -> Option<impl Iterator<Item = &str>> {
        let all = std::str::from_utf8(self.values.get(..self.written)?).ok()?;
        let mut start = 0;
        Some(self.ends.iter().take(self.ended).map(move |end| {
            let value = all.get(start..*end).unwrap_or_default();
            start = *end;
            value
        }))
    }

    /// The names of the columns.
    fn header(&mut self) -> Result<Vec<String>, InputError> {
        let of_file = |reason: &str| InputError::of_file(&self.name, reason);
        let empty = of_file("it is empty: the first row of a CSV file names its columns");
        let no_text = of_file("its header is no UTF-8: save the file as UTF-8");
        let Came::Record(_) = self.read(&mut Vec::new())? else { return Err(empty) };
        let names = self.values().map(|names| names.map(str::to_owned).collect());
        names.ok_or(no_text)
    }

    /// What is wrong with the record read last, as far as its values tell without being decoded.
    fn fault(&self, columns: &Schema) -> Option<Fault> {
        let named = columns.fields().len();
        if self.ended != named {
            let values = crate::output::counted(self.ended as u64, "value");
            let named = crate::output::counted(named as u64, "column");
            return Some((None, format!("it has {values}, and the header names {named}")));
        }
        let Some(values) = self.values() else {
            return Some((None, "it is no UTF-8: save the file as UTF-8".to_owned()));
        };
        let mut values = values.zip(columns.fields()).filter(|(value, _)| !value.is_empty());
        values.find_map(|(value, field)| {
            let reason = csv_values::check(value, field.data_type()).err()?;
            Some((Some(field.name().clone()), reason))
        })
    }
}

fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

fn line_ends(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The columns a header names, with the types of the table. All may hold nulls: `Fit` judges those, and
/// refuses columns the table does not have.
fn columns(name: &str, header: &[String], table: &Schema) -> Result<Schema, InputError> {
    check_names(name, header)?;
    let fields = header.iter().map(|column| {
        let known = table.field_with_name(column);
        known.map_or_else(
            |_| Field::new(column, DataType::Utf8, true),
            |field| field.clone().with_nullable(true),
        )
    });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

/// Columns are found by name, so each needs one of its own.
fn check_names(name: &str, header: &[String]) -> Result<(), InputError> {
    for (place, column) in header.iter().enumerate() {
        if column.is_empty() {
            let reason = format!("the header has no name for column {}", place + 1);
            return Err(of_header(InputError::of_file(name, reason)));
        }
        if header.iter().take(place).any(|earlier| earlier == column) {
            return Err(InputError::of_column(name, column, "the header names it twice"));
        }
    }
    Ok(())
}

/// What is wrong with the names of columns may be that they are none.
fn of_header(error: InputError) -> InputError {
    let hint = "(the first row names the columns; what is between them --csv-delimiter says)";
    InputError { reason: format!("{} {hint}", error.reason), ..error }
}

/// The columns of a CSV file, as its first rows have them, and how many rows those are. All may hold nulls;
/// those that hold nothing else are text.
///
/// # Errors
/// [`InputError`] when it cannot be read, or has no header or no rows.
pub fn schema(input: impl BufRead, name: &str, delimiter: u8) -> Result<(Schema, u64), InputError> {
    let untold = |error: String| InputError::of_file(name, format!("its columns cannot be told: {error}"));
    let input = without_mark(input).map_err(|error| untold(error.to_string()))?;
    let format = Format::default().with_header(true).with_delimiter(delimiter);
    let (schema, rows) =
        format.infer_schema(input, Some(INFER_ROWS)).map_err(|error| untold(error.to_string()))?;
    let header: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    check_names(name, &header)?;
    if rows == 0 {
        let reason = "it has no rows below its header to tell the types of its columns from";
        return Err(InputError::of_file(name, reason));
    }
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Null => Field::new(field.name(), DataType::Utf8, true),
        told => Field::new(field.name(), told.clone(), true),
    });
    Ok((Schema::new(fields.collect::<Vec<_>>()), rows as u64))
}

#[cfg(test)]
mod tests;
