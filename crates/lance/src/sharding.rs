//! How rows are spread over shards.
//!
//! Owns: [`Sharding`], [`ShardValue`], their form in the base's sharding spec and in shard manifests, and the
//! value of each row of a batch. Does not own: the bucket hash (`format`), which shard serves a value
//! (`shards`).

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, RecordBatch, new_empty_array};
use arrow_schema::{DataType, SchemaRef};
use headwater_engine::table::TableError;
use headwater_format::bucket::bucket;
use headwater_format::key::KeySchema;
use lance_core::datatypes::Schema as LanceSchema;
use lance_table::system_index::mem_wal::{ShardingField, ShardingSpec};

use crate::schema::{self, is_key_column};

/// Id of the only sharding spec of a table.
pub(crate) const SPEC_ID: u32 = 1;
/// Field id, inside the sharding spec and in shard manifests, of the value rows are routed by.
const VALUE_FIELD: &str = "bucket";
/// Most buckets a table can have.
const MAX_BUCKETS: u32 = 1024;
const NUM_BUCKETS: &str = "num_buckets";
const COLUMN: &str = "column";

/// How rows are spread over shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// One shard takes every row.
    Unsharded,
    /// `num_buckets` shards (1 to 1024) by the hash of `column`.
    Bucket {
        /// The column whose value is hashed.
        column: String,
        /// How many shards.
        num_buckets: u32,
    },
    /// One shard for each value of `column`.
    Identity {
        /// The column whose value names the shard.
        column: String,
    },
    /// The table records no sharding: whoever writes makes shards by hand. Headwater reads such tables and
    /// does not write them; it cannot be asked for at init.
    Manual,
}

/// What rows of one shard have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShardValue {
    /// The one shard of an unsharded table.
    Unsharded,
    /// A bucket, from 0.
    Bucket(i32),
    /// The value of the shard column: integers little-endian at their width, Boolean one byte, text its UTF-8
    /// bytes.
    Identity(Vec<u8>),
}

impl fmt::Display for ShardValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsharded => f.write_str("the whole table"),
            Self::Bucket(bucket) => write!(f, "bucket {bucket}"),
            Self::Identity(value) => match std::str::from_utf8(value) {
                Ok(text) if !text.chars().any(char::is_control) => write!(f, "value {text:?}"),
                _ => write!(f, "value {value:02x?}"),
            },
        }
    }
}

impl ShardValue {
    /// The value as shard manifests hold it.
    pub fn to_entries(&self) -> BTreeMap<String, Vec<u8>> {
        let value = match self {
            Self::Unsharded => 0_i32.to_le_bytes().to_vec(),
            Self::Bucket(bucket) => bucket.to_le_bytes().to_vec(),
            Self::Identity(value) => value.clone(),
        };
        BTreeMap::from([(VALUE_FIELD.to_owned(), value)])
    }
}

impl Sharding {
    /// The column rows are spread by, if there is one.
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Bucket { column, .. } | Self::Identity { column } => Some(column),
            Self::Unsharded | Self::Manual => None,
        }
    }

    /// The value of each row of `batch`, in order.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when the shard column is missing, of an unsuitable type, or (by identity) null
    /// in some row, and for [`Sharding::Manual`].
    pub fn values(&self, batch: &RecordBatch) -> Result<Vec<ShardValue>, TableError> {
        match self {
            Self::Unsharded => Ok(vec![ShardValue::Unsharded; batch.num_rows()]),
            Self::Bucket { column, num_buckets } => {
                let buckets = bucket(column_of(batch, column)?, *num_buckets)
                    .map_err(|error| TableError::invalid(format!("shard column {column:?}: {error}")))?;
                Ok(buckets.into_iter().map(|bucket| ShardValue::Bucket(bucket.cast_signed())).collect())
            }
            Self::Identity { column } => identity_values(column, column_of(batch, column)?),
            Self::Manual => Err(made_by_hand()),
        }
    }

    /// The value in a shard manifest's entries; `None` when they are empty, as the reference leaves them.
    pub(crate) fn value_of(&self, entries: &BTreeMap<String, Vec<u8>>) -> Option<ShardValue> {
        let value = entries.get(VALUE_FIELD)?;
        match self {
            Self::Unsharded => Some(ShardValue::Unsharded),
            Self::Bucket { .. } => {
                Some(ShardValue::Bucket(i32::from_le_bytes(value.as_slice().try_into().ok()?)))
            }
            Self::Identity { .. } => Some(ShardValue::Identity(value.clone())),
            Self::Manual => None,
        }
    }

    /// Checks that a table can be sharded this way: the column exists, can be hashed or named, and belongs to
    /// the key, so that all rows of a key meet in one shard. A table without a key may use any such column.
    ///
    /// # Errors
    /// [`TableError::Invalid`] that says what is wrong.
    pub fn check(&self, logical: &SchemaRef, key: Option<&KeySchema>) -> Result<(), TableError> {
        let Some(column) = self.column() else {
            return match self {
                Self::Manual => Err(TableError::invalid("choose a sharding: unsharded, bucket or identity")),
                _ => Ok(()),
            };
        };
        let field = logical
            .field_with_name(column)
            .map_err(|_| TableError::invalid(format!("shard column {column:?} is not in the table")))?;
        if key.is_some() && !is_key_column(key, column) {
            return Err(TableError::invalid(format!(
                "shard column {column:?} is not a key column: rows of one key could land in different shards"
            )));
        }
        match self {
            Self::Bucket { num_buckets, .. } => {
                if !(1..=MAX_BUCKETS).contains(num_buckets) {
                    return Err(TableError::invalid(format!(
                        "{num_buckets} buckets: a table has between 1 and {MAX_BUCKETS}"
                    )));
                }
                bucket(&new_empty_array(field.data_type()), *num_buckets)
                    .map(|_| ())
                    .map_err(|error| TableError::invalid(format!("shard column {column:?}: {error}")))
            }
            _ => identity_type(field.data_type())
                .map(|_| ())
                .ok_or_else(|| unsuitable(column, field.data_type())),
        }
    }

    /// How many shards there will be, as the details record it: 0 when that depends on the data.
    pub(crate) fn shards(&self) -> u32 {
        match self {
            Self::Unsharded => 1,
            Self::Bucket { num_buckets, .. } => *num_buckets,
            Self::Identity { .. } | Self::Manual => 0,
        }
    }

    /// The spec the base records. Call [`Sharding::check`] first.
    pub(crate) fn spec(&self, schema: &LanceSchema) -> Result<ShardingSpec, TableError> {
        let source = |column: &str| {
            let field = schema::column(schema, column);
            field.ok_or_else(|| TableError::invalid(format!("shard column {column:?} is not in the table")))
        };
        let (transform, source_ids, result_type, parameters) = match self {
            Self::Unsharded => ("unsharded", Vec::new(), "int32", HashMap::new()),
            Self::Bucket { column, num_buckets } => {
                let parameters = HashMap::from([(NUM_BUCKETS.to_owned(), num_buckets.to_string())]);
                ("bucket", vec![source(column)?.id], "int32", parameters)
            }
            Self::Identity { column } => {
                let field = source(column)?;
                let result = identity_type(&field.data_type());
                let result = result.ok_or_else(|| unsuitable(column, &field.data_type()))?;
                ("identity", vec![field.id], result, HashMap::new())
            }
            Self::Manual => return Err(TableError::invalid("manual sharding is not recorded in a spec")),
        };
        let field = ShardingField {
            field_id: VALUE_FIELD.to_owned(),
            source_ids,
            transform: Some(transform.to_owned()),
            expression: None,
            result_type: result_type.to_owned(),
            parameters,
        };
        Ok(ShardingSpec { spec_id: SPEC_ID, fields: vec![field] })
    }

    /// The sharding a base records, with the id of its spec.
    ///
    /// # Errors
    /// [`TableError::Invalid`] for several specs, several fields, an unknown transform or a column that is
    /// gone.
    pub(crate) fn read(specs: &[ShardingSpec], schema: &LanceSchema) -> Result<(u32, Self), TableError> {
        let (spec, field) = match specs {
            [] => return Ok((0, Self::Manual)),
            [spec] => match spec.fields.as_slice() {
                [field] => (spec, field),
                fields => {
                    return Err(TableError::invalid(format!(
                        "the table shards by {} values at once, which this version does not know",
                        fields.len()
                    )));
                }
            },
            specs => {
                return Err(TableError::invalid(format!(
                    "the table has {} sharding specs, this version knows one",
                    specs.len()
                )));
            }
        };
        let column = || source_column(field, schema);
        let sharding = match field.transform.as_deref() {
            Some("unsharded") => Self::Unsharded,
            Some("bucket") => {
                let count = field.parameters.get(NUM_BUCKETS).and_then(|count| count.parse().ok());
                let num_buckets =
                    count.filter(|count| (1..=MAX_BUCKETS).contains(count)).ok_or_else(|| {
                        TableError::invalid(format!(
                            "the table's {NUM_BUCKETS} is not between 1 and {MAX_BUCKETS}"
                        ))
                    })?;
                Self::Bucket { column: column()?, num_buckets }
            }
            Some("identity") => Self::Identity { column: column()? },
            other => {
                return Err(TableError::invalid(format!(
                    "the table shards by {other:?}, which this version does not know"
                )));
            }
        };
        Ok((spec.spec_id, sharding))
    }
}

/// Name of the column a sharding field reads: by id, or by the name in its parameters.
fn source_column(field: &ShardingField, schema: &LanceSchema) -> Result<String, TableError> {
    if let [id] = field.source_ids.as_slice() {
        let source = schema.field_by_id(*id);
        return source.map(|field| field.name.clone()).ok_or_else(|| {
            TableError::invalid(format!("the table shards by the column of field id {id}, which is gone"))
        });
    }
    field.parameters.get(COLUMN).cloned().ok_or_else(|| {
        TableError::invalid("the table's sharding spec names no column, or several".to_owned())
    })
}

/// Why a table without a sharding spec is not written.
pub(crate) fn made_by_hand() -> TableError {
    TableError::invalid(
        "the table records no sharding: its shards were made by hand and are not written by Headwater",
    )
}

fn column_of<'a>(batch: &'a RecordBatch, column: &str) -> Result<&'a dyn Array, TableError> {
    let array = batch.column_by_name(column);
    array
        .map(|array| array.as_ref())
        .ok_or_else(|| TableError::invalid(format!("shard column {column:?} is missing from the rows")))
}

fn unsuitable(column: &str, data_type: &DataType) -> TableError {
    TableError::invalid(format!(
        "shard column {column:?} has type {data_type}, whose values cannot name shards"
    ))
}

/// Arrow's name of a type whose values can name shards.
fn identity_type(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Int8 => "int8",
        DataType::Int16 => "int16",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt8 => "uint8",
        DataType::UInt16 => "uint16",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Utf8 => "utf8",
        DataType::LargeUtf8 => "large_utf8",
        DataType::Boolean => "boolean",
        _ => return None,
    })
}

fn identity_values(column: &str, array: &dyn Array) -> Result<Vec<ShardValue>, TableError> {
    if let Some(row) = (0..array.len()).find(|row| array.is_null(*row)) {
        return Err(TableError::invalid(format!("shard column {column:?} is null in row {row}")));
    }
    Ok(match array.data_type() {
        DataType::Int8 => numbers::<Int8Type, 1>(array, i8::to_le_bytes),
        DataType::Int16 => numbers::<Int16Type, 2>(array, i16::to_le_bytes),
        DataType::Int32 => numbers::<Int32Type, 4>(array, i32::to_le_bytes),
        DataType::Int64 => numbers::<Int64Type, 8>(array, i64::to_le_bytes),
        DataType::UInt8 => numbers::<UInt8Type, 1>(array, u8::to_le_bytes),
        DataType::UInt16 => numbers::<UInt16Type, 2>(array, u16::to_le_bytes),
        DataType::UInt32 => numbers::<UInt32Type, 4>(array, u32::to_le_bytes),
        DataType::UInt64 => numbers::<UInt64Type, 8>(array, u64::to_le_bytes),
        DataType::Utf8 => text(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => text(array.as_string::<i64>().iter()),
        DataType::Boolean => array
            .as_boolean()
            .iter()
            .map(|value| ShardValue::Identity(vec![u8::from(value.unwrap_or_default())]))
            .collect(),
        other => return Err(unsuitable(column, other)),
    })
}

fn numbers<T: ArrowPrimitiveType, const N: usize>(
    array: &dyn Array,
    bytes: impl Fn(T::Native) -> [u8; N],
) -> Vec<ShardValue> {
    let values = array.as_primitive::<T>().values();
    values.iter().map(|value| ShardValue::Identity(bytes(*value).to_vec())).collect()
}

fn text<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Vec<ShardValue> {
    values.map(|value| ShardValue::Identity(value.unwrap_or_default().as_bytes().to_vec())).collect()
}
