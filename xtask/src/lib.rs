//! Checks of this workspace on itself, as commands and as ordinary tests.
//!
//! Owns: the house rules a compiler does not know ([`tidy`]) and what dependencies may be and come from
//! ([`licences`]). Does not own: bans of single functions, which `clippy.toml` states, and formatting.
//! Called by `cargo xtask` and by the tests beside this crate.

pub mod licences;
pub mod source;
pub mod tidy;
pub mod workspace;

/// Something a rule does not allow, at a place a person can open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path below the workspace root, with `/`.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong, and what to do instead where that is not plain.
    pub message: String,
}

impl Finding {
    /// A finding at a line of a file.
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A check could not be carried out at all.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A file or folder could not be read.
    #[error("{path} cannot be read: {source}")]
    Read {
        /// The file or folder.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A Cargo manifest is no TOML.
    #[error("{path} is no valid manifest: {source}")]
    Manifest {
        /// The manifest.
        path: String,
        /// What the parser said.
        source: toml::de::Error,
    },
    /// `cargo metadata` failed.
    #[error("cargo metadata failed: {reason}")]
    Metadata {
        /// What cargo said.
        reason: String,
    },
}
