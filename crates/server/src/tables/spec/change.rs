//! Updates and deletes by predicate.
//!
//! Owns: [`update`], [`delete`]. Not there yet. Does not own: that they happen once.

use headwater::Table;
use serde_json::Value;

use crate::bodies::changes::{Delete, Update};
use crate::error::ApiError;
use crate::tables::replays::Mark;

/// Changes the rows a predicate names.
///
/// # Errors
/// 501: not there yet.
pub async fn update(name: &str, _: &Table, _: Update, _: Option<Mark>) -> Result<Value, ApiError> {
    Err(ApiError::unsupported(format!(
        "table {name:?}: update by predicate over a write tier is not there yet"
    )))
}

/// Deletes the rows a predicate names.
///
/// # Errors
/// 501: not there yet.
pub async fn delete(name: &str, _: &Table, _: Delete, _: Option<Mark>) -> Result<Value, ApiError> {
    Err(ApiError::unsupported(format!(
        "table {name:?}: delete by predicate over a write tier is not there yet"
    )))
}
