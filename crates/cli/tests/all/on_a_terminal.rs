//! What commands that take their time show on a terminal, and that they show nothing elsewhere.

use std::process::{Command, Stdio};

use crate::python::python;
use crate::support::{Ended, HEADWATER, Home, run};

/// What the command shows on a terminal.
fn shown(arguments: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/on_a_terminal.py");
    let mut command = Command::new(python());
    command.args([script, HEADWATER]).args(arguments).arg("--no-fsync");
    command.env_remove("HEADWATER_LOG").env("TERM", "xterm").stdin(Stdio::null());
    Ended::of(command.output().unwrap()).ok().stdout
}

#[test]
fn replay_flush_and_inspect_say_what_they_do_on_a_terminal_only() {
    let home = Home::with_table(&[]);
    let (table, file) = (home.table(), home.parquet("rows.parquet", 0..100));
    let ingest = ["ingest", &table, &file, "--batch-rows", "10", "--no-flush"];
    run(&ingest).ok();
    let text = shown(&["inspect", &table]);
    assert!(text.contains("reading manifests and WAL entries"), "{text:?}");
    assert_eq!(run(&["inspect", &table]).ok().stderr, "");

    let text = shown(&["flush", &table]);
    assert!(text.contains("replaying the WAL") && text.contains("flushing 1 shard"), "{text:?}");
    run(&ingest).ok();
    assert_eq!(run(&["flush", &table]).ok().stderr, "");
}
