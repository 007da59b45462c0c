//! Versions and sizes of a table.
//!
//! Owns: the handlers. Does not own: what they do (`tables::plain::describe`).

use crate::json::Json;
use axum::body::Body;
use serde_json::Value;

use crate::bodies;
use crate::bodies::query::AtVersion;
use crate::error::{Again, ApiError};
use crate::routes::call::{Reading, no_branch};
use crate::tables::plain::{describe, index};

/// All versions of the base there still are.
///
/// # Errors
/// What storage says.
pub async fn list(Reading(call): Reading) -> Result<Json<Value>, ApiError> {
    call.params.no_branch()?;
    let table = call.table().await?;
    let versions = describe::versions(&*table.base().await?).await;
    versions.map(Json).map_err(|error| ApiError::lance(table.name(), error, Again::Harmless))
}

/// Rows, bytes and fragments of the base.
///
/// # Errors
/// What storage says.
pub async fn stats(Reading(call): Reading, body: Body) -> Result<Json<Value>, ApiError> {
    let asked: AtVersion = bodies::read(body).await?;
    no_branch(asked.branch.as_deref())?;
    let table = call.table().await?;
    let failed = |error| ApiError::lance(table.name(), error, Again::Harmless);
    let dataset = table.base_at(asked.version).await?;
    let indexes = index::list(&dataset).await.map_err(failed)?.len();
    describe::stats(&dataset, indexes).await.map(Json).map_err(failed)
}
