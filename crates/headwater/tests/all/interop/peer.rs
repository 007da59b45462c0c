//! pylance in a process of its own, which lives as long as a test needs it: `scripts/peer/obey.py`.
//!
//! One process serves a whole test, however many tables it has: importing pylance takes longer than most of
//! what is asked of it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::tables::{Kind, Model, Row, Step, lists};
use crate::python::python;
use crate::support::Home;

/// A shard id as the peer's users pick them: at random, so none that we would derive.
pub const THEIR_SHARD: &str = "6f1d1c9e-6f0b-4a57-9f53-2f6f6f3f7c11";

/// The peer. Killed when the test lets go of it.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What it says on standard error: a file never fills up, as a pipe that nobody reads would.
    complaints: File,
}

impl Peer {
    pub fn start() -> Self {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/peer/obey.py");
        let complaints = tempfile::tempfile().unwrap();
        let mut command = Command::new(python());
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::from(complaints.try_clone().unwrap()));
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, complaints }
    }

    /// What the script answers to a command; what pylance raised, as an error.
    #[track_caller]
    pub fn ask(&mut self, command: &str, mut arguments: Value) -> Result<Value, String> {
        arguments["do"] = json!(command);
        let sent = writeln!(self.input, "{arguments}");
        assert!(sent.is_ok(), "{command}: {sent:?}: {}", self.complaint());
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{command}: the peer is gone: {}", self.complaint());
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        match answer.get("error") {
            Some(error) => Err(error.as_str().unwrap().to_owned()),
            None => Ok(answer["ok"].take()),
        }
    }

    /// The same, where pylance must not object.
    #[track_caller]
    pub fn tell(&mut self, command: &str, arguments: Value) -> Value {
        self.ask(command, arguments).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    fn complaint(&self) -> String {
        let (mut file, mut text) = (&self.complaints, String::new());
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    /// A table made by pylance alone, with these rows in its base.
    pub fn create(&mut self, table: &str, kind: &Kind, base: &[Row]) {
        self.tell(
            "create",
            json!({
                "table": table,
                "fields": kind.fields(),
                "rows": lists(&kind.rows(base)),
                "sharding": {"unsharded": true},
            }),
        );
    }

    /// Claims a shard with pylance's writer, at its default limits, and lets it replay.
    pub fn open(&mut self, table: &str, shard: &str) {
        self.tell("open_writer", json!({"table": table, "shard": shard, "knobs": {}}));
    }

    pub fn play(&mut self, table: &str, kind: &Kind, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Put(rows) => {
                    self.tell("put", json!({"table": table, "rows": lists(&kind.rows(rows))}));
                }
                Step::Delete(codes) => {
                    let keys = lists(&kind.keys(codes));
                    self.tell("delete", json!({"table": table, "columns": kind.key_names(), "rows": keys}));
                }
            }
        }
    }

    /// All rows its open writer sees, over all tiers.
    pub fn scan(&mut self, table: &str, kind: &Kind) -> Model {
        kind.model(&self.tell("scan", json!({"table": table})))
    }

    pub fn close(&mut self, table: &str) {
        self.tell("close", json!({"table": table}));
    }

    /// All rows of base and SSTables by its LsmScanner, whoever wrote them: as the script answers.
    pub async fn read(&mut self, home: &Home) -> Value {
        let report = serde_json::to_value(home.inspect().await).unwrap();
        self.tell("read", json!({"report": report}))
    }

    /// Ends the process as a crash does: nothing is flushed and nothing closed, on any of its tables.
    pub fn die(mut self) {
        writeln!(self.input, "{}", json!({"do": "die"})).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "it died of something else: {status}: {}", self.complaint());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
