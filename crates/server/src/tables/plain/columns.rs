//! Adding, changing and dropping columns, and their metadata, through Lance.
//!
//! Owns: one change for each. Does not own: that they happen once (`replays`), the key of a table
//! (`headwater-lance`).

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use futures::FutureExt;
use futures::future::BoxFuture;
use lance::Dataset;
use lance::dataset::{ColumnAlteration, NewColumnTransform};
use serde_json::json;

use crate::bodies::changes::{AddColumns, Alteration, DropColumns, FieldMetadata};
use crate::error::ApiError;
use crate::tables::plain::sql;
use crate::tables::replays::{Change, Done};

/// Adds columns with the values of SQL expressions.
///
/// # Errors
/// 400 for texts that are no whole expressions.
pub fn add(body: AddColumns) -> Result<Change, ApiError> {
    for column in &body.new_columns {
        sql::check(&format!("field new_columns, column {:?}", column.name), &column.expression)?;
    }
    let columns = body.new_columns.into_iter().map(|column| (column.name, column.expression)).collect();
    Ok(committed(move |dataset| {
        async move { dataset.add_columns(NewColumnTransform::SqlExpressions(columns), None, None).await }
            .boxed()
    }))
}

/// Adds columns that are null in every row.
pub fn add_nulls(columns: SchemaRef) -> Change {
    committed(move |dataset| {
        async move { dataset.add_columns(NewColumnTransform::AllNulls(columns), None, None).await }.boxed()
    })
}

/// Changes names, types or nullability.
///
/// # Errors
/// 400 for a type there is not.
pub fn alter(body: Vec<Alteration>) -> Result<Change, ApiError> {
    let alterations: Vec<ColumnAlteration> = body.into_iter().map(alteration).collect::<Result<_, _>>()?;
    Ok(committed(move |dataset| async move { dataset.alter_columns(&alterations).await }.boxed()))
}

fn alteration(asked: Alteration) -> Result<ColumnAlteration, ApiError> {
    let mut alteration = ColumnAlteration::new(asked.path);
    if let Some(name) = asked.rename {
        alteration = alteration.rename(name);
    }
    if let Some(nullable) = asked.nullable {
        alteration = alteration.set_nullable(nullable);
    }
    if let Some(data_type) = asked.data_type {
        let field = format!("column {:?}, field data_type", alteration.path);
        let data_type = DataType::try_from(&data_type).map_err(|error| ApiError::value(&field, error))?;
        alteration = alteration.cast_to(data_type);
    }
    Ok(alteration)
}

/// Drops columns.
pub fn drop(body: DropColumns) -> Change {
    committed(move |dataset| {
        async move {
            let columns: Vec<&str> = body.columns.iter().map(String::as_str).collect();
            dataset.drop_columns(&columns).await
        }
        .boxed()
    })
}

/// Changes the metadata of columns.
pub fn metadata(updates: Vec<FieldMetadata>) -> Change {
    committed(move |dataset| {
        async move {
            let mut builder = dataset.update_field_metadata();
            for update in &updates {
                let entries = update.metadata.iter().map(|(key, value)| (key.clone(), value.clone()));
                builder = match update.replace {
                    true => builder.replace(update.path.as_str(), entries)?,
                    false => builder.update(update.path.as_str(), entries)?,
                };
            }
            builder.await?;
            Ok(())
        }
        .boxed()
    })
}

/// A change that commits through the dataset it is given, and tells its version.
fn committed(
    change: impl for<'a> FnOnce(&'a mut Dataset) -> BoxFuture<'a, Result<(), lance::Error>> + Send + 'static,
) -> Change {
    Box::new(move |mut dataset| {
        async move {
            change(&mut dataset).await?;
            let reply = json!({ "version": dataset.version_id() });
            Done::Ok((Arc::new(dataset), reply))
        }
        .boxed()
    })
}
