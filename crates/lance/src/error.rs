//! What Lance and the store say, as [`TableError`].
//!
//! Decides by the kind of an error and by the storage errors behind it, never by text (P14). The places in
//! Lance's source that its errors end with are left out: they tell a user nothing, and name directories of
//! the machine that built it.

use std::error::Error as StdError;

use headwater_engine::table::TableError;
use headwater_store::StoreError;

/// What storage itself reported somewhere behind an error.
enum Storage {
    NotFound,
    /// A file where a directory should be.
    NoDirectory,
    Refused(String),
    Failed(String),
}

/// What storage reported, looking through the whole chain of sources: the deepest definite answer, else the
/// first failure. Layers wrap a "not found" into general errors.
fn storage_cause(error: &(dyn StdError + 'static)) -> Option<Storage> {
    let inner = wrapped(error).or_else(|| error.source());
    match inner.and_then(storage_cause) {
        Some(definite @ (Storage::NotFound | Storage::NoDirectory | Storage::Refused(_))) => Some(definite),
        inner => own_cause(error).or(inner),
    }
}

/// What transparent wrappers hold: their `source` is the source of what they wrap, not what they wrap.
fn wrapped<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    use lance_core::Error as E;
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        return io.get_ref().map(|wrapped| wrapped as _);
    }
    match error.downcast_ref::<lance_core::Error>() {
        Some(E::Shared { source }) => Some(source.as_ref()),
        Some(E::External { source }) => Some(source.as_ref()),
        _ => None,
    }
}

fn own_cause(error: &(dyn StdError + 'static)) -> Option<Storage> {
    use lance_core::Error as E;
    if let Some(store) = error.downcast_ref::<object_store::Error>() {
        return Some(object_store_cause(store));
    }
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        return io_cause(io);
    }
    match error.downcast_ref::<lance_core::Error>() {
        Some(E::NotFound { .. }) => Some(Storage::NotFound),
        _ => None,
    }
}

fn object_store_cause(error: &object_store::Error) -> Storage {
    use object_store::Error as E;
    match error {
        E::NotFound { .. } => Storage::NotFound,
        E::PermissionDenied { .. }
        | E::Unauthenticated { .. }
        | E::NotSupported { .. }
        | E::NotImplemented { .. }
        | E::InvalidPath { .. } => Storage::Refused(said(error)),
        E::Generic { source, .. } if is_of_credentials(source.as_ref()) => {
            // All that was tried, over many lines.
            tracing::info!(%error, "no credentials");
            Storage::Failed(NO_CREDENTIALS.to_owned())
        }
        _ => Storage::Failed(said(error)),
    }
}

/// What is said where the store has no credentials.
const NO_CREDENTIALS: &str = "no usable credentials were found: give the storage options aws_access_key_id \
    and aws_secret_access_key, or have them in the environment or a profile of the AWS tools";

/// Whether Lance's provider of credentials failed: the one place where a store hands on an error of Lance's
/// own that is about input and output.
fn is_of_credentials(source: &(dyn StdError + Send + Sync + 'static)) -> bool {
    matches!(source.downcast_ref::<lance_core::Error>(), Some(lance_core::Error::IO { .. }))
}

/// What an error says, without the places in Lance's source. Layers write the errors below them into their
/// own text, so no chain of sources has all of them.
fn said(error: &(dyn StdError + 'static)) -> String {
    without_places(&error.to_string())
}

/// `text` without what reads `, path/of/a/source.rs:line:column`, with or without `location:` before the
/// path.
pub fn without_places(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(SOURCE) {
        match (before.rsplit_once(", "), after_place(after)) {
            (Some((head, path)), Some(after)) if is_path(path) => {
                kept.push_str(head);
                rest = after;
            }
            _ => {
                kept.push_str(before);
                kept.push_str(SOURCE);
                rest = after;
            }
        }
    }
    kept + rest
}

/// How the name of a file of source ends in a place.
const SOURCE: &str = ".rs:";

fn is_path(text: &str) -> bool {
    !text.trim_start_matches("location: ").contains([' ', '"', '\''])
}

/// What follows `line:column`.
fn after_place(text: &str) -> Option<&str> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let after = text.get(digits(text)..)?.strip_prefix(':')?;
    after.get(digits(after)..)
}

/// `None` for kinds that tell about the content of a file rather than about storage.
fn io_cause(error: &std::io::Error) -> Option<Storage> {
    use std::io::ErrorKind as K;
    match error.kind() {
        K::NotFound => Some(Storage::NotFound),
        K::NotADirectory => Some(Storage::NoDirectory),
        K::PermissionDenied | K::ReadOnlyFilesystem => Some(Storage::Refused(said(error))),
        K::UnexpectedEof | K::InvalidData | K::InvalidInput | K::Other => None,
        _ => Some(Storage::Failed(said(error))),
    }
}

fn from_storage(path: &str, cause: Storage) -> TableError {
    match cause {
        Storage::NotFound => TableError::NotFound { path: path.to_owned() },
        Storage::NoDirectory => {
            TableError::invalid(format!("{path} is a file, or below one: a Lance table is a directory"))
        }
        Storage::Refused(reason) => TableError::invalid(format!("storage refuses {path}: {reason}")),
        Storage::Failed(reason) => TableError::Unavailable { path: path.to_owned(), reason },
    }
}

/// An error of an operation on a table, such as open or commit. `path` is how the table is called in it.
pub fn of_table(path: &str, error: lance_core::Error) -> TableError {
    use lance_core::Error as E;
    let error = unshare(&error);
    match error {
        E::NotFound { .. } | E::DatasetNotFound { .. } => {
            return TableError::NotFound { path: path.to_owned() };
        }
        E::CorruptFile { path: file, source, .. } => {
            return TableError::Corrupt { path: file.to_string(), reason: said(source.as_ref()) };
        }
        _ => {}
    }
    if let Some(cause) = storage_cause(error) {
        return from_storage(path, cause);
    }
    match error {
        E::IO { .. }
        | E::Timeout { .. }
        | E::CommitConflict { .. }
        | E::RetryableCommitConflict { .. }
        | E::TooMuchWriteContention { .. } => {
            TableError::Unavailable { path: path.to_owned(), reason: said(error) }
        }
        _ => TableError::invalid(format!("{path}: {}", said(error))),
    }
}

/// An error while reading an immutable file below a table: what is not storage's doing is the file's fault.
pub(crate) fn of_file(path: &str, error: lance_core::Error) -> TableError {
    use lance_core::Error as E;
    let error = unshare(&error);
    if matches!(error, E::NotFound { .. }) {
        return TableError::NotFound { path: path.to_owned() };
    }
    match storage_cause(error) {
        Some(cause) => from_storage(path, cause),
        None => TableError::Corrupt { path: path.to_owned(), reason: said(error) },
    }
}

/// The error behind shared handles of it.
fn unshare(error: &lance_core::Error) -> &lance_core::Error {
    let mut error = error;
    while let lance_core::Error::Shared { source } = error {
        error = source;
    }
    error
}

/// An Arrow kernel refused data that was checked before: too many bytes for one array, mostly.
pub(crate) fn of_arrow(what: &str, error: &arrow_schema::ArrowError) -> TableError {
    TableError::invalid(format!("{what}: {error}"))
}

/// A background task panicked or was dropped.
pub(crate) fn of_task(what: &str, path: &str) -> TableError {
    TableError::Unavailable { path: path.to_owned(), reason: format!("{what} panicked or was dropped") }
}

/// An error of the store, in the words of the table seam.
pub(crate) fn of_store(error: StoreError) -> TableError {
    match error {
        StoreError::Corrupt { path, reason } => TableError::Corrupt { path, reason },
        StoreError::Unavailable { .. } | StoreError::Full { .. } | StoreError::Other { .. } => {
            TableError::Unavailable { path: error.path().to_owned(), reason: error.to_string() }
        }
        _ => TableError::invalid(error.to_string()),
    }
}
