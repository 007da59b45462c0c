//! `headwater delete`: deletes rows by their keys, or those a condition finds.
//!
//! Owns: cutting keys into writes, and ending on a signal once what is on its way is settled. Does not own:
//! reading keys ([`crate::keys_in`]). A delete is a write: it claims the shards of its keys, as an ingest
//! does.

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{Schema, SchemaRef};
use clap::Args;
use futures::StreamExt;
use headwater::{ScanRequest, ShardSettings, Table};
use serde::Serialize;

use crate::error::Failure;
use crate::keys_in::{self, KeyBatches};
use crate::output;
use crate::rows_out::pieces;
use crate::signals::{Stop, Stops};
use crate::{Format, Global};

/// Keys of one write at most.
const KEYS_AT_ONCE: usize = 10_000;
/// Bytes of one write, about: well below the most a write may have (setting `wal.max_entry_bytes`).
const BYTES_AT_ONCE: usize = 4 << 20;

/// A key that has no row is deleted too: nothing is read to find out.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Path or URI of the table
    table: String,
    /// Values of the key column, bytes as hex (0x1f8b); of a key of several columns A,B,C or a JSON array.
    /// What starts with a dash and is no number goes behind --
    #[arg(
        value_name = "KEY",
        allow_negative_numbers = true,
        required_unless_present_any = ["keys_from", "condition"],
        conflicts_with_all = ["keys_from", "condition"]
    )]
    keys: Vec<String>,
    /// Take the keys from a file with one JSON object of the key columns a line (bytes as hex without 0x), or
    /// from standard input: -
    #[arg(long, value_name = "FILE", conflicts_with = "condition")]
    keys_from: Option<String>,
    /// Delete the rows for which this SQL condition holds now. Their keys are deleted, so a row of such a key
    /// that is written before its turn comes goes too, whether the condition holds for it or not
    #[arg(long = "where", value_name = "SQL")]
    condition: Option<String>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// `delete --format json`.
#[derive(Debug, Serialize)]
struct Summary {
    /// Keys deleted, whether they had a row or not.
    keys_deleted: u64,
    /// Whether files are synced to disk before deletes are acknowledged.
    fsync: bool,
}

pub async fn run(global: &Global, args: &DeleteArgs) -> Result<(), Failure> {
    let options = global.open_options(&args.table, &global.env(), ShardSettings::default())?;
    let table = Table::open(&args.table, options).await?;
    let key = keys_in::key_of(&table, "its rows stay")?;
    let keys = match &args.condition {
        Some(condition) => matching(&table, &key, condition).await?,
        None => keys_in::keys(&args.keys, args.keys_from.as_deref(), &key)?,
    };
    let stops = Stops::listen().map_err(|error| Failure::io("signals", &error))?;
    let mut deletion = Deletion { table: &table, stops, stopped: None, at_once: false, deleted: 0 };
    let end = deletion.all(keys).await;
    let Deletion { deleted: keys_deleted, stopped, at_once, .. } = deletion;
    let closed = if at_once {
        table.abandon();
        Ok(())
    } else {
        table.close().await
    };
    let failure = end.err().or(closed.err().map(Failure::from));
    if let Some(failure) = failure.or(stopped.map(Failure::Stopped)) {
        let progress = format!(
            "{} deleted before that; to delete the others, run it again: deleting a key twice does no harm",
            output::counted(keys_deleted, "key")
        );
        return Err(Failure::After { failure: Box::new(failure), progress });
    }
    report(global, args, keys_deleted)
}

/// The keys of the rows for which `condition` holds, in one snapshot of the table.
async fn matching<'a>(table: &'a Table, key: &SchemaRef, condition: &str) -> Result<KeyBatches<'a>, Failure> {
    let request = ScanRequest {
        columns: Some(key.fields().iter().map(|field| field.name().clone()).collect()),
        filter: Some(condition.to_owned()),
        ..ScanRequest::default()
    };
    let rows = table.scan(&request).await?;
    let keys = rows.map(move |keys| keys.map_err(|error| Failure::from(table.read_failed(error))));
    Ok(keys.boxed_local())
}

/// Deletes under way, one write after the other.
struct Deletion<'a> {
    table: &'a Table,
    stops: Stops,
    /// The signal that asked it to stop.
    stopped: Option<Stop>,
    /// Whether a second one came.
    at_once: bool,
    /// Keys whose delete was acknowledged.
    deleted: u64,
}

impl Deletion<'_> {
    /// Deletes all keys, or those before the first signal.
    async fn all(&mut self, mut keys: KeyBatches<'_>) -> Result<(), Failure> {
        let schema = self.table.schema();
        while self.stopped.is_none() {
            let batch = tokio::select! {
                batch = keys.next() => batch,
                stop = self.stops.next() => {
                    self.stop(stop);
                    continue;
                }
            };
            let Some(batch) = batch.transpose()? else { return Ok(()) };
            for keys in pieces(&batch, keys_at_once(&schema, &batch)) {
                if self.stopped.is_none() {
                    self.one(keys).await?;
                }
            }
        }
        Ok(())
    }

    /// One write. The first signal waits for it, the second does not.
    async fn one(&mut self, keys: RecordBatch) -> Result<(), Failure> {
        let table = self.table;
        let mut delete = Box::pin(table.delete(keys));
        while !self.at_once {
            tokio::select! {
                ack = &mut delete => {
                    self.deleted += ack?.rows as u64;
                    return Ok(());
                }
                stop = self.stops.next() => self.stop(stop),
            }
        }
        Ok(())
    }

    fn stop(&mut self, stop: Stop) {
        if self.stopped.is_some() {
            self.at_once = true;
            return;
        }
        self.stopped = Some(stop);
        output::note(&format!("{stop}: waiting for the keys on their way; again to stop at once"));
    }
}

/// How many of such keys fit in one write. The other columns of a delete are null, and a null is as large as
/// a value where values are of fixed size, such as vectors.
fn keys_at_once(table: &Schema, keys: &RecordBatch) -> usize {
    let others = table.fields().iter().filter(|field| keys.column_by_name(field.name()).is_none());
    let nulls: usize = others.map(|field| bytes(&new_null_array(field.data_type(), 1))).sum();
    let given: usize = keys.columns().iter().map(bytes).sum();
    let each = nulls + given.div_ceil(keys.num_rows().max(1));
    (BYTES_AT_ONCE / each.max(1)).clamp(1, KEYS_AT_ONCE)
}

fn bytes(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_default()
}

fn report(global: &Global, args: &DeleteArgs, keys_deleted: u64) -> Result<(), Failure> {
    if args.format == Format::Json {
        return output::json_line(&Summary { keys_deleted, fsync: !global.no_fsync });
    }
    output::line(&format!("{} deleted", output::counted(keys_deleted, "key")))?;
    if global.no_fsync {
        output::line(output::NOT_SYNCED)?;
    }
    Ok(())
}
