//! The Python of the tests. Those of other crates name this file as a module of theirs.

use std::env::var_os;
use std::path::PathBuf;

/// `$HEADWATER_PYTHON`, else the one that `make venv` makes.
///
/// # Panics
/// When it is not there.
pub fn python() -> PathBuf {
    let made =
        || PathBuf::from(var_os("HOME").expect("HOME is set")).join(".cache/headwater/venv/bin/python");
    let python = var_os("HEADWATER_PYTHON").map_or_else(made, PathBuf::from);
    assert!(python.exists(), "{} is missing: run `make venv`", python.display());
    python
}
