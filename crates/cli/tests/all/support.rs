//! What the tests share: running the command, input files, and reading tables back through pylance.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use serde_json::Value;
use tempfile::TempDir;

use crate::python::python;

/// A directory with input files and one table, gone at the end of the test.
pub struct Home {
    directory: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// With an initialised, empty table (id: Int64 key, name: Utf8).
    pub fn with_table(arguments: &[&str]) -> Self {
        let home = Self::new();
        home.parquet("columns.parquet", 0..1);
        let table = home.table();
        let columns = home.path("columns.parquet").display().to_string();
        let mut all = vec!["init", &table, "--schema", &columns, "--key", "id"];
        all.extend(arguments);
        run(&all).ok();
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn table(&self) -> String {
        self.name("table")
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.name(name)
    }

    /// A Parquet file of `(id, "name of id")`.
    pub fn parquet(&self, name: &str, ids: std::ops::Range<i64>) -> String {
        let names: StringArray = ids.clone().map(|id| Some(format!("name of {id}"))).collect();
        self.parquet_of(name, Arc::new(Int64Array::from_iter_values(ids)), Arc::new(names))
    }

    pub fn parquet_of(&self, name: &str, ids: ArrayRef, names: ArrayRef) -> String {
        let batch =
            RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("name", names, true)]).unwrap();
        let mut writer =
            ArrowWriter::try_new(File::create(self.path(name)).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        self.name(name)
    }

    /// `headwater inspect --format json`.
    pub fn inspect(&self) -> Value {
        serde_json::from_str(&run(&["inspect", &self.table(), "--format", "json"]).ok().stdout).unwrap()
    }

    /// Flushes and reads the table through pylance's LsmScanner: names by id.
    pub fn read(&self) -> BTreeMap<i64, Option<String>> {
        run(&["flush", &self.table()]).ok();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/peer/read_sstables.py");
        let mut child = Command::new(python())
            .args([script.as_os_str(), "id".as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(self.inspect().to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().lines().map(row).collect()
    }
}

fn row(line: &str) -> (i64, Option<String>) {
    let row: Value = serde_json::from_str(line).unwrap();
    (row["id"].as_i64().unwrap(), row["name"].as_str().map(str::to_owned))
}

/// How a run of the command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// It succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// It failed with this exit code and said all of these words on stderr.
    #[track_caller]
    pub fn failed(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "stderr says {word}: {self:?}");
        }
        self
    }

    /// It said none of these words on stderr.
    #[track_caller]
    pub fn without(self, words: &[&str]) -> Self {
        for word in words {
            assert!(!self.stderr.contains(word), "stderr does not say {word}: {self:?}");
        }
        self
    }

    /// The last line of `ingest --format json`.
    #[track_caller]
    pub fn last_event(&self) -> Value {
        serde_json::from_str(self.stdout.lines().last().unwrap()).unwrap()
    }
}

pub const HEADWATER: &str = env!("CARGO_BIN_EXE_headwater");

pub fn command(arguments: &[&str]) -> Command {
    let mut command = bare_command(arguments);
    // Without fsync: these tests kill processes, not machines.
    command.arg("--no-fsync");
    command
}

/// The command with these arguments only.
pub fn bare_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(HEADWATER);
    command.args(arguments).env_remove("HEADWATER_LOG");
    command
}

/// Runs the command with nothing on standard input.
pub fn run(arguments: &[&str]) -> Ended {
    Ended::of(command(arguments).stdin(Stdio::null()).output().unwrap())
}

/// Runs the command with these arguments only, and nothing on standard input.
pub fn run_bare(arguments: &[&str]) -> Ended {
    Ended::of(bare_command(arguments).stdin(Stdio::null()).output().unwrap())
}

/// Runs the command with `input` on standard input.
pub fn run_with(arguments: &[&str], input: &[u8]) -> Ended {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::Builder::new().spawn(move || {
        // A command that refuses its arguments does not read to the end.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    feeder.unwrap().join().unwrap();
    Ended::of(output)
}

/// NDJSON of `(id, "name of id")`.
pub fn ndjson(ids: std::ops::Range<i64>) -> String {
    ids.map(|id| format!("{{\"id\": {id}, \"name\": \"name of {id}\"}}\n")).collect()
}
