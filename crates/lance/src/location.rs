//! Where a table is: normalised URIs, and nothing derived from their text.
//!
//! Owns: the one place that looks at the characters of a table URI. Every path below a table is built from
//! the object-store path Lance resolved, never by gluing text to a URI (lance#6713: a trailing `?` made every
//! derived path resolve to the table itself). Refuses what Lance would resolve to another place than was
//! meant: `file://t.lance` has a host and no path, which Lance takes for the root of the disk.

use headwater_engine::table::TableError;
use lance_io::object_store::ObjectStoreRegistry;

/// Schemes of paths on local disk.
const LOCAL: [&str; 3] = ["file", "file-object-store", "file+uring"];
/// Schemes an error about an unknown one lists, those this build supports.
const OFFERED: [&str; 5] = ["file", "s3", "gs", "az", "memory"];
/// Needs DynamoDB for commits, which is not built in: S3 itself commits safely by now.
const WITH_DYNAMODB: &str = "s3+ddb";

/// The URI to open a table by: no trailing slashes, no empty query string.
///
/// # Errors
/// [`TableError::Invalid`] when nothing is left that could name a table, the scheme is none this build
/// supports, or the URI of a local table has no absolute path.
pub(crate) fn normalize(uri: &str) -> Result<String, TableError> {
    let Some((scheme, rest)) = uri.split_once("://") else { return normalize_path(uri) };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Err(TableError::invalid(format!(
            "{uri:?} names no table: the path after {scheme}:// is empty"
        )));
    }
    check_scheme(uri, &scheme.to_ascii_lowercase())?;
    if is_local(scheme) {
        check_local(uri, scheme, path)?;
    }
    if query.is_empty() { Ok(format!("{scheme}://{path}")) } else { Ok(format!("{scheme}://{path}?{query}")) }
}

/// The scheme of a URI, in lower case; none for a plain path.
pub(crate) fn scheme(uri: &str) -> Option<String> {
    let (scheme, _) = uri.split_once(':')?;
    let begins = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (begins && scheme.chars().all(is_scheme)).then(|| scheme.to_ascii_lowercase())
}

fn is_local(scheme: &str) -> bool {
    LOCAL.iter().any(|local| local.eq_ignore_ascii_case(scheme))
}

/// A path without `://`. Lance reads `file:t.lance` as `/t.lance`, and `a:b` as a URI of scheme `a`.
fn normalize_path(given: &str) -> Result<String, TableError> {
    let path = given.trim_end_matches('/');
    if path.is_empty() {
        return Err(TableError::invalid(format!("{given:?} names no table: give a path or a URI")));
    }
    let Some(scheme) = scheme(path) else { return Ok(path.to_owned()) };
    match path.get(scheme.len() + 1..) {
        Some(rest) if is_local(&scheme) && rest.starts_with('/') => Ok(format!("{scheme}://{rest}")),
        _ => Err(TableError::invalid(format!(
            "{given:?} is neither a URI nor a plain path: write {scheme}:// for a URI, or ./{path} for a path"
        ))),
    }
}

fn check_local(uri: &str, scheme: &str, path: &str) -> Result<(), TableError> {
    // RFC 8089 allows the host to be spelled out, and Lance understands it for `file` alone.
    let is_absolute =
        path.starts_with('/') || (scheme.eq_ignore_ascii_case("file") && path.starts_with("localhost/"));
    if is_absolute {
        return Ok(());
    }
    let host = path.split('/').next().unwrap_or_default();
    Err(TableError::invalid(format!(
        "{uri:?} names the host {host:?} and no path on this disk: write {scheme}:///absolute/path, with \
         three slashes, or a plain path"
    )))
}

fn check_scheme(uri: &str, scheme: &str) -> Result<(), TableError> {
    let registry = ObjectStoreRegistry::default();
    let is_built_in = |scheme: &str| registry.get_provider(scheme).is_some();
    if is_built_in(scheme) && scheme != WITH_DYNAMODB {
        return Ok(());
    }
    let offered = OFFERED.iter().filter(|scheme| is_built_in(scheme)).map(|scheme| format!("{scheme}://"));
    Err(TableError::invalid(format!(
        "{uri:?}: the scheme {scheme}:// is not supported; supported are plain paths and {}",
        offered.collect::<Vec<_>>().join(", ")
    )))
}
