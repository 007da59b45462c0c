//! Why a command failed, for people: what, where (file, row, setting), and what to do.

use std::fmt;
use std::io;

use headwater::{Error, ShardError};

use crate::input::InputError;
use crate::signals::Stop;

/// A failed command.
#[derive(Debug)]
pub enum Failure {
    /// Arguments that cannot be meant.
    Usage(String),
    /// The library refused.
    Table(Box<Error>),
    /// An input file is at fault.
    Input(InputError),
    /// A write failed; `rows` says which.
    Write {
        /// File and rows, for people.
        rows: String,
        /// What the library said.
        source: Box<Error>,
    },
    /// A file that is no input could not be read or written.
    Io {
        /// Its name.
        file: String,
        /// What the operating system said.
        reason: String,
    },
    /// A table that was verified is not sound; what is wrong was printed.
    Broken {
        /// The table.
        table: String,
        /// How much is wrong.
        findings: u64,
    },
    /// A server could not be started, or not go down in order.
    Server(String),
    /// A signal asked it to stop.
    Stopped(Stop),
    /// Any of the above, after some rows of an ingest.
    After {
        /// What happened.
        failure: Box<Failure>,
        /// How far it came and how to go on.
        progress: String,
    },
}

impl Failure {
    /// Arguments that cannot be meant.
    pub fn usage(reason: impl Into<String>) -> Self {
        Self::Usage(reason.into())
    }

    /// A file that could not be read or written.
    pub fn io(file: &str, error: &io::Error) -> Self {
        Self::Io { file: file.to_owned(), reason: error.to_string() }
    }

    /// What the process ends with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Table(error) if matches!(**error, Error::StorageOption { .. }) => 2,
            Self::Stopped(signal) => signal.exit_code(),
            Self::After { failure, .. } => failure.exit_code(),
            _ => 1,
        }
    }

    /// What to do about it, where the message does not say.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Table(error) | Self::Write { source: error, .. } => error.advice(),
            Self::After { failure, .. } => failure.advice(),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(reason) | Self::Server(reason) => f.write_str(reason),
            Self::Table(error) => error.fmt(f),
            Self::Input(error) => error.fmt(f),
            Self::Write { rows, source } if is_about_rows(source) => write!(f, "{rows}: {source}"),
            Self::Write { rows, source } => write!(f, "{source} (while writing {rows})"),
            Self::Io { file, reason } => write!(f, "{file}: {reason}"),
            Self::Broken { table, findings } => {
                write!(f, "{table} is not sound: {}", crate::output::counted(*findings, "finding"))
            }
            Self::Stopped(signal) => write!(f, "stopped by {signal}"),
            Self::After { failure, progress } => write!(f, "{failure}\n{progress}"),
        }
    }
}

/// Whether a write failed for what its rows are, and not for what happened to the shard or to storage.
fn is_about_rows(error: &Error) -> bool {
    match error {
        Error::Rows { .. } => true,
        error => matches!(error.shard_error(), Some(ShardError::Invalid { .. })),
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Table(Box::new(error))
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

#[cfg(test)]
mod tests {
    use headwater::coord::{Epoch, ShardId};

    use super::*;

    const SHARD: &str = "6f0a2d5e-3b1c-4c7e-9a51-0d8f2b7c4e11";

    #[allow(clippy::unwrap_used)]
    fn write_failed(source: impl Fn(ShardId) -> ShardError) -> Failure {
        let shard: ShardId = SHARD.parse().unwrap();
        let source = Error::Shard { table: "t.lance".to_owned(), shard, source: source(shard) };
        Failure::Write { rows: "rows.ndjson, rows 1 to 10".to_owned(), source: Box::new(source) }
    }

    #[test]
    fn rows_are_blamed_for_what_they_are_only() {
        let invalid = write_failed(|_| ShardError::invalid("a null"));
        assert!(invalid.to_string().starts_with("rows.ndjson, rows 1 to 10: "), "{invalid}");
        let conflict = write_failed(|shard| ShardError::Conflict { shard, reason: "claimed".to_owned() });
        let text = conflict.to_string();
        assert!(text.starts_with("table t.lance: "), "{text}");
        assert!(text.contains("while writing rows.ndjson, rows 1 to 10"), "{text}");
        assert!(conflict.advice().is_some_and(|advice| advice.contains("one writer")), "{conflict:?}");
    }

    #[test]
    fn a_shard_is_named_once() {
        let (ours, theirs) = (Epoch::new(1), Epoch::new(2));
        for failure in [
            write_failed(|shard| ShardError::Fenced { shard, ours, theirs }),
            write_failed(|shard| ShardError::Closed { shard }),
            write_failed(|_| ShardError::Unavailable { reason: "no answer".to_owned() }),
        ] {
            assert_eq!(failure.to_string().matches(SHARD).count(), 1, "{failure}");
        }
    }
}
