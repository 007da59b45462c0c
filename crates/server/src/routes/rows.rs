//! Changes of rows: insert, merge, update, delete.
//!
//! Owns: the handlers, and which tier a change is for. Does not own: what they do (`tables`).

use std::sync::Arc;

use crate::json::Json;
use axum::body::Body;
use headwater::Table;
use serde_json::{Value, json};

use crate::bodies;
use crate::bodies::changes::{Delete, Update};
use crate::bodies::query::Tier;
use crate::error::{Again, ApiError};
use crate::ipc::upload::Upload;
use crate::routes::call::{Call, Params, Writing, no_branch};
use crate::tables::plain::change;
use crate::tables::plain::write::{self, Merge};
use crate::tables::replays::Mark;
use crate::tables::{Kind, OpenTable, spec};

/// Adds rows, or puts them in the place of all there are.
///
/// # Errors
/// 400 for rows that do not fit.
pub async fn insert(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    call.params.no_branch()?;
    let overwrite = match call.params.get("mode").unwrap_or("append") {
        "append" => false,
        "overwrite" => true,
        other => {
            return Err(ApiError::invalid(format!(
                "parameter mode: {other:?} is neither append nor overwrite"
            )));
        }
    };
    if call.params.get("upload_id").is_some() {
        return Err(ApiError::unsupported("uploads in parts are not supported: send one"));
    }
    let table = call.table().await?;
    let kind = table.kind().await?;
    let upload = Upload::open(body).await?;
    match kind {
        Kind::Plain(_) => {
            let open = Arc::clone(&table);
            let inserted = async move { write::insert(&open, upload, overwrite).await };
            Ok(Json(table.to_the_end(inserted).await?))
        }
        Kind::Tiered(_) if overwrite => Err(ApiError::state(format!(
            "table {:?} has a write tier and is not overwritten in place: create it anew, mode overwrite",
            table.name()
        ))),
        Kind::Tiered(tier) => {
            let rows = spec::write::append(table.name(), &tier, upload).await?;
            Ok(Json(json!({ "version": 0, "num_rows": rows })))
        }
    }
}

/// Merges rows by key.
///
/// # Errors
/// 400 for a merge that cannot be.
pub async fn merge(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    call.params.no_branch()?;
    let merge = asked(&call)?;
    let tier = Tier::of(call.params.flag("use_lsm")?, call.params.flag("use_rte")?)?;
    let table = call.table().await?;
    match (table.kind().await?, tier) {
        (Kind::Tiered(fresh), Tier::Any | Tier::Fresh) => {
            check_upsert(table.name(), &fresh, &merge)?;
            let rows = spec::write::upsert(table.name(), &fresh, Upload::open(body).await?).await?;
            Ok(Json(json!({
                "version": 0, "num_inserted_rows": 0, "num_updated_rows": 0, "num_deleted_rows": 0,
                "num_attempts": 0, "num_rows": rows,
            })))
        }
        (Kind::Plain(_), Tier::Fresh) => Err(ApiError::no_tier(table.name())),
        (kind, _) => {
            let upload = Upload::open(body).await?;
            let open = Arc::clone(&table);
            let merged = async move {
                let merged = write::merge(&open, upload, &merge).await?;
                if let Kind::Tiered(fresh) = kind {
                    // Whoever reads next, of all tiers, finds in the base what was merged into it.
                    let seen = fresh.refresh().await;
                    seen.map_err(|error| ApiError::tier(open.name(), &error, Again::Harmless))?;
                }
                Ok(merged)
            };
            Ok(Json(table.to_the_end(merged).await?))
        }
    }
}

fn asked(call: &Call) -> Result<Merge, ApiError> {
    let params: &Params = &call.params;
    let text = |name: &str| params.get(name).map(str::to_owned);
    let merge = Merge {
        on: params.all("on"),
        update: params.flag("when_matched_update_all")?.unwrap_or(false),
        update_filter: text("when_matched_update_all_filt"),
        insert: params.flag("when_not_matched_insert_all")?.unwrap_or(false),
        delete: params.flag("when_not_matched_by_source_delete")?.unwrap_or(false),
        delete_filter: text("when_not_matched_by_source_delete_filt"),
        use_index: params.flag("use_index")?.unwrap_or(true),
        timeout: call.timeout,
    };
    match merge.on.is_empty() {
        true => Err(ApiError::invalid("parameter on: the columns that rows are matched by are needed")),
        false => Ok(merge),
    }
}

/// Whether a merge is one that a write tier does.
fn check_upsert(name: &str, tier: &Table, merge: &Merge) -> Result<(), ApiError> {
    let refused = |what: String| {
        let instead = "or merge into the base with use_rte(false), or use_lsm(false)";
        Err(ApiError::invalid(format!("table {name:?} has a write tier, which {what}; {instead}")))
    };
    let columns = tier.key().map(|key| key.columns()).unwrap_or_default();
    let key: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    if key.is_empty() {
        return refused("has no key to match rows by: add them".to_owned());
    }
    if merge.on != key {
        let (key, on) = (key.join(", "), merge.on.join(", "));
        return refused(format!("matches rows by the key ({key}), not by ({on}): use the key"));
    }
    if !merge.is_upsert() {
        let form = "when_matched_update_all without a condition, and when_not_matched_insert_all";
        return refused(format!("does upserts and nothing else: {form}"));
    }
    Ok(())
}

/// Changes the rows a predicate names.
///
/// # Errors
/// 400 for a predicate or an expression that is none.
pub async fn update(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    let body: Update = bodies::read(body).await?;
    no_branch(body.branch.as_deref())?;
    if body.updates.is_empty() {
        return Err(ApiError::invalid("field updates: at least one column is needed"));
    }
    let (table, mark) = changed(&call, "update", &body).await?;
    let reply = match table.kind().await? {
        Kind::Plain(_) => table.once(mark, change::update(body)?, change::recount_update).await?,
        Kind::Tiered(tier) => {
            let open = Arc::clone(&table);
            let updated = async move { spec::change::update(open.name(), &tier, body, mark).await };
            table.to_the_end(updated).await?
        }
    };
    Ok(Json(reply))
}

/// Deletes the rows a predicate names.
///
/// # Errors
/// 400 for a predicate that is none.
pub async fn delete(Writing(call): Writing, body: Body) -> Result<Json<Value>, ApiError> {
    let body: Delete = bodies::read(body).await?;
    no_branch(body.branch.as_deref())?;
    let (table, mark) = changed(&call, "delete", &body).await?;
    let reply = match table.kind().await? {
        Kind::Plain(_) => table.once(mark, change::delete(body)?, change::recount_delete).await?,
        Kind::Tiered(tier) => {
            let open = Arc::clone(&table);
            let deleted = async move { spec::change::delete(open.name(), &tier, body, mark).await };
            table.to_the_end(deleted).await?
        }
    };
    Ok(Json(reply))
}

async fn changed(
    call: &Call,
    what: &str,
    body: &impl std::fmt::Debug,
) -> Result<(Arc<OpenTable>, Option<Mark>), ApiError> {
    let mark = Mark::of(call.request_id.as_deref(), what, body);
    Ok((call.table().await?, mark))
}
