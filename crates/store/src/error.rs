//! What can go wrong with storage, typed.
//!
//! Owns: [`StoreError`] and the one place where errors of `object_store` are sorted into kinds. Error text is
//! never looked at: variants, and [`std::io::ErrorKind`] found by walking the source chain, decide. Keeps
//! P14. Called by everything in this crate; other crates see [`StoreError`] only.

use std::error::Error;
use std::io;
use std::sync::Arc;

/// The cause below a [`StoreError`], shared so that errors can be cloned.
pub type Source = Arc<dyn Error + Send + Sync>;

/// Why storage did not do what was asked. Paths are relative to the store's root.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Storage did not answer, or not in a usable way, within the retry budget.
    #[error("storage unavailable at {path} after {attempts} attempts: {source}")]
    Unavailable {
        /// The object or prefix.
        path: String,
        /// Requests made.
        attempts: u32,
        /// The last failure.
        source: Source,
    },
    /// Credentials or file permissions do not allow it.
    #[error(
        "permission denied at {path}: check the credentials or the permissions of the directory: {source}"
    )]
    PermissionDenied {
        /// The object or prefix.
        path: String,
        /// What the store said.
        source: Source,
    },
    /// The file system is mounted read-only.
    #[error("the file system is read-only at {path}: make it writable, then try again: {source}")]
    ReadOnly {
        /// The object or prefix.
        path: String,
        /// What the store said.
        source: Source,
    },
    /// The disk is full or a quota is used up. Nothing was written; writing goes on once there is space.
    #[error("no space left to write {path}: free space or raise the quota, then try again: {source}")]
    Full {
        /// The object or prefix.
        path: String,
        /// What the store said.
        source: Source,
    },
    /// The store cannot do an operation Headwater depends on.
    #[error("the store does not support what {path} needs (put-if-absent, get, list, delete): {source}")]
    NotSupported {
        /// The object or prefix.
        path: String,
        /// What the store said.
        source: Source,
    },
    /// The request itself is wrong; trying again will not help.
    #[error("invalid request for {path}: {reason}")]
    Invalid {
        /// The object or prefix as given.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An object is there but cannot be what its name says.
    #[error("corrupt object {path}: {reason}")]
    Corrupt {
        /// The object.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A failure of the process rather than of storage, such as a panicked blocking task.
    #[error("internal failure at {path}: {source}")]
    Other {
        /// The object or prefix.
        path: String,
        /// What failed.
        source: Source,
    },
}

impl StoreError {
    /// An [`StoreError::Invalid`].
    pub fn invalid(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { path: path.into(), reason: reason.into() }
    }

    /// A [`StoreError::Corrupt`].
    pub fn corrupt(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Corrupt { path: path.into(), reason: reason.into() }
    }

    /// An [`StoreError::Other`].
    pub fn other(path: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Other { path: path.into(), source: Arc::new(source) }
    }

    /// Whether the same request may succeed later although nobody changes the request, the credentials or the
    /// configuration: storage answers again, or space returns.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full { .. })
    }

    /// The object or prefix at fault, relative to the store's root.
    pub fn path(&self) -> &str {
        match self {
            Self::Unavailable { path, .. }
            | Self::PermissionDenied { path, .. }
            | Self::ReadOnly { path, .. }
            | Self::Full { path, .. }
            | Self::NotSupported { path, .. }
            | Self::Invalid { path, .. }
            | Self::Corrupt { path, .. }
            | Self::Other { path, .. } => path,
        }
    }

    /// Sorts an I/O error met at `path` outside of `object_store`.
    pub fn from_io(path: impl Into<String>, error: io::Error) -> Self {
        let path = path.into();
        match IoKind::of(&error) {
            Some(kind) => kind.error(path, Arc::new(error)),
            None => Self::Unavailable { path, attempts: 1, source: Arc::new(error) },
        }
    }
}

/// No usable answer came in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no answer within {after_ms} ms")]
pub struct NoAnswer {
    /// How long was waited.
    pub after_ms: u64,
}

/// A body ended before the size its object was announced with.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("body of {received} bytes for an object of {announced} bytes")]
pub struct ShortBody {
    /// Size in the object's metadata.
    pub announced: u64,
    /// Bytes received.
    pub received: u64,
}

/// A write may be visible but is not known to be on stable storage. Only [`crate::local`] raises it; put-once
/// does not take reading the object back as proof then, it writes again until the sync succeeds.
#[derive(Debug, thiserror::Error)]
#[error("cannot sync {path} to disk: {source}")]
pub struct NotSynced {
    /// Path on the file system.
    pub path: String,
    /// What the operating system said.
    pub source: io::Error,
}

/// What a failed request means for what to do next.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no such object.
    Missing(StoreError),
    /// A condition did not hold. On its own it decides nothing: it can be our own earlier attempt.
    Exists(StoreError),
    /// The write may be visible but is not durable yet ([`NotSynced`]).
    NotSynced(StoreError),
    /// No telling whether the request was applied; try again.
    Ambiguous(StoreError),
    /// The store refuses: trying again does not help.
    Refused(StoreError),
}

impl Failure {
    /// The error by itself.
    pub fn into_error(self) -> StoreError {
        match self {
            Self::Missing(error)
            | Self::Exists(error)
            | Self::NotSynced(error)
            | Self::Ambiguous(error)
            | Self::Refused(error) => error,
        }
    }

    /// The failure of one request that got no usable answer, the `attempts`th.
    pub fn unanswered(path: &str, attempts: u32, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Ambiguous(StoreError::Unavailable { path: path.to_owned(), attempts, source: Arc::new(source) })
    }

    /// Sorts what `object_store` said to the `attempts`th request for `path`.
    pub fn of(path: &str, attempts: u32, error: object_store::Error) -> Self {
        use object_store::Error as Said;
        let path = path.to_owned();
        let unavailable = |source: Source| StoreError::Unavailable { path: path.clone(), attempts, source };
        match error {
            Said::NotFound { .. } => Self::Missing(unavailable(Arc::new(error))),
            Said::AlreadyExists { .. } | Said::Precondition { .. } | Said::NotModified { .. } => {
                Self::Exists(unavailable(Arc::new(error)))
            }
            Said::PermissionDenied { .. } | Said::Unauthenticated { .. } => {
                Self::Refused(StoreError::PermissionDenied { path, source: Arc::new(error) })
            }
            Said::NotSupported { .. } | Said::NotImplemented { .. } => {
                Self::Refused(StoreError::NotSupported { path, source: Arc::new(error) })
            }
            Said::InvalidPath { .. } | Said::UnknownConfigurationKey { .. } => {
                Self::Refused(StoreError::Invalid { path, reason: error.to_string() })
            }
            error => Self::of_other(path, attempts, error),
        }
    }

    /// Sorts the errors `object_store` has no variant for, by the I/O error in their source chain.
    fn of_other(path: String, attempts: u32, error: object_store::Error) -> Self {
        let not_synced = chain(&error).any(|cause| cause.is::<NotSynced>());
        let kind = IoKind::of(&error);
        let source: Source = Arc::new(error);
        let sorted = match kind {
            Some(IoKind::NoSuchDirectory) => {
                return Self::Missing(StoreError::Unavailable { path, attempts, source });
            }
            Some(kind) => kind.error(path, source),
            None => StoreError::Unavailable { path, attempts, source },
        };
        match sorted {
            sorted if not_synced => Self::NotSynced(sorted),
            StoreError::Unavailable { .. } => Self::Ambiguous(sorted),
            _ => Self::Refused(sorted),
        }
    }
}

/// The kinds of I/O errors that say more than "try again".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IoKind {
    Full,
    ReadOnly,
    Denied,
    /// A parent of the path is a file, so there can be no such object.
    NoSuchDirectory,
}

impl IoKind {
    /// The first telling I/O error in the source chain of `error`, itself included.
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        chain(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).find_map(|cause| {
            match cause.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Self::Full),
                io::ErrorKind::ReadOnlyFilesystem => Some(Self::ReadOnly),
                io::ErrorKind::PermissionDenied => Some(Self::Denied),
                io::ErrorKind::NotADirectory => Some(Self::NoSuchDirectory),
                _ => None,
            }
        })
    }

    fn error(self, path: String, source: Source) -> StoreError {
        match self {
            Self::Full => StoreError::Full { path, source },
            Self::ReadOnly => StoreError::ReadOnly { path, source },
            Self::Denied => StoreError::PermissionDenied { path, source },
            Self::NoSuchDirectory => {
                StoreError::Invalid { path, reason: "a parent of it is a file, not a directory".to_owned() }
            }
        }
    }
}

/// `error` and its sources, outermost first.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |cause: &&'a (dyn Error + 'static)| (*cause).source())
}

#[cfg(test)]
mod tests;
