//! Updates and deletes by predicate, through Lance.
//!
//! Owns: [`update`], [`delete`], and what to tell of them when they are found on storage. Does not own: that
//! they happen once (`replays`).

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lance::Dataset;
use lance::dataset::transaction::Operation;
use lance::dataset::{DeleteBuilder, UpdateBuilder};
use serde_json::{Value, json};

use crate::bodies::changes::{Delete, Update};
use crate::error::ApiError;
use crate::tables::plain::sql;
use crate::tables::replays::{Change, Done};

/// Changes the rows a predicate names.
///
/// # Errors
/// 400 for texts that are no whole conditions or expressions.
pub fn update(body: Update) -> Result<Change, ApiError> {
    sql::check_some("field predicate", body.predicate.as_deref())?;
    for (column, expression) in &body.updates {
        sql::check(&format!("field updates, column {column:?}"), expression)?;
    }
    Ok(Box::new(move |dataset| run_update(dataset, body).boxed()))
}

async fn run_update(dataset: Dataset, body: Update) -> Done {
    let mut builder = UpdateBuilder::new(Arc::new(dataset));
    if let Some(predicate) = &body.predicate {
        builder = builder.update_where(predicate)?;
    }
    for (column, expression) in &body.updates {
        builder = builder.set(column, expression)?;
    }
    let done = builder.build()?.execute().await?;
    let reply = updated(done.new_dataset.version_id(), done.rows_updated);
    Ok((done.new_dataset, reply))
}

/// What an update did, from the version it made.
pub fn recount_update(made: Dataset) -> BoxFuture<'static, Result<Value, lance::Error>> {
    async move {
        let version = made.version_id();
        let rows = match made.read_transaction_by_version(version).await?.map(|made| made.operation) {
            Some(Operation::Update { new_fragments, .. }) => {
                new_fragments.iter().filter_map(|fragment| fragment.physical_rows).sum::<usize>() as u64
            }
            _ => 0,
        };
        Ok(updated(version, rows))
    }
    .boxed()
}

fn updated(version: u64, rows: u64) -> Value {
    json!({ "version": version, "rows_updated": rows })
}

/// Deletes the rows a predicate names.
///
/// # Errors
/// 400 for a text that is no whole condition.
pub fn delete(body: Delete) -> Result<Change, ApiError> {
    sql::check("field predicate", &body.predicate)?;
    Ok(Box::new(move |dataset| {
        async move {
            let done = DeleteBuilder::new(Arc::new(dataset), body.predicate).execute().await?;
            let reply = deleted(done.new_dataset.version_id(), done.num_deleted_rows);
            Ok((done.new_dataset, reply))
        }
        .boxed()
    }))
}

/// What a delete did, from the version it made.
pub fn recount_delete(made: Dataset) -> BoxFuture<'static, Result<Value, lance::Error>> {
    async move {
        let version = made.version_id();
        let before = made.checkout_version(version.saturating_sub(1)).await?;
        let rows = before.count_rows(None).await?.saturating_sub(made.count_rows(None).await?);
        Ok(deleted(version, rows as u64))
    }
    .boxed()
}

fn deleted(version: u64, rows: u64) -> Value {
    json!({ "version": version, "num_deleted_rows": rows })
}

/// What any other change did, from the version it made.
pub fn recount_version(made: Dataset) -> BoxFuture<'static, Result<Value, lance::Error>> {
    async move { Ok(json!({ "version": made.version_id() })) }.boxed()
}
