//! Which rows go to which shard.
//!
//! Owns: [`Router`], which splits a batch by shard value, and the rule that one value has one shard. Does not
//! own: the value of a row ([`Sharding::values`]), which shard serves a value (`headwater-lance`). Keeps: all
//! rows of a key have one value, for shard columns are key columns; rows of one shard keep their order.

use std::collections::BTreeMap;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;
use headwater_engine::table::TableError;
use headwater_format::coord::ShardId;
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_lance::{MemWal, ShardInfo, ShardValue, Sharding};

use crate::error::Error;

/// Splits batches by shard value.
#[derive(Debug)]
pub struct Router {
    table: String,
    schema: SchemaRef,
    sharding: Sharding,
}

/// The rows of a batch that have one shard value, in the order they had.
#[derive(Clone, Debug)]
pub struct Part {
    /// What the rows have in common.
    pub value: ShardValue,
    /// The rows.
    pub rows: RecordBatch,
}

impl Router {
    /// A router for the table called `table` (in errors), with `schema`, spread as `sharding` says.
    pub fn new(table: &str, schema: SchemaRef, sharding: Sharding) -> Self {
        Self { table: table.to_owned(), schema, sharding }
    }

    /// The parts of `batch`, ascending by value. Rows are copied only when there is more than one.
    ///
    /// # Errors
    /// [`Error::Rows`] when the shard column is missing or of another type than in the table, or a
    /// column holds a null that may not; checked here because a shard would count the row in its part instead
    /// of in the batch.
    pub fn split(&self, batch: RecordBatch) -> Result<Vec<Part>, Error> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let Some(column) = self.sharding.column() else {
            let value = self.values(&batch.slice(0, 1))?.pop();
            return Ok(value.map(|value| Part { value, rows: batch }).into_iter().collect());
        };
        self.check_column(&batch, column)?;
        self.check_nulls(&batch)?;
        let mut groups: BTreeMap<ShardValue, Vec<u32>> = BTreeMap::new();
        for (row, value) in (0..).zip(self.values(&batch)?) {
            groups.entry(value).or_default().push(row);
        }
        if groups.len() == 1 {
            return Ok(groups.into_keys().map(|value| Part { value, rows: batch.clone() }).collect());
        }
        groups.into_iter().map(|(value, rows)| self.part(&batch, value, rows)).collect()
    }

    fn part(&self, batch: &RecordBatch, value: ShardValue, rows: Vec<u32>) -> Result<Part, Error> {
        let rows = take_record_batch(batch, &UInt32Array::from(rows));
        let rows = rows.map_err(|error| self.fault(None, None, error.to_string()))?;
        Ok(Part { value, rows })
    }

    fn values(&self, batch: &RecordBatch) -> Result<Vec<ShardValue>, Error> {
        self.sharding.values(batch).map_err(|error| Error::table(&self.table, error))
    }

    /// The hash of a value depends on its type, so another type than the table's would find another shard.
    fn check_column(&self, batch: &RecordBatch, column: &str) -> Result<(), Error> {
        let wanted = self.schema.field_with_name(column).map(|field| field.data_type());
        let given = batch.column_by_name(column).map(ArrayRef::data_type);
        match (wanted, given) {
            (Ok(wanted), Some(given)) if wanted == given => Ok(()),
            (Ok(wanted), Some(given)) => {
                let reason = format!("it is {given}, in the table it is {wanted}; rows are sharded by it");
                Err(self.fault(Some(column), None, reason))
            }
            _ => Err(self.fault(Some(column), None, "it is missing; rows are sharded by it".to_owned())),
        }
    }

    fn check_nulls(&self, batch: &RecordBatch) -> Result<(), Error> {
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let takes_none =
                self.schema.field_with_name(field.name()).is_ok_and(|field| !field.is_nullable());
            if takes_none && array.null_count() > 0 {
                let row = (0..array.len()).find(|row| array.is_null(*row));
                return Err(self.fault(
                    Some(field.name()),
                    row,
                    "null, where the table takes none".to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn fault(&self, column: Option<&str>, row: Option<usize>, reason: String) -> Error {
        Error::Rows { table: self.table.clone(), column: column.unwrap_or_default().to_owned(), row, reason }
    }
}

/// Ids of the active shards among `found`.
///
/// # Errors
/// [`Error::Table`] when a manifest cannot be read, or several active shards serve one value: rows
/// of a key could be in either, so such a table is read-only until one of them is gone.
pub(crate) fn active_shards(
    table: &str,
    mem_wal: &MemWal,
    found: Vec<ShardInfo>,
) -> Result<Vec<ShardId>, Error> {
    let mut ids = Vec::new();
    let mut values: BTreeMap<ShardValue, ShardId> = BTreeMap::new();
    for info in found {
        let Some(manifest) = info.manifest.map_err(|error| Error::table(table, error))? else { continue };
        if manifest.status != ShardStatus::Active {
            continue;
        }
        ids.push(info.id);
        let Some(value) = recorded_value(mem_wal, &manifest) else { continue };
        if let Some(other) = values.insert(value.clone(), info.id) {
            let reason = format!(
                "shards {other} and {} both serve {value}: rows of one key could be in either, so neither is \
                 written; fold one of them into the base and remove it",
                info.id
            );
            return Err(Error::table(table, TableError::invalid(reason)));
        }
    }
    Ok(ids)
}

/// The value a manifest records; none when it records none, as the reference leaves it on sharded tables.
pub(crate) fn recorded_value(mem_wal: &MemWal, manifest: &ShardManifest) -> Option<ShardValue> {
    let entry = manifest.shard_field_values.values().next();
    match &mem_wal.sharding {
        Sharding::Unsharded => Some(ShardValue::Unsharded),
        Sharding::Bucket { .. } => {
            Some(ShardValue::Bucket(i32::from_le_bytes(entry?.as_slice().try_into().ok()?)))
        }
        Sharding::Identity { .. } => Some(ShardValue::Identity(entry?.clone())),
        Sharding::Manual => None,
    }
}
