//! What a get asks for.
//!
//! Owns: [`GetRequest`], and its keys in the types of the table.

use std::collections::BTreeMap;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use headwater_format::key::KeySchema;

use crate::error::QueryError;

/// Which rows to get.
#[derive(Clone, Debug)]
pub struct GetRequest {
    /// The key columns, found by name. Integers of another width and text of another offset width are fine.
    pub keys: RecordBatch,
    /// Top-level columns to return, in this order; none = all.
    pub columns: Option<Vec<String>>,
}

/// The key columns of `keys`, in the types of the table.
pub(super) fn in_key_types(key: &KeySchema, keys: &RecordBatch) -> Result<RecordBatch, QueryError> {
    let mut columns: BTreeMap<&str, ArrayRef> = BTreeMap::new();
    for (place, field) in keys.schema().fields().iter().enumerate() {
        let Some(column) = key.columns().iter().find(|column| column.name == *field.name()) else {
            let names: Vec<&str> = key.columns().iter().map(|column| column.name.as_str()).collect();
            let reason = format!("{:?} is no key column: the key is {}", field.name(), names.join(", "));
            return Err(QueryError::Keys { reason });
        };
        columns.insert(&column.name, cast(keys.column(place), &column.data_type, &column.name)?);
    }
    let in_order = key.columns().iter().map(|column| {
        let values = columns.get(column.name.as_str()).cloned();
        values.ok_or_else(|| QueryError::Keys { reason: format!("key column {:?} is missing", column.name) })
    });
    let in_order = in_order.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(keys.num_rows()));
    RecordBatch::try_new_with_options(key.schema(), in_order, &options)
        .map_err(|error| QueryError::Keys { reason: error.to_string() })
}

/// The same values in the type of a key column, where they are of its kind and fit.
fn cast(values: &ArrayRef, wanted: &DataType, column: &str) -> Result<ArrayRef, QueryError> {
    let text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let bytes = |of: &DataType| matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let given = values.data_type();
    let alike = given == wanted
        || (given.is_integer() && wanted.is_integer())
        || (text(given) && text(wanted))
        || (bytes(given) && bytes(wanted));
    let refused = |reason: String| QueryError::Keys { reason: format!("key column {column:?}: {reason}") };
    if !alike {
        return Err(refused(format!("{given} values were given, the table has {wanted}")));
    }
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(values, wanted, &exact).map_err(|error| refused(error.to_string()))
}

pub(super) fn keys_error(error: &impl std::fmt::Display) -> QueryError {
    QueryError::Keys { reason: error.to_string() }
}
