//! Tables with a write tier, through the `headwater` library.
//!
//! Owns: [`upsert`], [`append`], [`rows`], [`count`], [`update`], [`delete`], [`flush`] and what the protocol
//! says of a tier. Rows go to their shards batch by batch as they come; a few batches are on their way at
//! once. Does not own: anything of the tier itself.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use headwater::{INCARNATION, QueryError, ReadLevel, ScanRequest, Table};
use headwater_format::shard_manifest::ShardStatus;
use serde_json::{Value, json};

use crate::bodies::changes::{Delete, ShardingSpec, Update, WriteSpec};
use crate::bodies::query::{Columns, Query, Vectors};
use crate::error::{Again, ApiError};
use crate::ipc::reply::Rows;
use crate::ipc::upload::Upload;
use crate::tables::replays::Mark;

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
    send(name, again, upload, |batch| {
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
    send(name, again, upload, |batch| {
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

/// Hands batches over as they come and waits for all of them. Says how many rows were acknowledged.
async fn send<'a>(
    name: &str,
    again: Again,
    mut upload: Upload,
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

/// An error of a request part of whose rows are durable.
fn partly(name: &str, mut error: ApiError, rows: u64, again: Again) -> ApiError {
    let retried = error.status.is_server_error() || error.status == http::StatusCode::TOO_MANY_REQUESTS;
    if retried && again == Again::Doubles {
        error.status = http::StatusCode::UNPROCESSABLE_ENTITY;
    }
    error.text = format!("{}; {rows} rows of the request are durable in table {name:?}", error.text);
    error
}

/// The rows a query asks for, of all tiers.
///
/// # Errors
/// 400 for what a write tier does not do, or a query that is wrong.
pub async fn rows(
    name: &str,
    table: &Table,
    query: &Query,
) -> Result<(arrow_schema::SchemaRef, Rows), ApiError> {
    let request = request(name, query)?;
    let found = table.scan(&request).await.map_err(|error| ApiError::tier(name, &error, Again::Harmless))?;
    let (schema, name) = (found.schema(), name.to_owned());
    let rows = found.map_err(move |error| ApiError::query(&name, &QueryError::from(error)));
    Ok((schema, rows.boxed()))
}

/// How the rows a query asks for would be read.
///
/// # Errors
/// As [`rows`].
pub async fn explain(name: &str, table: &Table, query: &Query) -> Result<String, ApiError> {
    let request = request(name, query)?;
    let failed = |error: &headwater::Error| ApiError::tier(name, error, Again::Harmless);
    let snapshot = table.read(ReadLevel::Durable).await.map_err(|error| failed(&error))?;
    snapshot.explain(&request).await.map_err(|error| ApiError::query(name, &error))
}

fn request(name: &str, query: &Query) -> Result<ScanRequest, ApiError> {
    let refused = |what: &str, instead: &str| {
        ApiError::invalid(format!("table {name:?} has a write tier, which {what}: {instead}"))
    };
    let base_only = "ask the base alone with use_rte(false), or use_lsm(false)";
    if query.with_row_id == Some(true) {
        // Clients look for these words, and then put results together by key.
        return Err(refused("does not support with_row_id", base_only));
    }
    if query.version.is_some() {
        return Err(refused("is read as it is now, not at a version", base_only));
    }
    if query.full_text_query.is_some() {
        return Err(refused("does not support full-text search yet", base_only));
    }
    if !matches!(&query.vector, None | Some(Vectors::One(_))) || is_vector_search(query) {
        return Err(ApiError::unsupported(format!(
            "table {name:?}: vector search over a write tier is not there yet"
        )));
    }
    if query.order_by.as_ref().is_some_and(|order| !order.is_empty()) {
        return Err(ApiError::unsupported(format!(
            "table {name:?}: order_by over a write tier is not there yet"
        )));
    }
    let columns = match &query.columns {
        None => None,
        Some(Columns::Names(names)) => Some(names.clone()),
        Some(Columns::Expressions(columns)) if columns.iter().all(|(name, column)| name == column) => {
            Some(columns.iter().map(|(name, _)| name.clone()).collect())
        }
        Some(Columns::Expressions(_)) => {
            let text = format!("table {name:?}: expressions as columns of a write tier are not there yet");
            return Err(ApiError::unsupported(text));
        }
    };
    let limit = query.k.filter(|rows| *rows < i64::MAX.cast_unsigned());
    Ok(ScanRequest { columns, filter: query.filter.clone(), limit, offset: query.offset.unwrap_or_default() })
}

fn is_vector_search(query: &Query) -> bool {
    matches!(&query.vector, Some(Vectors::One(vector)) if !vector.is_empty())
}

/// How many live rows there are, or a condition keeps.
///
/// # Errors
/// 400 for a condition that is none.
pub async fn count(name: &str, table: &Table, filter: Option<&str>) -> Result<u64, ApiError> {
    table.count(filter).await.map_err(|error| ApiError::tier(name, &error, Again::Harmless))
}

/// Changes the rows a predicate names.
///
/// # Errors
/// 501: not there yet.
pub async fn update(name: &str, _: &Table, _: Update, _: Option<Mark>) -> Result<Value, ApiError> {
    Err(ApiError::unsupported(format!(
        "table {name:?}: update by predicate over a write tier is not there yet"
    )))
}

/// Deletes the rows a predicate names.
///
/// # Errors
/// 501: not there yet.
pub async fn delete(name: &str, _: &Table, _: Delete, _: Option<Mark>) -> Result<Value, ApiError> {
    Err(ApiError::unsupported(format!(
        "table {name:?}: delete by predicate over a write tier is not there yet"
    )))
}

/// Makes every row acknowledged before part of an SSTable, whoever wrote it; says which generation each shard
/// sealed.
///
/// # Errors
/// 503 when a shard could not; the others are flushed all the same.
pub async fn flush(name: &str, table: &Table) -> Result<Value, ApiError> {
    let failed = |error: &headwater::Error| ApiError::tier(name, error, Again::Harmless);
    table.open_shards().await.map_err(|error| failed(&error))?;
    let sealed = table.flush().await.map_err(|error| failed(&error))?;
    let sealed = sealed
        .into_iter()
        .map(|(shard, generation)| json!({ "shard_id": shard.to_string(), "generation": generation.get() }));
    Ok(json!({ "generations": sealed.collect::<Vec<_>>() }))
}

/// What the tier records about itself. `resolved`: with the names of all indexes where it maintains them all,
/// for clients that know no "all".
///
/// # Errors
/// What storage says.
pub async fn spec(name: &str, table: &Table, resolved: bool) -> Result<WriteSpec, ApiError> {
    let recorded = table.mem_wal();
    let maintained = match (recorded.maintain_all, resolved) {
        (false, _) => Some(recorded.maintained.clone()),
        (true, false) => None,
        (true, true) => {
            let indexes =
                table.indexes().await.map_err(|error| ApiError::tier(name, &error, Again::Harmless))?;
            Some(indexes.into_iter().map(|index| index.name).collect())
        }
    };
    let mut defaults = recorded.writer_defaults.clone();
    defaults.remove(INCARNATION);
    Ok(WriteSpec {
        sharding: ShardingSpec::from(&recorded.sharding),
        maintained_indexes: maintained,
        writer_config_defaults: defaults,
    })
}

/// Shards, their SSTables that are not part of the base, and their memtables. `generations`: what the list of
/// SSTables is called.
///
/// # Errors
/// What storage says.
pub async fn stats(
    name: &str,
    table: &Table,
    with_rows: bool,
    generations: &str,
) -> Result<Vec<Value>, ApiError> {
    let failed = |error: &headwater::Error| ApiError::tier(name, error, Again::Harmless);
    let recorded = table.tier().await.map_err(|error| failed(&error))?;
    let here = table.snapshot(ReadLevel::Durable).await.map_err(|error| failed(&error))?;
    let mut shards = Vec::new();
    for shard in recorded.shards {
        let manifest = shard.manifest.map_err(|error| ApiError::table(name, &error, Again::Harmless))?;
        let Some(manifest) = manifest else { continue };
        let compacted = recorded.mem_wal.compacted(shard.id);
        let sstables =
            manifest.sstables.iter().filter(|sstable| sstable.generation > compacted).map(|sstable| {
                let mut entry = json!({
                    "generation": sstable.generation.get(),
                    "bytes": sstable.in_memory_bytes.unwrap_or_default(),
                });
                if let (true, Some(rows), Some(entry)) =
                    (with_rows, sstable.physical_rows, entry.as_object_mut())
                {
                    entry.insert("rows".to_owned(), rows.into());
                }
                entry
            });
        let active = manifest.status == ShardStatus::Active;
        let mut entry = json!({
            "shard_id": shard.id.to_string(),
            "status": if active { "Active" } else { "Sealed" },
            "writer_epoch": manifest.writer_epoch.get(),
            "manifest_version": manifest.version.get(),
            "current_generation": manifest.current_generation.get(),
            "replay_after_wal_entry_position": manifest.replay_after.get(),
            "wal_entry_position_last_seen": manifest.last_seen.get(),
            generations: sstables.collect::<Vec<_>>(),
            "compacting": false,
        });
        let snapshot = here.shards().iter().find(|(id, _)| *id == shard.id).map(|(_, snapshot)| snapshot);
        if let (Some(snapshot), Some(entry)) = (snapshot, entry.as_object_mut()) {
            let views =
                snapshot.memtables().map_err(|error| ApiError::shard(name, &error, Again::Harmless))?;
            let memtables = views.iter().map(|view| {
                let batches = view.batches();
                json!({
                    "generation": view.generation().get(),
                    "rows": view.rows(),
                    "bytes": batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>(),
                    "batches": batches.len(),
                    "indexes": [],
                })
            });
            entry.insert("memtables".to_owned(), memtables.collect());
        }
        shards.push(entry);
    }
    Ok(shards)
}
