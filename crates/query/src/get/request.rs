//! What a get asks for.
//!
//! Owns: [`GetRequest`], and its keys in the types of the table.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, FieldRef};
use headwater_format::key::{KeyColumn, KeySchema};

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
pub(super) fn in_key_types<'a>(
    key: &KeySchema,
    keys: &'a RecordBatch,
) -> Result<Cow<'a, RecordBatch>, QueryError> {
    let given = keys.schema_ref().fields();
    let same = |(field, column): (&FieldRef, &KeyColumn)| {
        field.name() == &column.name && field.data_type() == &column.data_type
    };
    if given.len() == key.columns().len() && given.iter().zip(key.columns()).all(same) {
        return Ok(Cow::Borrowed(keys));
    }
    let is_key = |name: &str| key.columns().iter().any(|column| column.name == name);
    if let Some(other) = given.iter().find(|field| !is_key(field.name())) {
        let names: Vec<&str> = key.columns().iter().map(|column| column.name.as_str()).collect();
        let reason = format!("{:?} is no key column: the key is {}", other.name(), names.join(", "));
        return Err(QueryError::Keys { reason });
    }
    let in_order = key.columns().iter().map(|column| {
        let name = &column.name;
        let values = keys.column_by_name(name);
        let values =
            values.ok_or_else(|| QueryError::Keys { reason: format!("key column {name:?} is missing") })?;
        cast(values, &column.data_type, name)
    });
    let in_order = in_order.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(keys.num_rows()));
    let keys = RecordBatch::try_new_with_options(Arc::clone(key.schema()), in_order, &options);
    keys.map(Cow::Owned).map_err(|error| QueryError::Keys { reason: error.to_string() })
}

/// The same values in the type of a key column, where they are of its kind and fit.
fn cast(values: &ArrayRef, wanted: &DataType, column: &str) -> Result<ArrayRef, QueryError> {
    if values.data_type() == wanted {
        return Ok(Arc::clone(values));
    }
    let text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let bytes = |of: &DataType| matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let given = values.data_type();
    let alike = (given.is_integer() && wanted.is_integer())
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
