//! Adding and merging rows, and new tables, through Lance.
//!
//! Owns: [`create`], [`insert`], [`merge`]. Rows go from the connection to Lance as they come; a table of
//! millions of rows takes the memory of a few batches, though a merge keeps what it may have to read again,
//! on disk when it is much. Does not own: decoding (`ipc`).

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{FieldRef, Schema};
use futures::TryFutureExt;
use headwater_format::schema::{KEY_LEGACY, KEY_POSITION};
use lance::Dataset;
use lance::dataset::{
    InsertBuilder, MergeInsertBuilder, WhenMatched, WhenNotMatched, WhenNotMatchedBySource, WriteMode,
    WriteParams,
};
use serde_json::{Value, json};

use crate::error::{Again, ApiError, Code};
use crate::ipc::upload::{Failure, Upload};
use crate::tables::OpenTable;
use crate::tables::plain::{caught, sql};

/// How a merge is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// Columns that make two rows the same.
    pub on: Vec<String>,
    /// Whether rows that are there are replaced.
    pub update: bool,
    /// Which of them.
    pub update_filter: Option<String>,
    /// Whether rows that are not there are added.
    pub insert: bool,
    /// Whether rows that were not sent are deleted.
    pub delete: bool,
    /// Which of them.
    pub delete_filter: Option<String>,
    /// Whether indexes are used to find rows.
    pub use_index: bool,
    /// How long to try.
    pub timeout: Option<Duration>,
}

impl Merge {
    /// Whether this is what a write tier does: rows by key, the newer one stays.
    pub fn is_upsert(&self) -> bool {
        self.update && self.update_filter.is_none() && self.insert && !self.delete
    }
}

/// Makes a table, or a new first version of one, of the rows sent.
///
/// # Errors
/// 400 `already exists` when there is one and it is not to be overwritten; 400 for rows no table can have.
pub async fn create(
    name: &str,
    uri: &str,
    params: WriteParams,
    mut upload: Upload,
) -> Result<Dataset, ApiError> {
    upload.declare(with_key_not_null(upload.schema()));
    let (rows, failure) = upload.into_stream();
    // Made twice, it is there or overwritten by the same.
    let builder = InsertBuilder::new(uri).with_params(&params);
    let made = Box::pin(builder.execute_stream(rows));
    let made = made.map_err(|error| match error {
        lance::Error::DatasetAlreadyExists { .. } => exists(name),
        error => failed(name, error, &failure, Again::Harmless),
    });
    caught::read(name, made).await
}

/// What a client is told that makes a table that is there. It looks for the words.
pub fn exists(name: &str) -> ApiError {
    let text = format!("table {name:?} already exists: use another name, or mode exist_ok or overwrite");
    ApiError::new(http::StatusCode::BAD_REQUEST, Code::TableExists, text)
}

/// Key columns hold no nulls; clients seldom say so.
fn with_key_not_null(schema: &Schema) -> Schema {
    let is_key =
        |field: &FieldRef| [KEY_POSITION, KEY_LEGACY].iter().any(|mark| field.metadata().contains_key(*mark));
    let fields = schema.fields().iter().map(|field| match is_key(field) {
        true => Arc::new(field.as_ref().clone().with_nullable(false)),
        false => Arc::clone(field),
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())
}

/// Adds rows, or puts them in the place of all there are.
///
/// # Errors
/// 400 for rows that do not fit; otherwise what storage says.
pub async fn insert(table: &OpenTable, mut upload: Upload, overwrite: bool) -> Result<Value, ApiError> {
    upload.declare(with_key_not_null(upload.schema()));
    let base = table.base().await?;
    let before = base.version_id();
    let mode = if overwrite { WriteMode::Overwrite } else { WriteMode::Append };
    let params = WriteParams { mode, ..WriteParams::default() };
    let again = if overwrite { Again::Harmless } else { Again::Doubles };
    let (rows, failure) = upload.into_stream();
    let builder = InsertBuilder::new(base).with_params(&params);
    let made = Box::pin(builder.execute_stream(rows));
    let made = made.map_err(|error| failed(table.name(), error, &failure, again));
    let made = caught::change(table, before, made).await?;
    table.adopt(&made);
    Ok(json!({ "version": made.version_id() }))
}

/// Merges rows into the base.
///
/// # Errors
/// 400 for a merge that cannot be; otherwise what storage says.
pub async fn merge(table: &OpenTable, mut upload: Upload, merge: &Merge) -> Result<Value, ApiError> {
    sql::check_some("parameter when_matched_update_all_filt", merge.update_filter.as_deref())?;
    sql::check_some("parameter when_not_matched_by_source_delete_filt", merge.delete_filter.as_deref())?;
    upload.declare(with_key_not_null(upload.schema()));
    let base = table.base().await?;
    let merged = async {
        let job =
            build(&base, merge).map_err(|error| ApiError::lance(table.name(), error, Again::Harmless))?;
        let (rows, failure) = upload.into_stream();
        // Made twice, it finds what it did: rows match by key. (Keys that are null match nothing, not even
        // themselves.)
        let failed = |error| failed(table.name(), error, &failure, Again::Harmless);
        Box::pin(job.execute(rows)).await.map_err(failed)
    };
    let (made, stats) = caught::change(table, base.version_id(), merged).await?;
    table.adopt(&made);
    Ok(json!({
        "version": made.version_id(),
        "num_inserted_rows": stats.num_inserted_rows,
        "num_updated_rows": stats.num_updated_rows,
        "num_deleted_rows": stats.num_deleted_rows,
        "num_attempts": stats.num_attempts,
        "num_rows": stats.num_inserted_rows.saturating_add(stats.num_updated_rows),
    }))
}

fn build(base: &Arc<Dataset>, merge: &Merge) -> Result<lance::dataset::MergeInsertJob, lance::Error> {
    let mut builder = MergeInsertBuilder::try_new(Arc::clone(base), merge.on.clone())?;
    builder.when_matched(match (merge.update, &merge.update_filter) {
        (false, _) => WhenMatched::DoNothing,
        (true, None) => WhenMatched::UpdateAll,
        (true, Some(filter)) => WhenMatched::update_if(base, filter)?,
    });
    builder.when_not_matched(match merge.insert {
        true => WhenNotMatched::InsertAll,
        false => WhenNotMatched::DoNothing,
    });
    builder.when_not_matched_by_source(match (merge.delete, &merge.delete_filter) {
        (false, _) => WhenNotMatchedBySource::Keep,
        (true, None) => WhenNotMatchedBySource::Delete,
        (true, Some(filter)) => WhenNotMatchedBySource::delete_if(base, filter)?,
    });
    builder.use_index(merge.use_index);
    if let Some(timeout) = merge.timeout {
        builder.retry_timeout(timeout);
    }
    builder.try_build()
}

/// The upload's own error where there is one: then nothing was committed.
fn failed(name: &str, error: lance::Error, failure: &Failure, again: Again) -> ApiError {
    failure.take().unwrap_or_else(|| ApiError::lance(name, error, again))
}
