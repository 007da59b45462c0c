//! Rows that go through the WAL.
//!
//! Owns: [`upsert`], [`append`]. The beginning of a request is read before anything of it is written; then
//! rows go to their shards batch by batch as they come, a few batches on their way at once. Does not own:
//! routing, durability (`headwater`).

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Schema};
use futures::FutureExt;
use futures::future::BoxFuture;
use headwater::Table;

use crate::error::{Again, ApiError};
use crate::ipc::upload::Upload;

/// Bytes of a request that are read and checked before any of its rows is written: what is no longer is
/// written as a whole or, when it was cut or holds what the table does not take, not at all.
const READ_AHEAD_BYTES: usize = 16 << 20;
/// Batches of one request on their way to durability at once.
const BATCHES_IN_FLIGHT: usize = 8;

/// What an acknowledged batch held.
type Acknowledged = BoxFuture<'static, Result<usize, ApiError>>;

/// Writes rows by key: new ones are added, known ones get the values sent and keep the others.
///
/// # Errors
/// 400 for rows that do not fit; 429 and 503 when trying again helps.
pub async fn upsert(name: &str, table: &Arc<Table>, upload: Upload) -> Result<u64, ApiError> {
    // Doing it twice is doing it once.
    let again = Again::Harmless;
    send(name, again, Ahead::of(table, upload).await?, |batch| {
        let (table, name) = (Arc::clone(table), name.to_owned());
        async move {
            // Rows with every column are handed over now, in order; parts of rows wait for what they read.
            if whole(&table, &batch) {
                let ticket =
                    table.put_nowait(batch).await.map_err(|error| ApiError::tier(&name, &error, again))?;
                let answer = async move {
                    ticket.await.map(|ack| ack.rows).map_err(|error| ApiError::tier(&name, &error, again))
                };
                return Ok(answer.boxed());
            }
            let ack = table.upsert_columns(batch, None).await;
            let ack = ack.map_err(|error| ApiError::tier(&name, &error, again))?;
            Ok(futures::future::ready(Ok(ack.rows)).boxed())
        }
        .boxed()
    })
    .await
}

/// Adds rows; on a table with a key, a row takes the place of the one with its key.
///
/// # Errors
/// As [`upsert`]; 422 where it is not known what of an append was written.
pub async fn append(name: &str, table: &Arc<Table>, upload: Upload) -> Result<u64, ApiError> {
    let again = if table.key().is_some() { Again::Harmless } else { Again::Doubles };
    send(name, again, Ahead::of(table, upload).await?, |batch| {
        let (table, name) = (Arc::clone(table), name.to_owned());
        async move {
            let ticket =
                table.put_nowait(batch).await.map_err(|error| ApiError::tier(&name, &error, again))?;
            let answer = async move {
                ticket.await.map(|ack| ack.rows).map_err(|error| ApiError::tier(&name, &error, again))
            };
            Ok(answer.boxed())
        }
        .boxed()
    })
    .await
}

fn whole(table: &Table, batch: &RecordBatch) -> bool {
    table.schema().fields().iter().all(|field| batch.column_by_name(field.name()).is_some())
}

/// Batches of a request, the first of which were read already.
struct Ahead {
    read: VecDeque<RecordBatch>,
    rest: Option<Upload>,
}

impl Ahead {
    /// Reads the first batches for `table`.
    async fn of(table: &Table, mut upload: Upload) -> Result<Self, ApiError> {
        upload.declare(not_null_where(&table.schema(), upload.schema()));
        let (mut read, mut bytes) = (VecDeque::new(), 0_usize);
        while bytes < READ_AHEAD_BYTES {
            let Some(batch) = upload.next().await? else { return Ok(Self { read, rest: None }) };
            bytes = bytes.saturating_add(batch.get_array_memory_size());
            read.push_back(batch);
        }
        Ok(Self { read, rest: Some(upload) })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>, ApiError> {
        match (self.read.pop_front(), &mut self.rest) {
            (Some(batch), _) => Ok(Some(batch)),
            (None, Some(rest)) => rest.next().await,
            (None, None) => Ok(None),
        }
    }
}

/// What was sent, with no nulls where the table takes none.
fn not_null_where(table: &Schema, sent: &Schema) -> Schema {
    let takes_none =
        |field: &FieldRef| table.field_with_name(field.name()).is_ok_and(|field| !field.is_nullable());
    let fields = sent.fields().iter().map(|field| match takes_none(field) {
        true => Arc::new(field.as_ref().clone().with_nullable(false)),
        false => Arc::clone(field),
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), sent.metadata().clone())
}

/// Hands batches over as they come and waits for all of them. Says how many rows were acknowledged.
async fn send<'a>(
    name: &str,
    again: Again,
    mut upload: Ahead,
    write: impl Fn(RecordBatch) -> BoxFuture<'a, Result<Acknowledged, ApiError>>,
) -> Result<u64, ApiError> {
    let (mut rows, mut in_flight) = (0_u64, VecDeque::new());
    let sent = loop {
        let batch = match upload.next().await {
            Ok(Some(batch)) => batch,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if batch.num_rows() == 0 {
            continue;
        }
        match write(batch).await {
            Ok(answer) => in_flight.push_back(answer),
            Err(error) => break Err(error),
        }
        if in_flight.len() < BATCHES_IN_FLIGHT {
            continue;
        }
        if let Some(answer) = in_flight.pop_front() {
            match answer.await {
                Ok(written) => rows = rows.saturating_add(written as u64),
                Err(error) => break Err(error),
            }
        }
    };
    // What was handed over is waited for whatever happened, so that the error says what is durable.
    let mut failed = sent.err();
    for answer in in_flight {
        match answer.await {
            Ok(written) => rows = rows.saturating_add(written as u64),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        None => Ok(rows),
        Some(error) if rows == 0 => Err(error),
        Some(error) => Err(partly(name, error, rows, again)),
    }
}

/// An error of a request part of whose rows are durable. Where they would be written twice, nobody may ask
/// again by himself, whatever the error is.
fn partly(name: &str, mut error: ApiError, rows: u64, again: Again) -> ApiError {
    if again == Again::Doubles {
        error.status = http::StatusCode::UNPROCESSABLE_ENTITY;
    }
    error.text = format!("{}; {rows} rows of the request are durable in table {name:?}", error.text);
    error
}
