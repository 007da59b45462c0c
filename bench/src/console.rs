//! The terminal: results on stdout, progress on stderr.

use std::io::{self, Write};

/// Prints a line of the result.
pub fn say(text: &str) {
    // With stdout gone there is nobody left to tell.
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Prints a line of progress.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
