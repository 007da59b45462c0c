//! Writes that happen once, or only if nothing came between: tokens, conditions, and partial rows on top.
//!
//! Owns: [`WriteOptions`] of a write that may span shards, and [`Table::upsert_columns`], which reads what it
//! keeps and writes whole rows under the condition that they are still as read. Does not own: the decision,
//! which each shard takes in the moment it orders its part (P3), or remembering tokens (P12).

use std::collections::BTreeMap;

use arrow_array::{Array, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, Schema};
use arrow_select::take::take;
use headwater_engine::error::ShardError;
use headwater_engine::shard::WriteOptions as ShardOptions;
use headwater_engine::snapshot::ReadLevel;
use headwater_engine::table::TableError;
use headwater_format::coord::ShardId;
use headwater_format::key::KeySchema;
use headwater_format::token::ClientToken;
use headwater_query::{GetRequest, ReadSnapshot};

use crate::error::Error;
use crate::reading::Freshness;
use crate::table::{Rows, Table};
use crate::ticket::TableAck;

/// Reads and writes of a partial upsert, each begun because another writer came between: one of them gets on
/// each time.
const ATTEMPTS: usize = 100;

/// How a write is made. By default: unconditionally, and again when it is asked for again.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The client's name for this write: a write of the same name within ten minutes (`tokens.window_ms`) is
    /// answered with the first one's acknowledgement and not made again, over restarts and flushes too.
    pub token: Option<ClientToken>,
    /// Write only if no key of the write was written since this snapshot was taken. It must have been taken
    /// by this table, with the shards of these keys open ([`Table::open_shards`]): of a shard that others
    /// write a snapshot vouches for nothing, and the write fails its condition.
    pub unchanged_since: Option<ReadSnapshot>,
}

impl WriteOptions {
    /// What one shard is told.
    pub(crate) fn of_shard(&self, shard: ShardId) -> ShardOptions {
        let unchanged = self.unchanged_since.as_ref().map(|snapshot| snapshot.unchanged(shard));
        ShardOptions { token: self.token.clone(), unchanged }
    }
}

impl Table {
    /// As [`Table::put`], with a token or a condition. Each shard decides about its part alone: on a table of
    /// several shards a condition may hold for one part and fail for another ([`Error::Put`] says so).
    ///
    /// # Errors
    /// As [`Table::put`]; [`ShardError::ConditionFailed`] when a key was written since the snapshot: read
    /// again, and decide again.
    pub async fn put_with(&self, batch: RecordBatch, options: &WriteOptions) -> Result<TableAck, Error> {
        self.write(batch, Rows::Upserts, options).await?.await
    }

    /// As [`Table::delete`], with a token or a condition: see [`Table::put_with`].
    ///
    /// # Errors
    /// As [`Table::put_with`].
    pub async fn delete_with(&self, keys: RecordBatch, options: &WriteOptions) -> Result<TableAck, Error> {
        self.write(keys, Rows::Deletes, options).await?.await
    }

    /// Writes some columns of rows: the key columns and any others. Existing rows keep the values of the
    /// columns that are left out, whoever else writes them meanwhile; new rows have null there. Atomic per
    /// shard.
    ///
    /// # Errors
    /// As [`Table::put`] and [`Table::get`]; [`Error::Rows`] for a new row without a column that may not be
    /// null; refused on a table without a key.
    pub async fn upsert_columns(
        &self,
        batch: RecordBatch,
        token: Option<ClientToken>,
    ) -> Result<TableAck, Error> {
        let Some(key) = self.key() else {
            let reason = "rows of a table without a key cannot be found again: write whole rows with put";
            return Err(Error::table(self.uri(), TableError::invalid(reason)));
        };
        let whole = self.schema().fields().iter().all(|field| batch.column_by_name(field.name()).is_some());
        let mut options = WriteOptions { token, unchanged_since: None };
        if whole || batch.num_rows() == 0 {
            return self.put_with(batch, &options).await;
        }
        // A snapshot vouches for the shards that are open here.
        self.open_for(&batch).await?;
        let mut attempt = 1;
        loop {
            // Undurable rows too: what is kept of them is written behind them, and lost with them if at all.
            let request = GetRequest { keys: key_columns(key, &batch), columns: None };
            let (snapshot, found) =
                self.reading.get_at(ReadLevel::Pending, &request, Freshness::ACKNOWLEDGED).await?;
            let rows = self.completed(key, &batch, &found)?;
            options.unchanged_since = Some(snapshot);
            match self.put_with(rows, &options).await {
                Err(error) if came_between(&error) && attempt < ATTEMPTS => attempt += 1,
                end => return end,
            }
        }
    }

    /// `batch` with the columns it leaves out, as `found` has them.
    fn completed(
        &self,
        key: &KeySchema,
        batch: &RecordBatch,
        found: &RecordBatch,
    ) -> Result<RecordBatch, Error> {
        let failed = |reason: String| Error::table(self.uri(), TableError::invalid(reason));
        let encoded = |rows: &RecordBatch| key.encode(rows).map_err(|error| failed(error.to_string()));
        let (wanted, there) = (encoded(batch)?, encoded(found)?);
        let place: BTreeMap<&[u8], u32> = there.iter().flatten().zip(0..).collect();
        let places: UInt32Array =
            wanted.iter().map(|key| key.and_then(|key| place.get(key).copied())).collect();
        let new_row = (0..places.len()).find(|row| places.is_null(*row));
        let schema = self.schema();
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for field in schema.fields() {
            let column = match (batch.column_by_name(field.name()), found.column_by_name(field.name())) {
                (Some(given), _) => given.clone(),
                (None, Some(kept)) => {
                    if new_row.is_some() && !field.is_nullable() {
                        let reason = "the row is new, so this column needs a value: it may not be null";
                        return Err(self.rows_refused(field.name(), new_row, reason));
                    }
                    take(kept, &places, None).map_err(|error| failed(error.to_string()))?
                }
                (None, None) => continue,
            };
            fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
            columns.push(column);
        }
        let unknown = batch.schema();
        let unknown = unknown.fields().iter().find(|field| schema.field_with_name(field.name()).is_err());
        if let Some(field) = unknown {
            return Err(self.rows_refused(field.name(), None, "the table has no such column"));
        }
        let made: Result<RecordBatch, ArrowError> =
            RecordBatch::try_new(std::sync::Arc::new(Schema::new(fields)), columns);
        made.map_err(|error| failed(error.to_string()))
    }

    fn rows_refused(&self, column: &str, row: Option<usize>, reason: &str) -> Error {
        let (table, column) = (self.uri().to_owned(), column.to_owned());
        Error::Rows { table, column, row, reason: reason.to_owned() }
    }
}

fn key_columns(key: &KeySchema, batch: &RecordBatch) -> RecordBatch {
    let schema = batch.schema();
    let places: Vec<usize> =
        key.columns().iter().filter_map(|column| schema.index_of(&column.name).ok()).collect();
    // Places of columns there are; one that is missing the read names.
    batch.project(&places).unwrap_or_else(|_| batch.clone())
}

/// Whether a shard refused because a key was written since it was read.
fn came_between(error: &Error) -> bool {
    let failed = |error: &ShardError| matches!(error, ShardError::ConditionFailed { .. });
    match error {
        Error::Shard { source, .. } => failed(source),
        Error::Put { failures, .. } => failures.iter().all(|failure| failed(&failure.error)),
        _ => false,
    }
}
