//! Rows on standard output, as they come, in the format asked for.
//!
//! Owns: [`RowFormat`], [`RowsOut`]. Does not own: which rows, nor the formats themselves (Arrow's writers).
//! However many rows there are, only [`PIECE_ROWS`] of them are held as text at once. A reader that goes away
//! (`| head`) ends the output, not the command.

use std::io::{self, IsTerminal, Write};
use std::mem;

use arrow_array::RecordBatch;
use arrow_cast::display::FormatOptions;
use arrow_cast::pretty::pretty_format_batches_with_options;
use arrow_ipc::writer::StreamWriter;
use arrow_json::writer::{LineDelimited, WriterBuilder as JsonBuilder};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use clap::ValueEnum;
use futures::{Stream, StreamExt};
use headwater::Error;

use crate::error::Failure;
use crate::output;

/// Rows printed at once: those of one grid, under a header of its own.
const PIECE_ROWS: usize = 1_000;
/// Where rows go, in messages.
const STDOUT: &str = "standard output";

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// For people
    #[default]
    Table,
    /// One JSON object a line
    Json,
    /// Comma-separated values below a header
    Csv,
    /// An Arrow IPC stream
    Arrow,
}

impl RowFormat {
    /// Whether standard output is a place for it.
    ///
    /// # Errors
    /// [`Failure::Usage`] for bytes on a terminal.
    pub fn check(self) -> Result<(), Failure> {
        if self == Self::Arrow && io::stdout().is_terminal() {
            let reason = "--format arrow writes bytes no terminal shows; send them to a file or a program";
            return Err(Failure::usage(reason));
        }
        Ok(())
    }
}

/// Prints all rows of a stream as they come; as a table, says on stderr how many they were.
///
/// # Errors
/// As [`RowsOut::write`]; what `failed` makes of an error of the stream.
pub async fn print<E>(
    format: RowFormat,
    schema: SchemaRef,
    mut rows: impl Stream<Item = Result<RecordBatch, E>> + Unpin,
    failed: impl Fn(E) -> Error,
) -> Result<(), Failure> {
    let mut out = RowsOut::new(format, schema)?;
    while let Some(batch) = rows.next().await {
        if !out.write(&batch.map_err(&failed)?)? {
            return Ok(());
        }
    }
    let count = out.finish()?;
    if format == RowFormat::Table {
        output::note(&output::counted(count, "row"));
    }
    Ok(())
}

/// Prints rows of one schema.
pub struct RowsOut {
    schema: SchemaRef,
    encoder: Encoder,
    rows: u64,
}

impl RowsOut {
    /// Prints nothing yet.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the format has no place for a column.
    pub fn new(format: RowFormat, schema: SchemaRef) -> Result<Self, Failure> {
        let encoder = match format {
            RowFormat::Table => Encoder::Grid(Grid::default()),
            RowFormat::Json => Encoder::Json,
            RowFormat::Csv => {
                check_flat(&schema)?;
                Encoder::Csv { header: true }
            }
            RowFormat::Arrow => {
                let stream = StreamWriter::try_new(Vec::new(), &schema);
                Encoder::Arrow(Box::new(stream.map_err(|error| failed(&error))?))
            }
        };
        Ok(Self { schema, encoder, rows: 0 })
    }

    /// Prints rows; false when nobody reads them any more.
    ///
    /// # Errors
    /// [`Failure::Io`] when they cannot be written, or a column not in this format.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<bool, Failure> {
        for piece in pieces(batch, PIECE_ROWS) {
            self.rows += piece.num_rows() as u64;
            let bytes = self.encoder.encode(piece).map_err(|error| failed(&error))?;
            if !emit(&bytes)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Prints what is left, and says how many rows it was altogether.
    ///
    /// # Errors
    /// As [`RowsOut::write`].
    pub fn finish(mut self) -> Result<u64, Failure> {
        let bytes = self.encoder.end(&self.schema).map_err(|error| failed(&error))?;
        emit(&bytes)?;
        Ok(self.rows)
    }
}

/// `batch` in slices of at most `rows` rows, which is not zero.
pub fn pieces(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> {
    let all = batch.num_rows();
    (0..all).step_by(rows).map(move |start| batch.slice(start, rows.min(all - start)))
}

enum Encoder {
    Grid(Grid),
    Json,
    Csv {
        /// Whether it is still to come.
        header: bool,
    },
    Arrow(Box<StreamWriter<Vec<u8>>>),
}

impl Encoder {
    /// What to print now.
    fn encode(&mut self, rows: RecordBatch) -> Result<Vec<u8>, ArrowError> {
        match self {
            Self::Grid(grid) => grid.add(rows),
            Self::Json => json(&rows),
            Self::Csv { header } => csv(&rows, mem::take(header)),
            Self::Arrow(stream) => {
                stream.write(&rows)?;
                Ok(mem::take(stream.get_mut()))
            }
        }
    }

    /// What to print after all rows.
    fn end(&mut self, schema: &SchemaRef) -> Result<Vec<u8>, ArrowError> {
        match self {
            Self::Grid(grid) => grid.end(schema),
            Self::Csv { header: true } => csv(&RecordBatch::new_empty(schema.clone()), true),
            Self::Json | Self::Csv { header: false } => Ok(Vec::new()),
            Self::Arrow(stream) => {
                stream.finish()?;
                Ok(mem::take(stream.get_mut()))
            }
        }
    }
}

/// Rows waiting until there are enough for a grid: sources hand over a few at a time.
#[derive(Default)]
struct Grid {
    waiting: Vec<RecordBatch>,
    rows: usize,
    printed: bool,
}

impl Grid {
    fn add(&mut self, rows: RecordBatch) -> Result<Vec<u8>, ArrowError> {
        self.rows += rows.num_rows();
        self.waiting.push(rows);
        if self.rows < PIECE_ROWS { Ok(Vec::new()) } else { self.print() }
    }

    /// A grid without rows has a header all the same.
    fn end(&mut self, schema: &SchemaRef) -> Result<Vec<u8>, ArrowError> {
        if self.waiting.is_empty() {
            if self.printed {
                return Ok(Vec::new());
            }
            self.waiting.push(RecordBatch::new_empty(schema.clone()));
        }
        self.print()
    }

    fn print(&mut self) -> Result<Vec<u8>, ArrowError> {
        let rows = mem::take(self).waiting;
        self.printed = true;
        let options = FormatOptions::new().with_null("null");
        let grid = pretty_format_batches_with_options(&rows, &options)?;
        Ok(format!("{grid}\n").into_bytes())
    }
}

/// Nulls are written, so that every line has every column.
fn json(rows: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut text = Vec::new();
    let mut writer = JsonBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut text);
    writer.write(rows)?;
    writer.finish()?;
    drop(writer);
    Ok(text)
}

fn csv(rows: &RecordBatch, header: bool) -> Result<Vec<u8>, ArrowError> {
    let mut text = Vec::new();
    let mut writer = arrow_csv::WriterBuilder::new().with_header(header).build(&mut text);
    writer.write(rows)?;
    drop(writer);
    Ok(text)
}

/// Whether every column has a place in CSV.
fn check_flat(schema: &Schema) -> Result<(), Failure> {
    let Some(nested) = schema.fields().iter().find(|field| field.data_type().is_nested()) else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "--format csv: column {} is {}, and CSV has no nested values; take --format json, or other columns \
         with --columns",
        nested.name(),
        nested.data_type()
    )))
}

/// Writes bytes at once; false when nobody reads them any more.
fn emit(bytes: &[u8]) -> Result<bool, Failure> {
    if bytes.is_empty() {
        return Ok(true);
    }
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::io(STDOUT, &error)),
    }
}

fn failed(error: &ArrowError) -> Failure {
    Failure::Io { file: STDOUT.to_owned(), reason: error.to_string() }
}
