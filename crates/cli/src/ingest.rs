//! `headwater ingest`: streams rows of files into a table as small durable writes.
//!
//! Owns: the window of writes in flight and counting what is acknowledged. Acknowledged rows are always an
//! unbroken beginning of the input, so the number of them says where to go on (`--skip-rows`), whatever ended
//! the run.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use clap::Args;
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use headwater::settings::SettingsText;
use headwater::{EnvRef, Error, Kind, Request, Table, TableAck, TableStats, TableTicket};

use crate::error::Failure;
use crate::input::{self, Chunk, FileFormat, InputError, Reading, Rows};
use crate::output;
use crate::progress::{self, Acknowledged, Event, Progress, Summary};
use crate::signals::{Stop, Stops};
use crate::{Format, Global};

/// Rows are acknowledged once they are in the WAL on storage; at the end what is in memory becomes SSTables.
/// Types of the files must be those of the table, or such that no value is lost: narrower integers and
/// floats, coarser timestamps, other encodings of text. Integers, say, are never taken for text. Values of
/// NDJSON are held to the same: an integer column takes 12, but neither "12" nor 12.5 nor 12.0. So are those
/// of CSV, where nothing between two delimiters is null; its first row names the columns.
///
/// On SIGINT (ctrl-c), SIGTERM or SIGHUP what is on its way is waited for and flushed, the whole rows that
/// came through standard input or a pipe among it; a second signal stops at once.
#[derive(Debug, Args)]
pub struct IngestArgs {
    /// Path or URI of the table
    table: String,
    /// Files, globs, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    inputs: Vec<String>,
    /// Format of all inputs; told from their names and contents when left out
    #[arg(long, value_enum, value_name = "FORMAT")]
    input_format: Option<FileFormat>,
    /// What is between two values of CSV: one character, or tab
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = input::csv_delimiter)]
    csv_delimiter: u8,
    /// Rows of one write at most
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    batch_rows: u32,
    /// Milliseconds without input after which rows that came through standard input or a pipe are written,
    /// however few they are
    #[arg(long, value_name = "MS", default_value_t = 200)]
    batch_wait: u64,
    /// Writes that may be on their way at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: u32,
    /// Rows to leave out at the beginning of the input, to go on after an earlier run
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_rows: u64,
    /// Leave what is in memory at the end in the WAL, for the next writer to replay
    #[arg(long)]
    no_flush: bool,
    /// TOML file with settings
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// One setting, such as freeze.max_rows=50000; may be repeated, wins over --settings
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// How progress and result are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub async fn run(global: &Global, args: &IngestArgs) -> Result<(), Failure> {
    let env = global.env();
    let settings = settings(args)?;
    let mut options = global.open_options(&args.table, &env, settings.build()?)?;
    options.given = settings.given().clone();
    let sources = input::sources(&args.inputs)?;
    let table = Table::open(&args.table, options).await?;
    let reading = Reading {
        schema: table.schema(),
        format: args.input_format,
        batch_rows: args.batch_rows as usize,
        batch_wait: Duration::from_millis(args.batch_wait),
        skip_rows: args.skip_rows,
        csv_delimiter: args.csv_delimiter,
    };
    let rows = input::start(sources, reading).map_err(|error| Failure::io("the reading thread", &error))?;
    let stops = Stops::listen().map_err(|error| Failure::io("signals", &error))?;
    let progress = Progress::new(env.clone(), args.format, args.skip_rows);
    let mut ingest = Ingest {
        table: &table,
        env,
        in_flight: args.in_flight as usize,
        progress,
        done: Acknowledged::default(),
        failure: None,
        stops,
        stopped: Vec::new(),
    };
    let pumped = ingest.pump(rows).await;
    let seconds = ingest.progress.seconds();
    ingest.progress.flushing();
    let (closed, stats) = ingest.close(args.no_flush).await;
    ingest.progress.end();
    let failure = ingest.failure.take().or(pumped.err()).or(closed.err().map(Failure::from));
    finish(global, args, &ingest, &stats, seconds, failure)
}

fn settings(args: &IngestArgs) -> Result<SettingsText, Failure> {
    let mut settings = SettingsText::defaults()?;
    if let Some(path) = &args.settings {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| Failure::io(&name, &error))?;
        let tree: serde_json::Value = toml::from_str(&text)
            .map_err(|error| Failure::Io { file: name.clone(), reason: error.to_string() })?;
        settings.merge(&tree).map_err(|error| Failure::Io { file: name, reason: error.to_string() })?;
    }
    for pair in &args.set {
        settings.set_pair(pair)?;
    }
    Ok(settings)
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A write the table was asked to take, with what it writes.
type Sending<'a> = Boxed<'a, (Write, Result<TableTicket, Error>)>;
/// A write on its way, with what it writes.
type Acks = FuturesOrdered<Boxed<'static, (Write, Result<TableAck, Error>)>>;

/// What is known of a write without holding its rows.
#[derive(Debug)]
struct Write {
    place: String,
    size: Acknowledged,
}

/// An ingest under way.
struct Ingest<'a> {
    table: &'a Table,
    env: EnvRef,
    in_flight: usize,
    progress: Progress,
    done: Acknowledged,
    /// The first failure in the order of the rows.
    failure: Option<Failure>,
    stops: Stops,
    /// Signals that came.
    stopped: Vec<Stop>,
}

impl<'a> Ingest<'a> {
    /// Reads, writes and counts until the input ends or something fails, and all that is on its way is
    /// settled.
    async fn pump(&mut self, mut rows: Rows) -> Result<(), Failure> {
        let mut reading = true;
        let mut sending: Option<Sending<'a>> = None;
        let mut acks = Acks::new();
        while reading || sending.is_some() || !acks.is_empty() {
            let room = sending.is_none() && acks.len() < self.in_flight;
            tokio::select! {
                stop = self.stops.next() => {
                    reading = reading && rows.stop();
                    if self.is_final(stop, "waiting for the rows on their way") {
                        return Ok(());
                    }
                }
                Some((write, ack)) = acks.next(), if !acks.is_empty() => self.acknowledge(write, ack.err())?,
                (write, sent) = now(&mut sending), if sending.is_some() => {
                    sending = None;
                    match sent {
                        Ok(ticket) => acks.push_back(ticket.map(|ack| (write, ack)).boxed()),
                        // Earlier writes are still on their way: the refusal waits for its turn behind them.
                        Err(error) => acks.push_back(futures::future::ready((write, Err(error))).boxed()),
                    }
                }
                chunk = rows.next(), if reading && room => match chunk {
                    Some(Ok(chunk)) => sending = Some(self.send(chunk)),
                    Some(Err(error)) => {
                        self.failure = Some(error.into());
                        reading = false;
                    }
                    None => reading = false,
                },
                () = self.env.sleep(progress::EVERY) => self.show()?,
            }
            reading = reading && self.failure.is_none();
        }
        Ok(())
    }

    /// Counts a signal to stop: whether it is the second one, after which nothing is waited for. After the
    /// first one it is said what `work` goes on.
    fn is_final(&mut self, stop: Stop, work: &str) -> bool {
        self.stopped.push(stop);
        if self.stopped.len() > 1 {
            return true;
        }
        output::note(&format!("stopping after {stop}: {work}; a second signal stops at once"));
        false
    }

    fn show(&mut self) -> Result<(), Failure> {
        if self.done.rows == 0 {
            let requests = self.table.stats().requests;
            self.progress.opening(requests.get(Request::Get, Kind::Wal).requests);
        }
        self.progress.update(self.done)
    }

    /// Flushes and closes the table; leaves what is in memory to the WAL if asked to, or told twice to stop.
    async fn close(&mut self, no_flush: bool) -> (Result<(), Error>, TableStats) {
        if !no_flush && self.stopped.len() < 2 {
            let table = self.table;
            let mut closing = Box::pin(table.close());
            loop {
                tokio::select! {
                    closed = &mut closing => return (closed, table.stats()),
                    stop = self.stops.next() => if self.is_final(stop, "flushing") { break },
                }
            }
        }
        // An abandoned table has no shards left to count.
        let stats = self.table.stats();
        self.table.abandon();
        (Ok(()), stats)
    }

    fn send(&self, chunk: Chunk) -> Sending<'a> {
        let rows = chunk.rows.num_rows() as u64;
        let write = Write { place: chunk.place(), size: Acknowledged { rows, bytes: payload(&chunk) } };
        let table = self.table;
        async move { (write, table.put_nowait(chunk.rows).await) }.boxed()
    }

    /// Counts a write, unless one before it failed: what is counted has no gaps.
    fn acknowledge(&mut self, write: Write, error: Option<Error>) -> Result<(), Failure> {
        let before_failure = !matches!(self.failure, Some(Failure::Write { .. }));
        match error {
            None if before_failure => {
                self.done.rows += write.size.rows;
                self.done.bytes += write.size.bytes;
            }
            // Rows of a failed write come before those of whatever ended the reading.
            Some(source) if before_failure => {
                let source = Box::new(source);
                self.failure = Some(Failure::Write { rows: write.place, source });
            }
            _ => {}
        }
        self.progress.update(self.done)
    }
}

async fn now<'a>(sending: &mut Option<Sending<'a>>) -> (Write, Result<TableTicket, Error>) {
    match sending {
        Some(sending) => sending.await,
        None => futures::future::pending().await,
    }
}

/// Bytes of the rows themselves, without what the buffers hold besides.
fn payload(chunk: &Chunk) -> u64 {
    let sizes =
        chunk.rows.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
    sizes.sum::<usize>() as u64
}

fn finish(
    global: &Global,
    args: &IngestArgs,
    ingest: &Ingest<'_>,
    stats: &TableStats,
    seconds: f64,
    failure: Option<Failure>,
) -> Result<(), Failure> {
    let (done, skip_rows) = (ingest.done, args.skip_rows + ingest.done.rows);
    if let Some(failure) = failure {
        let message = failure.to_string();
        ingest.progress.print(&Event::Error { rows_acknowledged: done.rows, skip_rows, message })?;
        let progress = go_on(done.rows, skip_rows, &failure);
        return Err(Failure::After { failure: Box::new(failure), progress });
    }
    let sum = |of: fn(&headwater::ShardStats) -> u64| stats.shards.values().map(of).sum::<u64>();
    let summary = Summary {
        rows_acknowledged: done.rows,
        bytes: done.bytes,
        skip_rows,
        seconds,
        rows_per_second: progress::per_second(done.rows, seconds),
        puts: sum(|shard| shard.counters.wal_entries),
        generations: sum(|shard| shard.counters.flushes),
        fsync: !global.no_fsync,
        interrupted: !ingest.stopped.is_empty(),
    };
    match args.format {
        Format::Json => ingest.progress.print(&Event::Done(&summary))?,
        Format::Human => print(&summary)?,
    }
    if let Some(stop) = ingest.stopped.first() {
        let failure = Failure::Stopped(*stop);
        let progress = go_on(done.rows, skip_rows, &failure);
        return Err(Failure::After { failure: Box::new(failure), progress });
    }
    Ok(())
}

/// How far it came, and how to go on from there.
fn go_on(rows: u64, skip_rows: u64, failure: &Failure) -> String {
    // With nothing done there is nothing to go on from but the same command.
    let mut text = match rows {
        0 => "no rows were acknowledged before that".to_owned(),
        rows => format!(
            "{} acknowledged before that; to go on from there: --skip-rows {skip_rows}",
            output::counted(rows, "row"),
        ),
    };
    if matches!(failure, Failure::Input(InputError { row: Some(_), .. })) {
        text.push_str(&format!(" (and to leave the bad row out: --skip-rows {})", skip_rows + 1));
    }
    text
}

fn print(summary: &Summary) -> Result<(), Failure> {
    output::line(&format!(
        "{} acknowledged ({}) in {:.2} s: {}",
        output::counted(summary.rows_acknowledged, "row"),
        output::bytes(summary.bytes),
        summary.seconds,
        progress::rate(summary.rows_acknowledged, summary.seconds),
    ))?;
    output::line(&format!(
        "{} of WAL entries, {} published",
        output::counted(summary.puts, "PUT"),
        output::counted(summary.generations, "SSTable"),
    ))?;
    if !summary.fsync {
        output::line(output::NOT_SYNCED)?;
    }
    Ok(())
}
