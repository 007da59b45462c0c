//! What a request may do.
//!
//! Owns: [`Grant`], which whoever checks keys puts into the extensions of a request, and the check of a
//! request against it. A request without one may do everything. Does not own: keys.

use std::collections::BTreeSet;

use http::{Extensions, StatusCode};

use crate::error::{ApiError, Code};
use crate::names::DatabaseId;

/// What the key of a request allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The databases it is for; none = all of them.
    pub databases: Option<BTreeSet<String>>,
    /// Whether it may change anything.
    pub may_write: bool,
}

/// Whether a request with these extensions may read, or write, a database.
///
/// # Errors
/// 403 when its key does not allow it.
pub fn check(extensions: &Extensions, database: &DatabaseId, writes: bool) -> Result<(), ApiError> {
    let Some(grant) = extensions.get::<Grant>() else { return Ok(()) };
    let forbidden = |text: String| ApiError::new(StatusCode::FORBIDDEN, Code::Forbidden, text);
    if grant.databases.as_ref().is_some_and(|databases| !databases.contains(database.name())) {
        return Err(forbidden(format!("this key is not for the database {:?}", database.name())));
    }
    if writes && !grant.may_write {
        return Err(forbidden(format!(
            "this key may read the database {:?}, not change it",
            database.name()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reaches_its_databases_and_no_further() {
        let database = |name: &str| DatabaseId::parse(Some(name), None).unwrap();
        let mut extensions = Extensions::new();
        assert_eq!(check(&extensions, &database("a"), true), Ok(()), "no keys, no limits");
        extensions.insert(Grant { databases: Some(BTreeSet::from(["a".to_owned()])), may_write: false });
        assert_eq!(check(&extensions, &database("a"), false), Ok(()));
        assert_eq!(check(&extensions, &database("a"), true).unwrap_err().status, 403);
        assert_eq!(check(&extensions, &database("b"), false).unwrap_err().status, 403);
    }
}
