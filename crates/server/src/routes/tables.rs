//! Tables as a whole: list, create, describe, drop.
//!
//! Owns: the handlers. Does not own: what they do (`service`, `tables`).

use std::sync::Arc;

use crate::json::Json;
use axum::body::Body;
use axum::extract::State;
use lance::dataset::{WriteMode, WriteParams};
use serde_json::{Value, json};

use crate::bodies;
use crate::bodies::query::AtVersion;
use crate::error::{Again, ApiError};
use crate::ipc::upload::Upload;
use crate::routes::call::{Call, Listing, Reading, Writing, no_branch};
use crate::service::Service;
use crate::tables::plain::{describe, write};
use crate::tables::{Kind, OpenTable};

/// Tables on a page when the client does not say.
const PAGE: usize = 100;

/// Names of tables, from the one after `page_token` on.
///
/// # Errors
/// 400 for a limit that is no number; otherwise what storage says.
pub async fn list(State(service): State<Arc<Service>>, listing: Listing) -> Result<Json<Value>, ApiError> {
    let limit = listing.params.number("limit")?.unwrap_or(PAGE);
    let after = listing.params.get("page_token").unwrap_or_default();
    let mut names = service.tables(&listing.database).await?;
    names.retain(|name| name.as_str() > after);
    let more = names.len() > limit;
    names.truncate(limit);
    let token = names.last().filter(|_| more).cloned();
    Ok(Json(match token {
        Some(token) => json!({ "tables": names, "page_token": token }),
        None => json!({ "tables": names }),
    }))
}

/// Makes a table of the rows sent.
///
/// # Errors
/// 400 `already exists`, or for rows and modes that cannot be.
pub async fn create(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    let mode = call.params.get("mode").unwrap_or("create").to_ascii_lowercase();
    if !matches!(mode.as_str(), "create" | "overwrite" | "exist_ok" | "existok") {
        return Err(ApiError::invalid(format!(
            "parameter mode: {mode:?} is none of create, overwrite, exist_ok"
        )));
    }
    let upload = Upload::open(body).await?;
    let existing = match call.table().await {
        Ok(table) => Some(table),
        Err(error) if error.status == http::StatusCode::NOT_FOUND => None,
        Err(error) => return Err(error),
    };
    match (existing, mode.as_str()) {
        (None, _) => {
            let made = make(&call, WriteMode::Create, upload).await?;
            Ok(Json(json!({ "version": made })))
        }
        (Some(table), "overwrite") => overwrite(&call, &table, upload).await,
        (Some(table), "create") => {
            upload.discard().await?;
            Err(write::exists(table.name()))
        }
        (Some(table), _) => {
            upload.discard().await?;
            Ok(Json(json!({ "version": table.base().await?.version_id() })))
        }
    }
}

/// The new rows are a new version of a plain table. One with a write tier goes first, with every row of the
/// tier.
async fn overwrite(call: &Call, table: &Arc<OpenTable>, upload: Upload) -> Result<Json<Value>, ApiError> {
    let mode = match table.kind().await? {
        Kind::Plain(_) => WriteMode::Overwrite,
        Kind::Tiered(_) => {
            call.service().drop_table(&call.id).await?;
            WriteMode::Create
        }
    };
    let version = make(call, mode, upload).await?;
    Ok(Json(json!({ "version": version })))
}

async fn make(call: &Call, mode: WriteMode, upload: Upload) -> Result<u64, ApiError> {
    let service = call.service();
    let options = service.options();
    let params = WriteParams {
        mode,
        store_params: Some(options.connection.store_params(&options.table)),
        session: Some(Arc::clone(options.connection.session())),
        ..WriteParams::default()
    };
    let made = write::create(call.id.name(), &service.storage().uri(&call.id), params, upload).await?;
    Ok(made.version_id())
}

/// Columns and version of a table.
///
/// # Errors
/// 404 when there is no such table; 400 for a version there is not.
pub async fn describe(Reading(call): Reading, body: Body) -> Result<Json<Value>, ApiError> {
    let asked: AtVersion = bodies::read(body).await?;
    no_branch(asked.branch.as_deref())?;
    let table = call.table().await?;
    let dataset = match table.base_at(asked.version).await {
        Err(error) if error.status == http::StatusCode::NOT_FOUND => {
            // It was taken away by somebody else.
            call.service().close(&call.id).await;
            return Err(error);
        }
        found => found?,
    };
    let described = describe::describe(&dataset);
    described.map(Json).map_err(|error| ApiError::lance(table.name(), error, Again::Harmless))
}

/// Takes a table away; one that is not there is fine.
///
/// # Errors
/// What storage says.
pub async fn drop(Writing(call): Writing) -> Result<Json<Value>, ApiError> {
    call.service().drop_table(&call.id).await?;
    Ok(Json(json!({})))
}
