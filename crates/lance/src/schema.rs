//! Translation between Lance schemas and the two schemas of a shard: logical (the base's) and storage.
//!
//! Owns: field ids and key markers on Arrow fields, the Lance schema SSTables are written with, and the
//! checks of what a base must not contain. Keeps P15: columns are known by field id, and an SSTable carries
//! the base's ids.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use headwater_engine::table::TableError;
use headwater_format::key::KeySchema;
use headwater_format::schema::{FIELD_ID, TOMBSTONE, storage_schema};
use lance_core::datatypes::{Field as LanceField, Schema as LanceSchema};
use lance_file::version::ConcreteFileVersion;

/// Everything about the columns of one base version that writing and reading SSTables needs.
#[derive(Debug)]
pub(crate) struct TableSchema {
    /// The base's own schema, with field ids and key markers in field metadata.
    pub logical: SchemaRef,
    /// What memtables, WAL entries and SSTables have: non-key columns nullable, `_tombstone` last.
    pub storage: SchemaRef,
    /// [`Self::storage`] as Lance writes it into an SSTable, `_tombstone` with the id after the base's
    /// largest.
    pub lance: LanceSchema,
    /// The key, unless the table is append-only.
    pub key: Option<KeySchema>,
    /// The file version the base is written at, and so its SSTables.
    pub file_version: ConcreteFileVersion,
}

impl TableSchema {
    /// Derives all of it from the schema of a base version.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when the key or a column cannot be kept in a write tier.
    pub(crate) fn of(base: &LanceSchema, file_version: ConcreteFileVersion) -> Result<Self, TableError> {
        let logical = Arc::new(logical_schema(base));
        let key = KeySchema::from_schema(&logical).map_err(|error| TableError::invalid(error.to_string()))?;
        let storage = storage_schema(&logical).map_err(|error| TableError::invalid(error.to_string()))?;
        let lance = sstable_schema(base, key.as_ref())?;
        Ok(Self { logical, storage, lance, key, file_version })
    }
}

/// `base` as an Arrow schema whose fields carry their ids, nested ones too.
pub(crate) fn logical_schema(base: &LanceSchema) -> Schema {
    Schema::new_with_metadata(base.fields.iter().map(with_ids).collect::<Fields>(), base.metadata.clone())
}

fn with_ids(field: &LanceField) -> Field {
    let plain = Field::from(field);
    let mut metadata = plain.metadata().clone();
    metadata.insert(FIELD_ID.to_owned(), field.id.to_string());
    let data_type = type_with_ids(plain.data_type(), &field.children);
    plain.with_data_type(data_type).with_metadata(metadata)
}

fn type_with_ids(data_type: &DataType, children: &[LanceField]) -> DataType {
    match (data_type, children) {
        (DataType::Struct(_), children) if !children.is_empty() => {
            DataType::Struct(children.iter().map(with_ids).collect())
        }
        (DataType::List(_), [item]) => DataType::List(Arc::new(with_ids(item))),
        (DataType::LargeList(_), [item]) => DataType::LargeList(Arc::new(with_ids(item))),
        (DataType::FixedSizeList(_, size), [item]) => {
            DataType::FixedSizeList(Arc::new(with_ids(item)), *size)
        }
        (DataType::Map(_, sorted), [entries]) => DataType::Map(Arc::new(with_ids(entries)), *sorted),
        (other, _) => other.clone(),
    }
}

/// The schema of an SSTable of `base`: ids as in the base, top-level non-key columns nullable, `_tombstone`
/// last.
fn sstable_schema(base: &LanceSchema, key: Option<&KeySchema>) -> Result<LanceSchema, TableError> {
    let mut schema = base.clone();
    let next_id = base.max_field_id().map_or(0, |id| id.saturating_add(1));
    for field in &mut schema.fields {
        if !is_key_column(key, &field.name) {
            field.nullable = true;
        }
    }
    let mut tombstone = LanceField::new_arrow(TOMBSTONE, DataType::Boolean, false)
        .map_err(|error| TableError::invalid(error.to_string()))?;
    tombstone.id = next_id;
    schema.fields.push(tombstone);
    Ok(schema)
}

/// Whether the key has a column of this name.
pub(crate) fn is_key_column(key: Option<&KeySchema>, name: &str) -> bool {
    key.is_some_and(|key| key.columns().iter().any(|column| column.name == name))
}

/// Where Arrow keeps the name of an extension type.
const EXTENSION: &str = "ARROW:extension:name";
/// Names of JSON columns, as Arrow and as Lance have them.
const JSON: [&str; 2] = ["arrow.json", "lance.json"];

/// Refuses what a write tier cannot carry: blob and JSON columns, a `_tombstone` column, names of Lance's
/// system columns, names Lance cannot read a column by, and the file format before version 2.
///
/// # Errors
/// [`TableError::Invalid`] naming the column and what to do.
pub(crate) fn check_supported(
    base: &LanceSchema,
    file_version: ConcreteFileVersion,
) -> Result<(), TableError> {
    if file_version == ConcreteFileVersion::V1 {
        return Err(TableError::invalid(
            "the table uses Lance's legacy file format (0.x): \
             rewrite it with data storage version 2.0 or later first",
        ));
    }
    if base.fields.iter().any(|field| field.name == TOMBSTONE) {
        return Err(TableError::invalid(format!(
            "the table has a column {TOMBSTONE:?}, which is how a write tier marks deleted rows: \
             rename it first"
        )));
    }
    for field in base.fields_pre_order() {
        if field.metadata.get(EXTENSION).is_some_and(|name| JSON.contains(&name.as_str())) {
            return Err(TableError::invalid(format!(
                "column {:?} is a JSON column, which Lance stores in another form than it is read in: tables \
                 with JSON columns cannot have a write tier yet; text does the same",
                field.name
            )));
        }
        if field.is_blob() {
            return Err(TableError::invalid(format!(
                "column {:?} is a blob column: tables with blob columns cannot have a write tier yet",
                field.name
            )));
        }
    }
    // Lance takes the name of a column for a path when it reads it, and these are none.
    let is_no_path = |name: &str| name.is_empty() || name == "*" || name.contains('`');
    if let Some(field) = base.fields.iter().find(|field| is_no_path(&field.name)) {
        return Err(TableError::invalid(format!(
            "column {:?} has a name by which Lance cannot read it alone: rename it first",
            field.name
        )));
    }
    if let Some(field) = base.fields.iter().find(|field| lance_core::is_system_column(&field.name)) {
        return Err(TableError::invalid(format!(
            "column {:?} has the name of a Lance system column: rename it first",
            field.name
        )));
    }
    Ok(())
}

/// The top-level column of exactly this name.
pub(crate) fn column<'a>(schema: &'a LanceSchema, name: &str) -> Option<&'a LanceField> {
    schema.fields.iter().find(|field| field.name == name)
}
