//! Updates and deletes by predicate.
//!
//! Owns: [`update`], [`delete`]: what clients ask for, in the words of the library. A request that comes
//! again carries the same token, and changes no row twice (P12). Does not own: how rows are changed
//! (`headwater`).

use headwater::{ClientToken, Table, UpdateRequest};
use serde_json::{Value, json};

use crate::bodies::changes::{Delete, Update};
use crate::error::{Again, ApiError};
use crate::tables::replays::Mark;

/// Changes the rows a predicate names.
///
/// # Errors
/// 400 for a predicate or an expression that is wrong; 503 when trying again helps.
pub async fn update(name: &str, table: &Table, body: Update, mark: Option<Mark>) -> Result<Value, ApiError> {
    let (token, again) = token(mark)?;
    let request = UpdateRequest { updates: body.updates, predicate: body.predicate, token };
    let done = table.update(request).await.map_err(|error| ApiError::tier(name, &error, again))?;
    Ok(json!({ "version": 0, "rows_updated": done.rows_updated }))
}

/// Deletes the rows a predicate names.
///
/// # Errors
/// As [`update`].
pub async fn delete(name: &str, table: &Table, body: Delete, mark: Option<Mark>) -> Result<Value, ApiError> {
    let (token, again) = token(mark)?;
    let done = table.delete_where(&body.predicate, token).await;
    let done = done.map_err(|error| ApiError::tier(name, &error, again))?;
    Ok(json!({ "version": 0, "num_deleted_rows": done.num_deleted_rows }))
}

fn token(mark: Option<Mark>) -> Result<(Option<ClientToken>, Again), ApiError> {
    let again = if mark.is_some() { Again::Harmless } else { Again::Doubles };
    let token = mark.map(|mark| mark.token()).transpose();
    Ok((token.map_err(|error| ApiError::internal("naming a request", &error))?, again))
}
