//! Reads of rows: query, count, plans.
//!
//! Owns: the handlers, and which tier a read is about. Does not own: what they do (`tables`).

use crate::json::Json;
use axum::body::Body;
use axum::response::Response;
use futures::StreamExt;

use crate::bodies;
use crate::bodies::query::{Count, Explain, Query, Tier};
use crate::error::{Again, ApiError};
use crate::ipc::reply;
use crate::routes::call::{Call, Reading, no_branch};
use crate::tables::open::at_version;
use crate::tables::plain::{caught, scan};
use crate::tables::{Kind, OpenTable, spec};

/// The rows a query asks for, as an Arrow IPC file.
///
/// # Errors
/// 400 naming what is wrong with the query.
pub async fn query(Reading(call): Reading, body: Body) -> Result<Response, ApiError> {
    let query: Query = bodies::read(body).await?;
    let (table, kind) = read(&call, query.branch.as_deref(), tier_of(&query)?).await?;
    let (schema, rows) = match kind {
        Kind::Tiered(tier) => spec::read::rows(table.name(), &tier, query).await?,
        Kind::Plain(base) => {
            let dataset = at_version(table.name(), base, query.version).await?;
            let name = table.name();
            let rows = async { scan::rows(name, &scan::scanner(name, &dataset, &query)?).await };
            caught::read(name, rows).await?
        }
    };
    // A table whose rows are still being sent is in use.
    let rows = rows.map(move |row| {
        let _in_use = &table;
        row
    });
    reply::rows(schema, rows.boxed()).await
}

/// How many rows there are, or a condition keeps.
///
/// # Errors
/// 400 for a condition that is none.
pub async fn count(Reading(call): Reading, body: Body) -> Result<Json<u64>, ApiError> {
    let asked: Count = bodies::read(body).await?;
    let (table, kind) = read(&call, asked.branch.as_deref(), Tier::of(asked.use_lsm, asked.use_rte)?).await?;
    match kind {
        Kind::Tiered(_) if asked.version.is_some() => Err(ApiError::at_version(table.name())),
        Kind::Tiered(tier) => {
            Ok(Json(spec::read::count(table.name(), &tier, asked.predicate.as_deref()).await?))
        }
        Kind::Plain(base) => {
            let dataset = at_version(table.name(), base, asked.version).await?;
            let counted = scan::count(table.name(), &dataset, asked.predicate);
            Ok(Json(caught::read(table.name(), counted).await?))
        }
    }
}

/// How a query would be read, for people.
///
/// # Errors
/// As [`query`].
pub async fn explain(Reading(call): Reading, body: Body) -> Result<Json<String>, ApiError> {
    let Explain { verbose, query } = bodies::read(body).await?;
    let (table, kind) = read(&call, query.branch.as_deref(), tier_of(&query)?).await?;
    match kind {
        Kind::Tiered(tier) => Ok(Json(spec::read::explain(table.name(), &tier, query, verbose).await?)),
        Kind::Plain(base) => {
            let dataset = at_version(table.name(), base, query.version).await?;
            let failed = |error| ApiError::lance(table.name(), error, Again::Harmless);
            let plan = async {
                let scanner = scan::scanner(table.name(), &dataset, &query)?;
                scanner.explain_plan(verbose).await.map_err(failed)
            };
            Ok(Json(caught::read(table.name(), plan).await?))
        }
    }
}

/// What reading a query took, for people.
///
/// # Errors
/// As [`query`].
pub async fn analyze(Reading(call): Reading, body: Body) -> Result<Json<String>, ApiError> {
    let query: Query = bodies::read(body).await?;
    let (table, kind) = read(&call, query.branch.as_deref(), tier_of(&query)?).await?;
    match kind {
        Kind::Tiered(tier) => Ok(Json(spec::read::analyze(table.name(), &tier, query).await?)),
        Kind::Plain(base) => {
            let dataset = at_version(table.name(), base, query.version).await?;
            let failed = |error| ApiError::lance(table.name(), error, Again::Harmless);
            let plan =
                async { scan::scanner(table.name(), &dataset, &query)?.analyze_plan().await.map_err(failed) };
            Ok(Json(caught::read(table.name(), plan).await?))
        }
    }
}

fn tier_of(query: &Query) -> Result<Tier, ApiError> {
    Tier::of(query.use_lsm, query.use_rte)
}

/// The table, and the part of it that a read is about.
async fn read(
    call: &Call,
    branch: Option<&str>,
    tier: Tier,
) -> Result<(std::sync::Arc<OpenTable>, Kind), ApiError> {
    no_branch(branch)?;
    let table = call.table().await?;
    let kind = match (table.kind().await, tier) {
        (Err(error), _) if error.status == http::StatusCode::NOT_FOUND => {
            // It was taken away by somebody else.
            call.service().close(&call.id).await;
            return Err(error);
        }
        (kind, Tier::Any) => kind?,
        (kind, Tier::Base) => match kind? {
            Kind::Tiered(_) => Kind::Plain(table.base().await?),
            plain => plain,
        },
        (kind, Tier::Fresh) => match kind? {
            Kind::Plain(_) => return Err(ApiError::no_tier(table.name())),
            tiered => tiered,
        },
    };
    Ok((table, kind))
}
