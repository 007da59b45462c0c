//! Input files as a stream of batches in the table's schema.
//!
//! Owns: finding the files (paths, globs, standard input), telling their format, the reading thread, and
//! errors that name file, row and column ([`InputError`]). Does not own: the formats ([`crate::arrow_file`],
//! [`crate::csv_file`], [`crate::ndjson`], [`crate::parquet_file`]), which types fit ([`crate::convert`]) and
//! waiting for what comes through pipes ([`crate::flow`]).
//! Rows are counted over all files, in the order the files are read, so a number of rows names a place to go
//! on from.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use clap::ValueEnum;
use tokio::sync::mpsc;
use url::Url;

use crate::arrow_file::{self, ArrowRows};
use crate::csv_file::{self, CsvFile};
use crate::flow::{Flow, StopReading};
use crate::ndjson::{self, BYTE_ORDER_MARK, Ndjson};
use crate::output;
use crate::parquet_file::{self, ParquetFile};

/// How many batches are read ahead of the writer.
const READ_AHEAD: usize = 4;
/// How a Parquet file begins.
const PARQUET_MAGIC: &[u8] = b"PAR1";
/// How an Arrow IPC file begins, as far as it is looked at.
const ARROW_FILE_MAGIC: &[u8] = b"ARRO";
/// How Feather of version 1 begins.
const FEATHER_1_MAGIC: &[u8] = b"FEA1";
/// How an Arrow IPC stream begins.
const ARROW_STREAM_MAGIC: &[u8] = &[0xFF; 4];
/// Name of standard input, as an argument and in messages.
const STDIN: &str = "-";

/// Format of an input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Apache Parquet
    Parquet,
    /// One JSON object a line
    Ndjson,
    /// Values between commas (or --csv-delimiter) below a row with the names of the columns
    Csv,
    /// Arrow IPC, a file (Feather) or a stream
    Arrow,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Source {
    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
        }
    }

    /// Whether its rows come in their own time: standard input, and files that are none, such as named pipes.
    fn flows(&self) -> bool {
        match self {
            Self::File(path) => std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()),
            Self::Stdin => true,
        }
    }
}

/// Input that cannot be taken, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputError {
    /// The file.
    pub file: String,
    /// The row at fault, from 0 within the file.
    pub row: Option<u64>,
    /// The line at fault, from 1, where the file has lines.
    pub line: Option<u64>,
    /// The column at fault.
    pub column: Option<String>,
    /// What is wrong.
    pub reason: String,
}

impl InputError {
    /// Something about a file as a whole.
    pub fn of_file(file: &str, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), reason: reason.into(), ..Self::default() }
    }

    /// Something about one of its columns.
    pub fn of_column(file: &str, column: &str, reason: impl Into<String>) -> Self {
        Self { column: Some(column.to_owned()), ..Self::of_file(file, reason) }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match (self.row, self.line) {
            (Some(row), Some(line)) => write!(f, ", line {line} (row {})", row + 1)?,
            (Some(row), None) => write!(f, ", row {}", row + 1)?,
            (None, Some(line)) => write!(f, ", line {line}")?,
            (None, None) => {}
        }
        if let Some(column) = &self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for InputError {}

/// Rows on their way, in the table's schema.
#[derive(Debug)]
pub struct Chunk {
    /// The rows.
    pub rows: RecordBatch,
    /// The file they are from.
    pub file: Arc<str>,
    /// Their first row, from 0 within the file.
    pub first: u64,
}

impl Chunk {
    /// Which rows these are, for people.
    pub fn place(&self) -> String {
        let (first, last) = (self.first + 1, self.first + self.rows.num_rows() as u64);
        format!("{}, rows {first} to {last}", self.file)
    }
}

/// What a reader of one file does.
pub trait FileReader {
    /// The next rows; none at the end. After an error nothing more is asked for.
    fn next(&mut self) -> Result<Option<Chunk>, InputError>;
}

/// How input is read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The schema of the table.
    pub schema: SchemaRef,
    /// Format of every file; told from names and contents when not given.
    pub format: Option<FileFormat>,
    /// Rows of a chunk at most.
    pub batch_rows: usize,
    /// How long the first row of a chunk waits for others where nothing more comes.
    pub batch_wait: Duration,
    /// Rows left out at the beginning of the input.
    pub skip_rows: u64,
    /// What is between two values of CSV.
    pub csv_delimiter: u8,
}

/// What may be between two values of CSV, from an argument.
///
/// # Errors
/// Why it may not, for people.
pub fn csv_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if ["tab", "\\t"].contains(&text) => Ok(b'\t'),
        [b'"' | b'\r' | b'\n'] => Err("quotes and line ends have another meaning in CSV".to_owned()),
        [byte] => Ok(*byte),
        _ => Err("write one ASCII character, as in --csv-delimiter ';', or tab".to_owned()),
    }
}

/// The files that arguments name: paths, globs (in order of name), either as `file:///` too, and `-` for
/// standard input.
pub fn sources(arguments: &[String]) -> Result<Vec<Source>, InputError> {
    let mut sources = Vec::new();
    for argument in arguments {
        if argument == STDIN {
            sources.push(Source::Stdin);
            continue;
        }
        let path = local_path(argument)?;
        match path.to_str().filter(|pattern| !path.exists() && pattern.contains(['*', '?', '['])) {
            Some(pattern) => sources.extend(matches(pattern)?),
            None => sources.push(file(path)?),
        }
    }
    if sources.iter().filter(|source| **source == Source::Stdin).count() > 1 {
        return Err(InputError::of_file(STDIN, "standard input can be read only once"));
    }
    Ok(sources)
}

/// The path of a file given as a path or as a `file:///` URL.
pub fn local_path(argument: &str) -> Result<PathBuf, InputError> {
    let scheme = argument.split_once("://").map(|(scheme, _)| scheme);
    let Some(scheme) = scheme.filter(|_| !Path::new(argument).exists()) else {
        return Ok(PathBuf::from(argument));
    };
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(InputError::of_file(
            argument,
            "input files are read from local disk: download it first, or pipe it in and give - as the file",
        ));
    }
    // In a name these begin no query and no fragment.
    let url = argument.replace('?', "%3F").replace('#', "%23");
    let path = Url::parse(&url).ok().and_then(|url| url.to_file_path().ok());
    path.ok_or_else(|| {
        InputError::of_file(
            argument,
            "it has no absolute path: write file:///absolute/path, with three slashes, or a plain path",
        )
    })
}

fn file(path: PathBuf) -> Result<Source, InputError> {
    let name = path.display().to_string();
    match std::fs::metadata(&path) {
        Err(error) => Err(InputError::of_file(&name, error.to_string())),
        Ok(metadata) if metadata.is_dir() => {
            Err(InputError::of_file(&name, "it is a directory; name files, as in 'directory/*.parquet'"))
        }
        Ok(_) => Ok(Source::File(path)),
    }
}

fn matches(pattern: &str) -> Result<Vec<Source>, InputError> {
    let paths = glob::glob(pattern).map_err(|error| InputError::of_file(pattern, error.to_string()))?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| InputError::of_file(pattern, error.to_string()))?;
        if !path.is_dir() {
            files.push(Source::File(path));
        }
    }
    if files.is_empty() {
        return Err(InputError::of_file(pattern, "no file matches"));
    }
    Ok(files)
}

/// Rows that a thread reads.
#[derive(Debug)]
pub struct Rows {
    chunks: mpsc::Receiver<Result<Chunk, InputError>>,
    stop: StopReading,
    flows: bool,
}

impl Rows {
    /// The next rows; none after the last ones, or after the first error.
    pub async fn next(&mut self) -> Option<Result<Chunk, InputError>> {
        self.chunks.recv().await
    }

    /// Ends the reading; whether there may be rows that have come already, which are then still handed over.
    /// What cannot be read of them, such as the beginning of a line, is no error.
    pub fn stop(&self) -> bool {
        self.stop.set();
        self.flows
    }
}

/// Reads all sources, one after the other, on a thread of its own. Dropping the rows stops the thread.
pub fn start(sources: Vec<Source>, reading: Reading) -> io::Result<Rows> {
    let (sender, chunks) = mpsc::channel(READ_AHEAD);
    let stop = StopReading::default();
    let rows = Rows { chunks, stop: stop.clone(), flows: sources.iter().any(Source::flows) };
    let thread = std::thread::Builder::new().name("reader".to_owned());
    thread.spawn(move || {
        if let Err(error) = read_all(&sources, &reading, &stop, &sender)
            && !stop.is_set()
        {
            // Nobody listens any more: the ingest ended first.
            let _ = sender.blocking_send(Err(error));
        }
    })?;
    Ok(rows)
}

fn read_all(
    sources: &[Source],
    reading: &Reading,
    stop: &StopReading,
    sender: &mpsc::Sender<Result<Chunk, InputError>>,
) -> Result<(), InputError> {
    let mut skip = reading.skip_rows;
    for source in sources {
        let flows = source.flows();
        let (mut reader, skipped) = open(source, flows, reading, stop, skip)?;
        skip -= skipped;
        while let Some(chunk) = reader.next()? {
            if sender.blocking_send(Ok(chunk)).is_err() || (stop.is_set() && !flows) {
                return Ok(());
            }
        }
        if stop.is_set() {
            return Ok(());
        }
    }
    if skip > 0 {
        let (wanted, there) = (reading.skip_rows, reading.skip_rows - skip);
        let reason = format!(
            "only {} to read, fewer than --skip-rows {wanted} leaves out: is the number of this input?",
            output::counted(there, "row")
        );
        let names = sources.iter().map(Source::name).collect::<Vec<_>>().join(", ");
        return Err(InputError::of_file(&names, reason));
    }
    Ok(())
}

type Opened = (Box<dyn FileReader>, u64);

/// A reader of a source behind its first `skip` rows, and how many it could skip.
fn open(
    source: &Source,
    flows: bool,
    reading: &Reading,
    stop: &StopReading,
    skip: u64,
) -> Result<Opened, InputError> {
    let name: Arc<str> = source.name().into();
    let failed = |error: io::Error| InputError::of_file(&name, error.to_string());
    let (wait, stop) = (reading.batch_wait, stop.clone());
    match source {
        Source::Stdin => {
            let flow = Flow::start(|| Ok(io::stdin()), wait, stop).map_err(failed)?;
            open_flow(flow, reading.format, name, reading, skip)
        }
        Source::File(path) if flows => {
            let format = reading.format.or(by_name(path));
            let path = path.clone();
            let flow = Flow::start(move || File::open(path), wait, stop).map_err(failed)?;
            open_flow(flow, format, name, reading, skip)
        }
        Source::File(path) => {
            let mut file = File::open(path).map_err(failed)?;
            match file_format(path, &mut file, reading.format)? {
                FileFormat::Parquet => boxed(ParquetFile::open(file, name, reading, skip)?),
                FileFormat::Ndjson => boxed(Ndjson::open(BufReader::new(file), name, reading, skip)?),
                FileFormat::Csv => boxed(CsvFile::open(BufReader::new(file), name, reading, skip)?),
                FileFormat::Arrow => match arrow_kind(file, &name)? {
                    ArrowKind::File(file) => boxed(ArrowRows::of_file(file, name, reading, skip)?),
                    ArrowKind::Stream(stream) => boxed(ArrowRows::of_stream(stream, name, reading, skip)?),
                },
            }
        }
    }
}

/// The same of what can be read only once, and as it comes. What does not tell its format is taken for
/// NDJSON.
fn open_flow(
    mut flow: Flow,
    format: Option<FileFormat>,
    name: Arc<str>,
    reading: &Reading,
    skip: u64,
) -> Result<Opened, InputError> {
    let failed = |error: io::Error| InputError::of_file(&name, error.to_string());
    let begin = flow.begin(PARQUET_MAGIC.len()).map_err(failed)?;
    match format.or(by_content(&begin)).unwrap_or(FileFormat::Ndjson) {
        FileFormat::Ndjson => boxed(Ndjson::open(flow, name, reading, skip)?),
        FileFormat::Csv => boxed(CsvFile::open(flow, name, reading, skip)?),
        FileFormat::Parquet => {
            let bytes = Bytes::from(all(flow).map_err(failed)?);
            boxed(ParquetFile::open(bytes, name, reading, skip)?)
        }
        FileFormat::Arrow if is_arrow_file(&begin, &name)? => {
            let bytes = Cursor::new(all(flow).map_err(failed)?);
            boxed(ArrowRows::of_file(bytes, name, reading, skip)?)
        }
        FileFormat::Arrow => boxed(ArrowRows::of_stream(flow, name, reading, skip)?),
    }
}

/// All of an input, for the formats that begin at their end: there is no reading those as they come.
fn all(mut input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The two layouts of Arrow IPC, which have the same names.
enum ArrowKind {
    /// With an index at its end.
    File(BufReader<File>),
    /// To be read from its beginning to its end.
    Stream(BufReader<Chain<Cursor<Vec<u8>>, File>>),
}

fn arrow_kind(mut file: File, name: &str) -> Result<ArrowKind, InputError> {
    let failed = |error: io::Error| InputError::of_file(name, error.to_string());
    let begin = begin(&mut file).map_err(failed)?;
    if is_arrow_file(&begin, name)? {
        io::Seek::rewind(&mut file).map_err(failed)?;
        return Ok(ArrowKind::File(BufReader::new(file)));
    }
    // It may be a pipe with a name, which cannot be read again.
    Ok(ArrowKind::Stream(BufReader::new(Cursor::new(begin).chain(file))))
}

fn boxed<R: FileReader + 'static>((reader, skipped): (R, u64)) -> Result<Opened, InputError> {
    Ok((Box::new(reader), skipped))
}

/// Whether Arrow IPC that begins so is a file, and not a stream. What is neither is refused here: the reader
/// would take its first bytes for a length, and make room for that.
fn is_arrow_file(begin: &[u8], name: &str) -> Result<bool, InputError> {
    if begin == ARROW_FILE_MAGIC || begin == ARROW_STREAM_MAGIC {
        return Ok(begin == ARROW_FILE_MAGIC);
    }
    let reason = if begin == FEATHER_1_MAGIC {
        "it is Feather of version 1, which is no Arrow IPC: write it as version 2"
    } else {
        "it is no Arrow IPC: it begins neither as a file nor as a stream"
    };
    Err(InputError::of_file(name, reason))
}

/// The first bytes, as many as tell Parquet and Arrow.
fn begin(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut begin = Vec::with_capacity(PARQUET_MAGIC.len());
    input.take(PARQUET_MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin)
}

/// The format that the ending of a name tells.
fn by_name(path: &Path) -> Option<FileFormat> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("parquet" | "pq") => Some(FileFormat::Parquet),
        Some("ndjson" | "jsonl" | "json") => Some(FileFormat::Ndjson),
        Some("csv") => Some(FileFormat::Csv),
        Some("arrow" | "arrows" | "ipc" | "feather") => Some(FileFormat::Arrow),
        _ => None,
    }
}

/// The format asked for, else by the ending of the name, else by how the file begins.
fn file_format(path: &Path, file: &mut File, asked: Option<FileFormat>) -> Result<FileFormat, InputError> {
    if let Some(told) = asked.or(by_name(path)) {
        return Ok(told);
    }
    let name = path.display().to_string();
    let failed = |error: io::Error| InputError::of_file(&name, error.to_string());
    let begin = begin(file).map_err(failed)?;
    io::Seek::rewind(file).map_err(failed)?;
    by_content(&begin).ok_or_else(|| {
        let reason = "its format is not to be told; say --input-format parquet, ndjson, csv or arrow";
        InputError::of_file(&name, reason)
    })
}

/// The format of what begins so; none when that does not tell. CSV may begin with anything.
fn by_content(begin: &[u8]) -> Option<FileFormat> {
    match begin.first() {
        _ if begin == PARQUET_MAGIC => Some(FileFormat::Parquet),
        _ if begin == ARROW_FILE_MAGIC || begin == ARROW_STREAM_MAGIC => Some(FileFormat::Arrow),
        Some(b'{') => Some(FileFormat::Ndjson),
        _ if begin.starts_with(BYTE_ORDER_MARK) => Some(FileFormat::Ndjson),
        _ => None,
    }
}

/// The columns of a file.
#[derive(Debug)]
pub struct Columns {
    /// Names and types.
    pub schema: Schema,
    /// How many rows the types were told from, where the file does not say them itself and people should
    /// know.
    pub told_from: Option<u64>,
}

/// The columns of a file; `delimiter` is between the values of CSV.
pub fn columns_of(path: &Path, asked: Option<FileFormat>, delimiter: u8) -> Result<Columns, InputError> {
    let name = path.display().to_string();
    let failed = |error: io::Error| InputError::of_file(&name, error.to_string());
    let mut file = File::open(path).map_err(failed)?;
    let schema = match file_format(path, &mut file, asked)? {
        FileFormat::Parquet => parquet_file::schema(file, &name)?,
        FileFormat::Ndjson => ndjson::schema(BufReader::new(file), &name)?,
        FileFormat::Csv => {
            let (schema, rows) = csv_file::schema(BufReader::new(file), &name, delimiter)?;
            return Ok(Columns { schema, told_from: Some(rows) });
        }
        FileFormat::Arrow => match arrow_kind(file, &name)? {
            ArrowKind::File(file) => arrow_file::schema_of_file(file, &name)?,
            ArrowKind::Stream(stream) => arrow_file::schema_of_stream(stream, &name)?,
        },
    };
    Ok(Columns { schema, told_from: None })
}
