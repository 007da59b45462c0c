//! Why rows were refused.
//!
//! Owns: [`InvalidInput`]. Every variant names the column, the row where there is one, and what to do.

use arrow_schema::DataType;
use headwater_format::key::KeyError;
use headwater_format::schema::SchemaError;

/// Rows, keys or a base schema that cannot be taken. Nothing was inserted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidInput {
    /// The base table's schema cannot carry a shard.
    #[error("the table cannot take upserts: {0}")]
    Schema(#[from] SchemaError),
    /// The base table's key cannot be one.
    #[error("the key of the table cannot be used: {0}")]
    Key(#[from] KeyError),
    /// Stored rows are not rows of this table.
    #[error("rows of another schema than the table's: {difference}")]
    OtherSchema {
        /// The first difference, or what else is wrong.
        difference: String,
    },
    /// The table has no such column.
    #[error("column {column:?} is not in the table, which has {expected}; rename or drop it")]
    UnknownColumn {
        /// The column.
        column: String,
        /// The columns that can be given, as a list for people.
        expected: String,
    },
    /// Two columns of the batch have one name.
    #[error("column {column:?} comes twice; drop one")]
    DuplicateColumn {
        /// The column.
        column: String,
    },
    /// A column that must be there is not.
    #[error("column {column:?} is missing; it is {why}, so every row needs a value")]
    MissingColumn {
        /// The column.
        column: String,
        /// Why it must be there.
        why: &'static str,
    },
    /// A column has another type than the table. Nothing is cast silently.
    #[error("column {column:?} has type {found}, the table {expected}; cast it to {expected}")]
    WrongType {
        /// The column.
        column: String,
        /// The table's type.
        expected: DataType,
        /// The batch's type.
        found: DataType,
    },
    /// A null where the table allows none. `column` is a path (`a.b`) for nested fields.
    #[error("column {column:?} is null in row {row} (counted from 0), but may not be; give a value")]
    NullValue {
        /// The column, or the path of the nested field.
        column: String,
        /// The row of the batch, from 0.
        row: usize,
    },
    /// A key without a value.
    #[error("key column {column:?} is null in row {row} (counted from 0); every row needs its key")]
    NullKey {
        /// The key column.
        column: String,
        /// The row of the batch, from 0.
        row: usize,
    },
    /// A delete on a table without a key.
    #[error("the table has no key, so no row can be deleted by key")]
    NoKey,
    /// More rows than one memtable may hold.
    #[error(
        "{rows} rows in one batch, at most {limit} are allowed (setting freeze.max_rows); split the batch"
    )]
    TooManyRows {
        /// Rows of the batch.
        rows: u64,
        /// The setting.
        limit: u64,
    },
    /// More bytes than one WAL entry may hold.
    #[error(
        "a batch of {bytes} bytes, at most {limit} are allowed (setting wal.max_entry_bytes); split the batch"
    )]
    TooLarge {
        /// Logical bytes of the batch.
        bytes: u64,
        /// The setting.
        limit: u64,
    },
    /// Arrow refused the data of a column.
    #[error("column {column:?} cannot be read: {reason}")]
    Malformed {
        /// The column.
        column: String,
        /// What Arrow said.
        reason: String,
    },
    /// Arrow refused the batch as a whole.
    #[error("the batch cannot be read: {reason}")]
    MalformedBatch {
        /// What Arrow said.
        reason: String,
    },
}
