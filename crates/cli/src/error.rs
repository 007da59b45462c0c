//! Why a command failed, for people: what, where (file, row, setting), and what to do.

use std::fmt;
use std::io;

use headwater::Error;

use crate::input::InputError;

/// A failed command.
#[derive(Debug)]
pub enum Failure {
    /// Arguments that cannot be meant.
    Usage(String),
    /// The library refused.
    Table(Error),
    /// An input file is at fault.
    Input(InputError),
    /// A write failed; `rows` says which.
    Write {
        /// File and rows, for people.
        rows: String,
        /// What the library said.
        source: Error,
    },
    /// A file that is no input could not be read or written.
    Io {
        /// Its name.
        file: String,
        /// What the operating system said.
        reason: String,
    },
    /// The user pressed ctrl-c.
    Interrupted,
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
            Self::Interrupted => 130,
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
            Self::Usage(reason) => f.write_str(reason),
            Self::Table(error) => error.fmt(f),
            Self::Input(error) => error.fmt(f),
            Self::Write { rows, source } => write!(f, "{rows}: {source}"),
            Self::Io { file, reason } => write!(f, "{file}: {reason}"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::After { failure, progress } => write!(f, "{failure}\n{progress}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Table(error)
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}
