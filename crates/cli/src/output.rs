//! What is printed: results on stdout, everything else on stderr.
//!
//! Owns: printing and its failures. A reader that goes away (`| head`) ends the output, not the command.

use std::io::{self, Write};
use std::process::ExitCode;

use humansize::{BINARY, format_size};
use serde::Serialize;

use crate::error::Failure;

/// Prints one line on stdout, at once.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::io("standard output", &error))
        }
        _ => Ok(()),
    }
}

/// Prints a value as one line of JSON, at once.
pub fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    line(&encode(serde_json::to_string(value))?)
}

/// Prints a value as JSON over several lines.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    line(&encode(serde_json::to_string_pretty(value))?)
}

fn encode(encoded: Result<String, serde_json::Error>) -> Result<String, Failure> {
    encoded.map_err(|error| Failure::Io { file: "standard output".to_owned(), reason: error.to_string() })
}

/// Says something on stderr.
pub fn note(text: &str) {
    // With stderr gone there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says why the command failed; the exit code to end with.
pub fn failed(failure: &Failure) -> ExitCode {
    note(&format!("error: {failure}"));
    if let Some(advice) = failure.advice() {
        note(&format!("hint: {advice}"));
    }
    ExitCode::from(failure.exit_code())
}

/// `1234567` as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes as `1.5 MiB`.
pub fn bytes(number: u64) -> String {
    format_size(number, BINARY)
}

/// A number and its noun, in the plural unless it is one.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// WAL entries, as `1 entry` or `2 entries`.
pub fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{} entries", count(number)) }
}

/// Said wherever rows are written without syncing files.
pub const NOT_SYNCED: &str =
    "files are not synced to disk (--no-fsync): a power cut can lose acknowledged rows";
