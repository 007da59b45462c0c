//! The write tier of a table: install, read, flush, stats, remove.
//!
//! Owns: the handlers of both families of routes: `…rte…`, as clients from 0.41 on call them, and `…lsm…`, as
//! older ones do. They differ in names alone, and in one thing: older clients cannot read "all" in a spec.
//! Does not own: what they do (`tables::spec`).

use std::sync::Arc;

use crate::json::Json;
use axum::body::Body;
use headwater::Table;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::bodies;
use crate::bodies::changes::{TierStats, WriteSpec};
use crate::error::ApiError;
use crate::routes::call::{Call, Reading, Writing};
use crate::tables::{Kind, OpenTable, spec};

/// Gives a table its write tier.
///
/// # Errors
/// 400 when it has one, or the spec cannot be.
pub async fn install(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    let spec: WriteSpec = bodies::read(body).await?;
    let table = call.table().await?;
    if let Kind::Tiered(_) = table.kind().await? {
        return Err(ApiError::state(format!("table {:?} has a write tier already", table.name())));
    }
    let (sharding, writers) = spec.parts();
    let open = Arc::clone(&table);
    table.to_the_end(async move { open.install(&sharding, &writers).await }).await?;
    Ok(Json(json!({})))
}

/// Takes the write tier of a table away.
///
/// # Errors
/// 400 when it has none, or one of its shards holds rows that are not in the base.
pub async fn remove(Writing(call): Writing) -> Result<Json<Value>, ApiError> {
    let (table, _) = tiered(&call).await?;
    let open = Arc::clone(&table);
    table.to_the_end(async move { open.remove_tier().await }).await?;
    Ok(Json(json!({})))
}

/// The spec, in an envelope of this name; null when there is none.
async fn read(call: &Call, envelope: &str, resolved: bool) -> Result<Json<Value>, ApiError> {
    let table = call.table().await?;
    let spec = match table.kind().await? {
        Kind::Plain(_) => None,
        Kind::Tiered(tier) => Some(spec::tier::spec(table.name(), &tier, resolved).await?),
    };
    Ok(Json(json!({ envelope: spec })))
}

/// The spec, for clients from 0.41 on.
///
/// # Errors
/// What storage says.
pub async fn read_rte(Reading(call): Reading) -> Result<Json<Value>, ApiError> {
    read(&call, "rte_spec", false).await
}

/// The spec, for older clients.
///
/// # Errors
/// What storage says.
pub async fn read_lsm(Reading(call): Reading) -> Result<Json<Value>, ApiError> {
    read(&call, "lsm_write_spec", true).await
}

/// Makes every row acknowledged before part of an SSTable.
///
/// # Errors
/// 400 when the table has no write tier; 503 when a shard could not.
pub async fn flush_quietly(Writing(call): Writing) -> Result<StatusCode, ApiError> {
    let (table, tier) = tiered(&call).await?;
    spec::tier::flush(table.name(), &tier).await?;
    Ok(StatusCode::ACCEPTED)
}

/// As [`flush_quietly`], and says which generations were sealed.
///
/// # Errors
/// As [`flush_quietly`].
pub async fn flush(Writing(call): Writing) -> Result<Json<Value>, ApiError> {
    let (table, tier) = tiered(&call).await?;
    spec::tier::flush(table.name(), &tier).await.map(Json)
}

/// Folding SSTables into the base.
///
/// # Errors
/// 501: not there yet.
pub async fn compact(Writing(call): Writing) -> Result<StatusCode, ApiError> {
    let (table, _) = tiered(&call).await?;
    Err(ApiError::unsupported(format!(
        "table {:?}: folding SSTables into the base is not there yet",
        table.name()
    )))
}

/// Statistics, in an envelope of this name; null when there is no write tier.
async fn stats(call: &Call, body: Body, names: [&str; 3]) -> Result<Json<Value>, ApiError> {
    let [envelope, shards, generations] = names;
    let asked: TierStats = bodies::read(body).await?;
    let with_rows = asked.include_sstable_rows || asked.include_generation_rows;
    let table = call.table().await?;
    let told = match table.kind().await? {
        Kind::Plain(_) => Value::Null,
        Kind::Tiered(tier) => {
            let found = spec::tier::stats(table.name(), &tier, with_rows, generations).await?;
            Value::Object(Map::from_iter([(shards.to_owned(), Value::Array(found))]))
        }
    };
    Ok(Json(json!({ envelope: told })))
}

/// Statistics, for clients from 0.41 on.
///
/// # Errors
/// What storage says.
pub async fn stats_rte(Reading(call): Reading, body: Body) -> Result<Json<Value>, ApiError> {
    stats(&call, body, ["rte_stats", "table_shards", "sstables"]).await
}

/// Statistics, for older clients.
///
/// # Errors
/// What storage says.
pub async fn stats_lsm(Reading(call): Reading, body: Body) -> Result<Json<Value>, ApiError> {
    stats(&call, body, ["lsm_stats", "buckets", "generations"]).await
}

async fn tiered(call: &Call) -> Result<(Arc<OpenTable>, Arc<Table>), ApiError> {
    let table = call.table().await?;
    match table.kind().await? {
        Kind::Tiered(tier) => Ok((table, tier)),
        Kind::Plain(_) => Err(ApiError::no_tier(table.name())),
    }
}
