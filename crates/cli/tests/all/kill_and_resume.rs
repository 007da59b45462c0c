//! A killed or interrupted ingest has kept everything it acknowledged, and `--skip-rows` goes on from there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::support::{HEADWATER, Home, ndjson, run, run_with};

/// An ingest that reads its standard input.
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(home: &Home, more: &[&str]) -> Self {
        Self::of(&mut Command::new(HEADWATER), home, more)
    }

    /// `command` with the arguments of an ingest behind those it has.
    fn of(command: &mut Command, home: &Home, more: &[&str]) -> Self {
        let mut child = command
            .args(["ingest", &home.table(), "-", "--format", "json", "--no-fsync"])
            .args(more)
            .env_remove("HEADWATER_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    fn feed(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
    }

    /// It ends, stopped by the signal it was sent, and says where to go on.
    fn ended_by(mut self, signal: &str, code: i32, rows: u64) {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).unwrap();
        let done: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
        assert_eq!((&done["event"], &done["interrupted"]), (&"done".into(), &true.into()));
        assert_eq!(done["skip_rows"], rows);
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        for word in [format!("--skip-rows {rows}"), format!("stopped by SIG{signal}")] {
            assert!(stderr.contains(&word), "{word} in {stderr}");
        }
    }

    /// Waits for progress of at least `rows`.
    fn wait_for(&mut self, rows: u64) -> u64 {
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the ingest ended early");
            let event: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(event["event"], "progress");
            let acknowledged = event["rows_acknowledged"].as_u64().unwrap();
            if acknowledged >= rows {
                return acknowledged;
            }
        }
    }
}

#[test]
fn a_killed_ingest_has_kept_what_it_acknowledged_and_is_resumed() {
    let home = Home::with_table(&[]);
    let mut running = Running::start(&home, &["--batch-rows", "10", "--set", "freeze.max_rows=400"]);
    running.feed(&ndjson(0..1000));
    let acknowledged = running.wait_for(500);
    running.child.kill().unwrap();
    let status = running.child.wait().unwrap();
    assert_eq!(status.code(), None, "SIGKILL, not an exit");

    let kept = home.read();
    let prefix: Vec<i64> = (0..i64::try_from(acknowledged).unwrap()).collect();
    assert!(prefix.iter().all(|id| kept.contains_key(id)), "{acknowledged} rows were acknowledged");

    let skip = acknowledged.to_string();
    run_with(&["ingest", &home.table(), "-", "--skip-rows", &skip], ndjson(0..1500).as_bytes()).ok();
    assert_eq!(home.read().into_keys().collect::<Vec<_>>(), (0..1500).collect::<Vec<_>>());
}

#[test]
fn ctrl_c_waits_for_rows_on_their_way_flushes_and_ends_with_130() {
    stopped_by("INT", 130);
}

#[test]
fn sigterm_waits_for_rows_on_their_way_flushes_and_ends_with_143() {
    stopped_by("TERM", 143);
}

#[test]
fn sighup_waits_for_rows_on_their_way_flushes_and_ends_with_129() {
    stopped_by("HUP", 129);
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let home = Home::with_table(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh", HEADWATER]);
    let mut running = Running::of(&mut shell, &home, &["--batch-rows", "10"]);
    running.feed(&ndjson(0..20));
    running.wait_for(20);
    running.signal("HUP");
    running.feed(&ndjson(20..40));
    running.wait_for(40);
    drop(running.stdin.take());
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(home.read().len(), 40);
}

#[test]
fn rows_that_came_are_written_though_a_batch_is_not_full() {
    let home = Home::with_table(&[]);
    let mut running = Running::start(&home, &["--batch-rows", "1000"]);
    // As a writer with a buffer leaves it: the rest of the last line is slow to come.
    running.feed("{\"id\": 0}\n{\"id\": 1}\n{\"id\": 2, \"na");
    assert_eq!(running.wait_for(2), 2);
    running.feed("me\": \"c\"}\n");
    running.wait_for(3);
    drop(running.stdin.take());
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(home.read().into_keys().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn the_whole_rows_that_came_before_a_signal_are_written_and_a_cut_line_is_no_error() {
    let home = Home::with_table(&[]);
    let mut running = Running::start(&home, &["--batch-rows", "8", "--batch-wait", "3600000"]);
    // At once, so that whoever has read the first row has read them all.
    running.feed(&format!("{}{{\"id\": 10, \"na", ndjson(0..10)));
    running.wait_for(8);
    running.signal("INT");
    running.ended_by("INT", 130, 10);
    assert_eq!(home.read().into_keys().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_named_pipe_is_read_as_it_comes_and_one_without_a_writer_does_not_keep_a_signal_waiting() {
    let home = Home::with_table(&[]);
    let (pipe, unused) = (home.name("pipe.csv"), home.name("unused"));
    assert!(Command::new("mkfifo").args([&pipe, &unused]).status().unwrap().success());
    let mut running = Running::start(&home, &[&pipe, &unused]);
    drop(running.stdin.take());
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    writer.write_all(b"id,name\n0,a\n1,b\n2").unwrap();
    assert_eq!(running.wait_for(2), 2);
    writer.write_all(b",c\n").unwrap();
    running.wait_for(3);
    drop(writer);
    running.signal("TERM");
    running.ended_by("TERM", 143, 3);
    assert_eq!(home.read()[&2].as_deref(), Some("c"));
}

fn stopped_by(signal: &str, code: i32) {
    let home = Home::with_table(&[]);
    let mut running = Running::start(&home, &["--batch-rows", "10"]);
    running.feed(&ndjson(0..200));
    running.wait_for(200);
    running.signal(signal);
    running.ended_by(signal, code, 200);
    let shard = home.inspect()["shards"][0].clone();
    assert_eq!(
        (&shard["wal"]["unflushed_rows"], shard["sstables"].as_array().unwrap().len()),
        (&0.into(), 1)
    );
}

#[test]
fn two_ingests_into_one_table_fence_each_other_and_say_so() {
    let home = Home::with_table(&[]);
    let mut older = Running::start(&home, &["--batch-rows", "10"]);
    older.feed(&ndjson(0..100));
    older.wait_for(100);
    let file = home.write("rows.ndjson", &ndjson(1000..1010));
    run(&["ingest", &home.table(), &file]).ok();

    older.feed(&ndjson(100..200));
    drop(older.stdin.take());
    let output = older.child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in [
        "taken over",
        "while writing standard input, rows 101 to 110",
        "100 rows acknowledged",
        "--skip-rows 100",
        "hint: another process writes",
    ] {
        assert!(stderr.contains(word), "{word} in {stderr}");
    }
    let report = home.inspect();
    let shard = report["shards"][0]["id"].as_str().unwrap();
    assert_eq!(stderr.matches(shard).count(), 1, "{stderr}");
    let mut expected: Vec<i64> = (0..100).collect();
    expected.extend(1000..1010);
    assert_eq!(home.read().into_keys().collect::<Vec<_>>(), expected);
}
