//! Changes of columns.
//!
//! Owns: the handlers. Tables with a write tier keep their columns for now, but for metadata. A key that is
//! set through metadata is a real one from then on. Does not own: what they do (`tables`, `headwater-lance`).

use std::sync::Arc;

use crate::json::Json;
use axum::body::Body;
use headwater_format::schema::KEY_POSITION;
use headwater_lance::LanceTable;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::bodies;
use crate::bodies::changes::{AddColumns, AlterColumns, DropColumns, FieldMetadata, UpdateFieldMetadata};
use crate::error::{Again, ApiError};
use crate::ipc::upload::Upload;
use crate::routes::call::{Call, Writing, no_branch};
use crate::tables::plain::change::recount_version;
use crate::tables::plain::columns;
use crate::tables::replays::{Change, Mark};
use crate::tables::{Kind, OpenTable};

/// What the content type of an Arrow IPC stream begins with.
const ARROW: &str = "application/vnd.apache.arrow";

/// Adds columns: SQL expressions, or, sent as the schema of an Arrow IPC stream, columns of nulls.
///
/// # Errors
/// 400 for columns that cannot be.
pub async fn add(Writing(call): Writing, headers: HeaderMap, body: Body) -> Result<Json<Value>, ApiError> {
    call.params.no_branch()?;
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.starts_with(ARROW) {
        let upload = Upload::open(body).await?;
        let schema = Arc::clone(upload.schema());
        upload.discard().await?;
        let mark = Mark::of(call.request_id.as_deref(), "add_columns", &schema);
        return change(&call, mark, columns::add_nulls(schema)).await;
    }
    let body: AddColumns = bodies::read(body).await?;
    no_branch(body.branch.as_deref())?;
    let mark = Mark::of(call.request_id.as_deref(), "add_columns", &body);
    change(&call, mark, columns::add(body)?).await
}

/// Changes names, types or nullability of columns.
///
/// # Errors
/// 400 for a change that cannot be.
pub async fn alter(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    let body: AlterColumns = bodies::read(body).await?;
    no_branch(body.branch.as_deref())?;
    let mark = Mark::of(call.request_id.as_deref(), "alter_columns", &body);
    change(&call, mark, columns::alter(body.alterations)?).await
}

/// Drops columns.
///
/// # Errors
/// 400 for columns there are not.
pub async fn drop(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    let body: DropColumns = bodies::read(body).await?;
    no_branch(body.branch.as_deref())?;
    let mark = Mark::of(call.request_id.as_deref(), "drop_columns", &body);
    change(&call, mark, columns::drop(body)).await
}

/// Changes the metadata of columns.
///
/// # Errors
/// 400 for columns there are not, or a key that cannot be.
pub async fn metadata(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    let body: UpdateFieldMetadata = bodies::read(body).await?;
    no_branch(body.branch.as_deref())?;
    let mark = Mark::of(call.request_id.as_deref(), "update_field_metadata", &body);
    let key = key(&body.updates)?;
    if key.is_empty() {
        return change(&call, mark, columns::metadata(body.updates)).await;
    }
    let table = plain(&call).await?;
    let open = Arc::clone(&table);
    let set = async move {
        let options = open.options();
        let env = Arc::clone(open.env());
        let set = LanceTable::set_key_with(&options.connection, open.uri(), &key, &options.table, env).await;
        set.map_err(|error| {
            ApiError::table(open.name(), &error, Again::Harmless).named(open.uri(), open.name())
        })?;
        Ok(json!({ "version": open.base().await?.version_id() }))
    };
    Ok(Json(table.to_the_end(set).await?))
}

/// The columns that are to be the key, in its order; none when the key is not what this is about.
fn key(updates: &[FieldMetadata]) -> Result<Vec<String>, ApiError> {
    let mut places = Vec::new();
    for update in updates {
        let Some(Some(place)) = update.metadata.get(KEY_POSITION) else { continue };
        let place: u32 = place.parse().map_err(|_| {
            ApiError::invalid(format!(
                "column {:?}: {KEY_POSITION} is a number from 1, not {place:?}",
                update.path
            ))
        })?;
        places.push((place, update.path.clone()));
    }
    places.sort();
    if places.iter().zip(1..).any(|((place, _), wanted)| *place != wanted) {
        return Err(ApiError::invalid(format!(
            "{KEY_POSITION}: the columns of a key are numbered 1, 2, and so on"
        )));
    }
    Ok(places.into_iter().map(|(_, column)| column).collect())
}

/// The table, which must be a plain one.
async fn plain(call: &Call) -> Result<Arc<OpenTable>, ApiError> {
    let table = call.table().await?;
    match table.kind().await? {
        Kind::Plain(_) => Ok(table),
        Kind::Tiered(_) => Err(ApiError::state(format!(
            "table {:?} has a write tier: its columns cannot be changed while rows are in it",
            table.name()
        ))),
    }
}

async fn change(call: &Call, mark: Option<Mark>, change: Change) -> Result<Json<Value>, ApiError> {
    Ok(Json(plain(call).await?.once(mark, change, recount_version).await?))
}
