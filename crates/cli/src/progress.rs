//! How far a command is: a line for people on a terminal, lines of JSON for scripts that ingest, nothing
//! otherwise.

use std::future::Future;
use std::io::IsTerminal;
use std::pin::pin;
use std::time::Duration;

use headwater::EnvRef;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::Format;
use crate::error::Failure;
use crate::output;

/// A line of progress is printed after this time,
pub const EVERY: Duration = Duration::from_millis(200);
/// or after this many rows, whichever is first.
const EVERY_ROWS: u64 = 10_000;

/// Rows acknowledged so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Rows: an unbroken beginning of the input.
    pub rows: u64,
    /// Bytes they have in memory.
    pub bytes: u64,
}

/// One line of `ingest --format json`.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// So far.
    Progress {
        /// Rows acknowledged by this run: an unbroken beginning of what it reads.
        rows_acknowledged: u64,
        /// Bytes these rows have in memory.
        bytes: u64,
        /// `--skip-rows` to go on with after them.
        skip_rows: u64,
    },
    /// The end: every row is acknowledged (or, if `interrupted`, every row read).
    Done(&'a Summary),
    /// The end, after a failure.
    Error {
        /// Rows acknowledged by this run.
        rows_acknowledged: u64,
        /// `--skip-rows` to go on with after them.
        skip_rows: u64,
        /// What happened.
        message: String,
    },
}

/// What an ingest did.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Rows acknowledged by this run.
    pub rows_acknowledged: u64,
    /// Bytes these rows have in memory.
    pub bytes: u64,
    /// `--skip-rows` to go on with after them.
    pub skip_rows: u64,
    /// From the first row read to the last one acknowledged (opening and the last flush not counted).
    pub seconds: f64,
    /// Acknowledged rows in each of these seconds.
    pub rows_per_second: f64,
    /// PUTs of WAL entries.
    pub puts: u64,
    /// SSTables published.
    pub generations: u64,
    /// Whether files are synced to disk before rows are acknowledged.
    pub fsync: bool,
    /// Whether a signal ended it.
    pub interrupted: bool,
}

/// Shows how far an ingest is.
#[derive(Debug)]
pub struct Progress {
    env: EnvRef,
    format: Format,
    skipped: u64,
    bar: Option<ProgressBar>,
    started: Duration,
    shown: Acknowledged,
    shown_at: Duration,
}

impl Progress {
    pub fn new(env: EnvRef, format: Format, skipped: u64) -> Self {
        let shows = format == Format::Human && is_terminal();
        let bar = shows.then(|| spinner("{spinner} {human_pos} rows acknowledged, {msg}, {elapsed}"));
        let now = env.now();
        Self { env, format, skipped, bar, started: now, shown: Acknowledged::default(), shown_at: now }
    }

    /// Shows where things are, if it is time to.
    pub fn update(&mut self, now: Acknowledged) -> Result<(), Failure> {
        let time = self.env.now();
        let due = time.saturating_sub(self.shown_at) >= EVERY || now.rows - self.shown.rows >= EVERY_ROWS;
        if !due || now == self.shown {
            return Ok(());
        }
        (self.shown, self.shown_at) = (now, time);
        self.show(now)
    }

    fn show(&self, now: Acknowledged) -> Result<(), Failure> {
        if let Some(bar) = &self.bar {
            bar.set_position(now.rows);
            bar.set_message(format!("{}, {}", rate(now.rows, self.seconds()), output::bytes(now.bytes)));
        }
        if self.format == Format::Json {
            let skip_rows = self.skipped + now.rows;
            output::json_line(&Event::Progress { rows_acknowledged: now.rows, bytes: now.bytes, skip_rows })?;
        }
        Ok(())
    }

    /// Says that nothing is acknowledged yet because shards are being opened, for which so many WAL entries
    /// were read.
    pub fn opening(&self, entries_read: u64) {
        if let Some(bar) = self.bar.as_ref().filter(|_| entries_read > 0) {
            bar.set_message(format!("replaying the WAL: {} read", output::entries(entries_read)));
        }
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.env.now().saturating_sub(self.started).as_secs_f64()
    }

    /// Says that all rows are acknowledged and what is in memory becomes SSTables.
    pub fn flushing(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message("flushing");
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Prints the last line.
    pub fn print(&self, event: &Event<'_>) -> Result<(), Failure> {
        if self.format == Format::Json { output::json_line(event) } else { Ok(()) }
    }
}

/// Does `work` while a line on the terminal says what it is (asked for again and again) and how long it has
/// taken. Without a terminal nothing is said.
pub async fn shown<T>(env: &EnvRef, what: impl Fn() -> String, work: impl Future<Output = T>) -> T {
    if !is_terminal() {
        return work.await;
    }
    let bar = spinner("{spinner} {msg}, {elapsed}");
    let mut work = pin!(work);
    let done = loop {
        bar.set_message(what());
        tokio::select! {
            done = &mut work => break done,
            () = env.sleep(EVERY) => {}
        }
    };
    bar.finish_and_clear();
    done
}

fn is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

fn spinner(template: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(EVERY);
    bar
}

/// `27,380 rows/s`.
pub fn rate(rows: u64, seconds: f64) -> String {
    format!("{} rows/s", output::count(per_second(rows, seconds) as u64))
}

/// Rows in each second; as if a run took at least a millisecond.
pub fn per_second(rows: u64, seconds: f64) -> f64 {
    rows as f64 / seconds.max(0.001)
}
