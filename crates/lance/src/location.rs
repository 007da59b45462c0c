//! Where a table is: normalised URIs, and nothing derived from their text.
//!
//! Owns: the one place that looks at the characters of a table URI. Every path below a table is built from
//! the object-store path Lance resolved, never by gluing text to a URI (lance#6713: a trailing `?` made every
//! derived path resolve to the table itself).

use headwater_engine::table::TableError;

/// The URI to open a table by: no trailing slashes, no empty query string.
///
/// # Errors
/// [`TableError::Invalid`] when nothing is left that could name a table.
pub(crate) fn normalize(uri: &str) -> Result<String, TableError> {
    let Some((scheme, rest)) = uri.split_once("://") else {
        let path = uri.trim_end_matches('/');
        if path.is_empty() {
            return Err(TableError::invalid(format!("{uri:?} names no table: give a path or a URI")));
        }
        return Ok(path.to_owned());
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Err(TableError::invalid(format!(
            "{uri:?} names no table: the path after {scheme}:// is empty"
        )));
    }
    if query.is_empty() { Ok(format!("{scheme}://{path}")) } else { Ok(format!("{scheme}://{path}?{query}")) }
}
