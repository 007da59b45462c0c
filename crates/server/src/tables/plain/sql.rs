//! SQL in requests about plain tables.
//!
//! Owns: [`check`]: what is refused before Lance sees it: text that nests deeper than a stack holds, which
//! would end the process (P14), and text that goes on after its end, which Lance leaves out: `id = 1 LIMIT 2`
//! would delete more rows than it says. Does not own: what SQL means (Lance).

use crate::error::ApiError;

/// Characters of a text that are told again.
const SHOWN: usize = 200;

/// Checks that `text`, which is in `field`, is one whole condition or expression.
///
/// # Errors
/// 400 that names the field.
pub fn check(field: &str, text: &str) -> Result<(), ApiError> {
    headwater::check_sql(text, "expression").map_err(|reason| {
        let shown: String = text.chars().take(SHOWN).collect();
        ApiError::invalid(format!("{field}: {shown:?}: {reason}"))
    })
}

/// As [`check`], of a text that may be missing.
///
/// # Errors
/// As [`check`].
pub fn check_some(field: &str, text: Option<&str>) -> Result<(), ApiError> {
    text.map_or(Ok(()), |text| check(field, text))
}
