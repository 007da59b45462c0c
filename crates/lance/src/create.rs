//! New tables, and keys for tables that have none.
//!
//! Owns: [`LanceTable::create`], [`LanceTable::set_key`]. Does not own: the write tier (`init`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatchIterator;
use arrow_schema::{DataType, Field, FieldRef, Schema};
use futures::TryStreamExt;
use headwater_engine::table::TableError;
use headwater_format::key::{KeySchema, KeyType};
use headwater_format::schema::{FIELD_ID, KEY_LEGACY, KEY_POSITION};
use headwater_store::env::EnvRef;
use lance::Dataset;
use lance::dataset::{ColumnAlteration, WriteMode, WriteParams};
use lance_core::datatypes::{Schema as LanceSchema, format_field_path};

use crate::error;
use crate::location::normalize;
use crate::schema::{TableSchema, check_supported, column as column_of};
use crate::table::{Connection, LanceTable, TableOptions};

impl LanceTable {
    /// Creates an empty Lance table with the columns of `schema` and the key columns `key`, in key order;
    /// none makes it append-only. Key columns become non-null; key markers and field ids that `schema`
    /// carries are ignored.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when a table exists at `uri`, a key column is missing or of an unsupported
    /// type, or a column cannot be kept in a write tier; otherwise what storage said.
    pub async fn create(
        uri: &str,
        schema: &Schema,
        key: &[String],
        options: &TableOptions,
        env: EnvRef,
    ) -> Result<Arc<Self>, TableError> {
        Self::create_with(&Connection::default(), uri, schema, key, options, env).await
    }

    /// [`Self::create`], sharing caches and object stores with other tables of `connection`.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn create_with(
        connection: &Connection,
        uri: &str,
        schema: &Schema,
        key: &[String],
        options: &TableOptions,
        env: EnvRef,
    ) -> Result<Arc<Self>, TableError> {
        let uri = normalize(uri)?;
        let schema = Arc::new(with_key(schema, key)?);
        let params = WriteParams {
            mode: WriteMode::Create,
            store_params: Some(connection.store_params(options)),
            session: Some(Arc::clone(connection.session())),
            ..WriteParams::default()
        };
        check_new(&schema, &params)?;
        let no_rows = RecordBatchIterator::new([], schema);
        // Kept until the table is open: an in-memory store lives as long as somebody uses it.
        let _created = match Dataset::write(no_rows, uri.as_str(), Some(params)).await {
            Ok(created) => created,
            Err(lance_core::Error::DatasetAlreadyExists { .. }) => {
                return Err(TableError::invalid("there is a table already"));
            }
            Err(error) => return Err(error::of_table(&uri, error)),
        };
        let table = Self::open_with(connection, &uri, options, env).await?;
        table.sync("").await?;
        Ok(table)
    }

    /// Marks `key` as the key of the existing table at `uri`, in key order, and opens it. Key columns that
    /// allow nulls and have none are made non-null. Does nothing when the table has exactly this key. Rows
    /// that share a key stay until that key is written.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when the table has another key, has a write tier already, or a key column is
    /// missing, of an unsupported type or null in some row; otherwise what storage said.
    pub async fn set_key(
        uri: &str,
        key: &[String],
        options: &TableOptions,
        env: EnvRef,
    ) -> Result<Arc<Self>, TableError> {
        Self::set_key_with(&Connection::default(), uri, key, options, env).await
    }

    /// [`Self::set_key`], sharing caches and object stores with other tables of `connection`.
    ///
    /// # Errors
    /// As [`Self::set_key`].
    pub async fn set_key_with(
        connection: &Connection,
        uri: &str,
        key: &[String],
        options: &TableOptions,
        env: EnvRef,
    ) -> Result<Arc<Self>, TableError> {
        let table = Self::open_with(connection, uri, options, Arc::clone(&env)).await?;
        if let Some(existing) = table.key() {
            return if existing.columns().iter().map(|column| &column.name).eq(key) {
                Ok(table)
            } else {
                Err(TableError::invalid(format!(
                    "the table has the key ({}) already, which Lance never changes: \
                     make a new table with the key ({})",
                    names(existing),
                    key.join(", ")
                )))
            };
        }
        let (mut dataset, schema) = table.refresh().await?;
        if table.details(&dataset).await?.is_some() {
            return Err(TableError::invalid(
                "the table has a write tier as an append-only table: it cannot get a key any more",
            ));
        }
        with_key(&schema.logical, key)?;
        forbid_nulls(&mut dataset, key).await?;
        mark_key(&mut dataset, key).await?;
        table.sync("_versions").await?;
        Self::open_with(connection, uri, options, env).await
    }
}

/// Makes the key columns of `dataset` non-null, after looking for nulls so that the error names the row.
async fn forbid_nulls(dataset: &mut Dataset, key: &[String]) -> Result<(), TableError> {
    let nullable = |column: &&String| column_of(dataset.schema(), column).is_some_and(|field| field.nullable);
    let nullable: Vec<String> = key.iter().filter(nullable).cloned().collect();
    if nullable.is_empty() {
        return Ok(());
    }
    let uri = dataset.uri().to_owned();
    let mut scanner = dataset.scan();
    let columns: Vec<String> = nullable.iter().map(|column| format_field_path(&[column.as_str()])).collect();
    scanner.project(&columns).map_err(|error| error::of_table(&uri, error))?;
    let mut batches = scanner.try_into_stream().await.map_err(|error| error::of_table(&uri, error))?;
    let mut first_row: usize = 0;
    while let Some(batch) = batches.try_next().await.map_err(|error| error::of_table(&uri, error))? {
        for (column, values) in nullable.iter().zip(batch.columns()) {
            if let Some(row) = (0..values.len()).find(|row| values.is_null(*row)) {
                return Err(TableError::invalid(format!(
                    "column {column:?} is null in row {}: a key column holds no nulls; \
                     fill or delete such rows first",
                    first_row.saturating_add(row)
                )));
            }
        }
        first_row = first_row.saturating_add(batch.num_rows());
    }
    let alterations: Vec<ColumnAlteration> =
        columns.into_iter().map(|column| ColumnAlteration::new(column).set_nullable(false)).collect();
    dataset.alter_columns(&alterations).await.map_err(|error| error::of_table(&uri, error))
}

async fn mark_key(dataset: &mut Dataset, key: &[String]) -> Result<(), TableError> {
    let uri = dataset.uri().to_owned();
    let ids: Vec<i32> =
        key.iter().filter_map(|column| column_of(dataset.schema(), column)).map(|field| field.id).collect();
    let mut update = dataset.update_field_metadata();
    for (id, position) in ids.into_iter().zip(1_u32..) {
        let marker = [(KEY_POSITION.to_owned(), position.to_string())];
        update = update.update(id, marker).map_err(|error| error::of_table(&uri, error))?;
    }
    update.await.map_err(|error| error::of_table(&uri, error))?;
    Ok(())
}

fn names(key: &KeySchema) -> String {
    key.columns().iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// `schema` with exactly `key` as its key: markers set on its columns and nowhere else, its columns non-null,
/// no field ids.
fn with_key(schema: &Schema, key: &[String]) -> Result<Schema, TableError> {
    for (place, column) in key.iter().enumerate() {
        let Ok(field) = schema.field_with_name(column) else {
            let columns = schema.fields().iter().map(|field| field.name().as_str());
            return Err(TableError::invalid(format!(
                "key column {column:?} is not in the table, whose columns are: {}",
                columns.collect::<Vec<_>>().join(", ")
            )));
        };
        if key.iter().take(place).any(|earlier| earlier == column) {
            return Err(TableError::invalid(format!("key column {column:?} is named twice")));
        }
        if KeyType::of(field.data_type()).is_none() {
            return Err(TableError::invalid(format!(
                "key column {column:?} has type {}: a key column is Int8 to Int64, UInt8 to UInt64, Boolean, \
                 Utf8, LargeUtf8, Binary or LargeBinary",
                field.data_type()
            )));
        }
    }
    let fields = schema.fields().iter().map(|field| {
        let place = key.iter().position(|column| column == field.name());
        let plain = without_marks(field);
        let Some(place) = place else { return plain };
        let mut metadata = plain.metadata().clone();
        metadata.insert(KEY_POSITION.to_owned(), place.saturating_add(1).to_string());
        Arc::new(plain.as_ref().clone().with_nullable(false).with_metadata(metadata))
    });
    Ok(Schema::new_with_metadata(fields.collect::<Vec<FieldRef>>(), schema.metadata().clone()))
}

fn without_marks(field: &FieldRef) -> FieldRef {
    let mut metadata: HashMap<String, String> = field.metadata().clone();
    for mark in [FIELD_ID, KEY_POSITION, KEY_LEGACY] {
        metadata.remove(mark);
    }
    let children = |fields: &arrow_schema::Fields| fields.iter().map(without_marks).collect();
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(children(fields)),
        DataType::List(item) => DataType::List(without_marks(item)),
        DataType::LargeList(item) => DataType::LargeList(without_marks(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(without_marks(item), *size),
        DataType::Map(entries, sorted) => DataType::Map(without_marks(entries), *sorted),
        other => other.clone(),
    };
    let plain: &Field = field.as_ref();
    Arc::new(plain.clone().with_data_type(data_type).with_metadata(metadata))
}

/// Refuses a schema that could be created and then not be given a write tier.
fn check_new(schema: &Schema, params: &WriteParams) -> Result<(), TableError> {
    let invalid =
        |error: lance_core::Error| TableError::invalid(format!("the table cannot be created: {error}"));
    let mut lance = LanceSchema::try_from(schema).map_err(invalid)?;
    lance.set_field_id(None);
    let file_version = params.data_storage_version.unwrap_or_default().resolve();
    check_supported(&lance, file_version)?;
    TableSchema::of(&lance, file_version).map(|_| ())
}
