//! Input files as a stream of batches in the table's schema.
//!
//! Owns: finding the files (paths, globs, standard input), telling their format, the reading thread, and
//! errors that name file, row and column ([`InputError`]). Does not own: the formats ([`crate::ndjson`],
//! [`crate::parquet_file`]) and which types fit ([`crate::convert`]). Rows are counted over all files, in the
//! order the files are read, so a number of rows names a place to go on from.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use clap::ValueEnum;
use tokio::sync::mpsc;
use url::Url;

use crate::ndjson::{self, BYTE_ORDER_MARK, Ndjson};
use crate::output;
use crate::parquet_file::{self, ParquetFile};

/// How many batches are read ahead of the writer.
const READ_AHEAD: usize = 4;
/// How a Parquet file begins.
const PARQUET_MAGIC: &[u8] = b"PAR1";
/// Name of standard input, as an argument and in messages.
const STDIN: &str = "-";

/// Format of an input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Apache Parquet
    Parquet,
    /// One JSON object a line
    Ndjson,
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
    /// Rows left out at the beginning of the input.
    pub skip_rows: u64,
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

/// Reads all sources, one after the other, on a thread of its own. The channel ends after the last row or
/// after the first error. Dropping the receiver stops the thread.
pub fn start(
    sources: Vec<Source>,
    reading: Reading,
) -> io::Result<mpsc::Receiver<Result<Chunk, InputError>>> {
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    let thread = std::thread::Builder::new().name("reader".to_owned());
    thread.spawn(move || {
        if let Err(error) = read_all(&sources, &reading, &sender) {
            // Nobody listens any more: the ingest ended first.
            let _ = sender.blocking_send(Err(error));
        }
    })?;
    Ok(receiver)
}

fn read_all(
    sources: &[Source],
    reading: &Reading,
    sender: &mpsc::Sender<Result<Chunk, InputError>>,
) -> Result<(), InputError> {
    let mut skip = reading.skip_rows;
    for source in sources {
        let (mut reader, skipped) = open(source, reading, skip)?;
        skip -= skipped;
        while let Some(chunk) = reader.next()? {
            if sender.blocking_send(Ok(chunk)).is_err() {
                return Ok(());
            }
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
fn open(source: &Source, reading: &Reading, skip: u64) -> Result<Opened, InputError> {
    let name: Arc<str> = source.name().into();
    let failed = |error: io::Error| InputError::of_file(&name, error.to_string());
    match source {
        Source::File(path) => {
            let mut file = File::open(path).map_err(failed)?;
            match file_format(path, &mut file, reading.format)? {
                FileFormat::Parquet => boxed(ParquetFile::open(file, name, reading, skip)?),
                FileFormat::Ndjson => boxed(Ndjson::open(BufReader::new(file), name, reading, skip)?),
            }
        }
        Source::Stdin => {
            let mut stdin = io::stdin();
            let begin = begin(&mut stdin).map_err(failed)?;
            let is_parquet =
                reading.format.map_or(begin == PARQUET_MAGIC, |format| format == FileFormat::Parquet);
            let mut whole = Cursor::new(begin).chain(stdin);
            if !is_parquet {
                return boxed(Ndjson::open(BufReader::new(whole), name, reading, skip)?);
            }
            // Parquet begins at its end: there is no reading it as it comes.
            let mut bytes = Vec::new();
            whole.read_to_end(&mut bytes).map_err(failed)?;
            boxed(ParquetFile::open(Bytes::from(bytes), name, reading, skip)?)
        }
    }
}

fn boxed<R: FileReader + 'static>((reader, skipped): (R, u64)) -> Result<Opened, InputError> {
    Ok((Box::new(reader), skipped))
}

/// The first bytes, as many as tell a Parquet file.
fn begin(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut begin = Vec::with_capacity(PARQUET_MAGIC.len());
    input.take(PARQUET_MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin)
}

/// The format asked for, else by the ending of the name, else by how the file begins.
fn file_format(path: &Path, file: &mut File, asked: Option<FileFormat>) -> Result<FileFormat, InputError> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let told = asked.or(match ending.as_deref() {
        Some("parquet" | "pq") => Some(FileFormat::Parquet),
        Some("ndjson" | "jsonl" | "json") => Some(FileFormat::Ndjson),
        _ => None,
    });
    if let Some(told) = told {
        return Ok(told);
    }
    let name = path.display().to_string();
    let failed = |error: io::Error| InputError::of_file(&name, error.to_string());
    let begin = begin(file).map_err(failed)?;
    io::Seek::rewind(file).map_err(failed)?;
    match begin.first() {
        _ if begin == PARQUET_MAGIC => Ok(FileFormat::Parquet),
        Some(b'{') => Ok(FileFormat::Ndjson),
        _ if begin.starts_with(BYTE_ORDER_MARK) => Ok(FileFormat::Ndjson),
        _ => Err(InputError::of_file(
            &name,
            "its format is not to be told; say --input-format parquet or ndjson",
        )),
    }
}

/// The columns of a file.
pub fn schema_of(path: &Path, asked: Option<FileFormat>) -> Result<Schema, InputError> {
    let name = path.display().to_string();
    let mut file = File::open(path).map_err(|error| InputError::of_file(&name, error.to_string()))?;
    match file_format(path, &mut file, asked)? {
        FileFormat::Parquet => parquet_file::schema(file, &name),
        FileFormat::Ndjson => ndjson::schema(BufReader::new(file), &name),
    }
}
