//! Indexes of the base: create, list, stats, drop.
//!
//! Owns: the handlers. Does not own: what they do (`tables::plain::index`).

use crate::json::Json;
use axum::body::Body;
use futures::FutureExt;
use serde_json::{Value, json};

use crate::bodies;
use crate::bodies::changes::CreateIndex;
use crate::bodies::query::AtVersion;
use crate::error::{Again, ApiError};
use crate::routes::call::{Call, Reading, Writing, no_branch};
use crate::tables::Kind;
use crate::tables::plain::index;
use crate::tables::replays::Mark;

/// Builds an index.
///
/// # Errors
/// 400 for one that cannot be.
pub async fn create(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    let body: CreateIndex = bodies::read(body).await?;
    let mark = Mark::of(call.request_id.as_deref(), "create_index", &body);
    let table = call.table().await?;
    Ok(Json(table.once(mark, index::create(body)?, |_| async { Ok(json!({})) }.boxed()).await?))
}

/// The indexes there are.
///
/// # Errors
/// What storage says.
pub async fn list(Reading(call): Reading, body: Body) -> Result<Json<Value>, ApiError> {
    let asked: AtVersion = bodies::read(body).await?;
    no_branch(asked.branch.as_deref())?;
    let table = call.table().await?;
    let dataset = table.base_at(asked.version).await?;
    let indexes = index::list(&dataset).await;
    let indexes = indexes.map_err(|error| ApiError::lance(table.name(), error, Again::Harmless))?;
    Ok(Json(json!({ "indexes": indexes })))
}

/// What an index covers.
///
/// # Errors
/// 404 when there is no such index.
pub async fn stats(Reading(call): Reading, body: Body) -> Result<Json<Value>, ApiError> {
    let asked: AtVersion = bodies::read(body).await?;
    no_branch(asked.branch.as_deref())?;
    let table = call.table().await?;
    let dataset = table.base_at(asked.version).await?;
    let failed = |error| ApiError::lance(table.name(), error, Again::Harmless);
    let name = name(&call);
    if !index::exists(&dataset, name).await.map_err(failed)? {
        return Err(index::none(table.name(), name));
    }
    index::stats(&dataset, name).await.map(Json).map_err(failed)
}

/// Drops an index.
///
/// # Errors
/// 404 when there is no such index; 400 for the one that a write tier lives on.
pub async fn drop(Writing(call): Writing) -> Result<Json<Value>, ApiError> {
    call.params.no_branch()?;
    let table = call.table().await?;
    let name = name(&call);
    let mark = Mark::of(call.request_id.as_deref(), "drop_index", &name);
    let failed = |error| ApiError::lance(table.name(), error, Again::Harmless);
    if let Kind::Tiered(tier) = table.kind().await? {
        if !index::exists(&*table.base().await?, name).await.map_err(failed)? {
            return Err(index::none(table.name(), name));
        }
        let dropped = tier.drop_index(name, false).await;
        return match dropped {
            Ok(()) => Ok(Json(json!({}))),
            Err(error) => Err(ApiError::tier(table.name(), &error, Again::Harmless)),
        };
    }
    let dropped = table.once(mark, index::drop(name.to_owned()), |_| async { Ok(json!({})) }.boxed()).await;
    match dropped {
        Err(error) if error.status.is_client_error() => {
            let there = index::exists(&*table.base().await?, name).await.map_err(failed)?;
            Err(if there { error } else { index::none(table.name(), name) })
        }
        dropped => dropped.map(Json),
    }
}

fn name(call: &Call) -> &str {
    call.index.as_deref().unwrap_or_default()
}
