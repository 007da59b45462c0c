//! LanceDB embedded, in a process of its own, through its Python package.
//!
//! Owns: [`run`], what is asked and answered. Does not own: what it does (`python/lancedb_embedded.py`).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::race::Sample;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/lancedb_embedded.py");
/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// A commit of the table for each request.
    Plain,
    /// LanceDB's own write tier, which is the reference MemWAL.
    MemWal,
}

/// One run on a new table.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// How.
    pub path: Way,
    /// The file with the batches; the last is written before the clock starts.
    pub batches: PathBuf,
    /// Writers, each in a closed loop.
    pub writers: usize,
    /// For how long.
    pub seconds: f64,
    /// Settings of the MemWAL's writer.
    pub defaults: BTreeMap<String, String>,
}

/// How a run went.
#[derive(Clone, Debug, Deserialize)]
pub struct Answer {
    rows: u64,
    seconds: f64,
    latencies_ms: Vec<f64>,
    /// Requests that failed: conflicts.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
}

impl Answer {
    /// Its value is rows a second.
    pub fn sample(self) -> Sample {
        Sample {
            value: self.rows as f64 / self.seconds,
            seconds: self.seconds,
            latencies_ms: self.latencies_ms,
            ..Sample::default()
        }
    }
}

/// Settings under which nothing is frozen while it is measured, and the WAL is flushed so often.
pub fn settings(interval_ms: u64) -> BTreeMap<String, String> {
    // It reserves memory by some of these, so they are what is needed, not the most there can be.
    let settings = [
        ("max_wal_flush_interval_ms", interval_ms),
        ("max_memtable_rows", 10_000_000),
        ("max_memtable_batches", 1_000_000),
        ("max_memtable_size", 8_000_000_000),
        ("max_unflushed_memtable_bytes", 16_000_000_000),
    ];
    settings.map(|(name, value)| (name.to_owned(), value.to_string())).into()
}

/// Writes batches where a case finds them.
pub fn write(path: &Path, batches: &[RecordBatch]) -> Result<()> {
    let first = batches.first().context("there are no batches")?;
    let mut writer = FileWriter::try_new_buffered(File::create(path)?, &first.schema())?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.finish()?)
}

/// Runs cases one after the other, with tables in `directory`, by this `python`.
pub async fn run(python: &Path, directory: &Path, cases: &[Case]) -> Result<Vec<Answer>> {
    let mut command = Command::new(python);
    command.arg(SCRIPT).arg(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut started = command.spawn().with_context(|| python.display().to_string())?;
    let mut stdin = started.stdin.take().context("Python has no input")?;
    stdin.write_all(&serde_json::to_vec(cases)?).await?;
    drop(stdin);
    let output = started.wait_with_output().await?;
    ensure!(output.status.success(), "{SCRIPT} ended with {}: has it LanceDB?", output.status);
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let answers = lines.map(serde_json::from_slice).collect::<Result<Vec<Answer>, _>>()?;
    ensure!(answers.len() == cases.len(), "{} of {} cases were answered", answers.len(), cases.len());
    Ok(answers)
}
