//! Keys as people and scripts give them: arguments, or a file with one JSON object a line.
//!
//! Owns: how the text of an argument becomes values of the key columns, and messages that name column and
//! type. Does not own: reading files ([`crate::input`]). Called by `get` and `delete`.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use futures::StreamExt;
use futures::stream::{self, LocalBoxStream};
use headwater::{QueryError, Table};
use serde_json::Value;

use crate::error::Failure;
use crate::input::{self, FileFormat, InputError, Reading};

/// Keys of a file handed over at once.
const FILE_KEYS: usize = 10_000;

/// Batches of exactly the key columns.
pub type KeyBatches<'a> = LocalBoxStream<'a, Result<RecordBatch, Failure>>;

/// The key columns of a table.
///
/// # Errors
/// [`Failure::Table`] when it has none; `instead` says what to do then.
pub fn key_of(table: &Table, instead: &str) -> Result<SchemaRef, Failure> {
    let Some(key) = table.key() else {
        let reason = format!("the table has no key (it is append-only): {instead}");
        return Err(table.read_failed(QueryError::Keys { reason }).into());
    };
    Ok(key.schema().clone())
}

/// The keys of `file`, where there is one, else those of `arguments`.
///
/// # Errors
/// [`Failure::Usage`] naming the argument, column and type at fault; [`Failure::Input`] when there is no such
/// file. What is wrong within the file is told by the stream.
pub fn keys(
    arguments: &[String],
    file: Option<&str>,
    key: &SchemaRef,
) -> Result<KeyBatches<'static>, Failure> {
    match file {
        Some(file) => of_file(file, key),
        None => Ok(stream::iter([Ok(of_arguments(arguments, key)?)]).boxed_local()),
    }
}

fn of_file(file: &str, key: &SchemaRef) -> Result<KeyBatches<'static>, Failure> {
    let sources = input::sources(&[file.to_owned()])?;
    let reading = Reading {
        schema: key.clone(),
        format: Some(FileFormat::Ndjson),
        batch_rows: FILE_KEYS,
        batch_wait: Duration::MAX,
        skip_rows: 0,
        csv_delimiter: b',',
    };
    let rows = input::start(sources, reading).map_err(|error| Failure::io("the reading thread", &error))?;
    let batches = stream::unfold((rows, key.clone()), |(mut rows, key)| async move {
        let keys = rows.next().await?.map(|chunk| chunk.rows).map_err(|error| of_keys(error, &key));
        Some((keys, (rows, key)))
    });
    Ok(batches.boxed_local())
}

/// What is wrong with a line, where a line has less than a row has.
fn of_keys(error: InputError, key: &Schema) -> Failure {
    let names: Vec<&str> = key.fields().iter().map(|field| field.name().as_str()).collect();
    let names = names.join(", ");
    let reason = match &error.column {
        Some(column) if key.field_with_name(column).is_err() => {
            format!("it is no column of the key: a line of keys has {names} and nothing else")
        }
        _ if error.line.is_some() => format!("{} (a line of keys is a JSON object of {names})", error.reason),
        _ => return error.into(),
    };
    InputError { reason, ..error }.into()
}

/// One row for each argument.
fn of_arguments(arguments: &[String], key: &SchemaRef) -> Result<RecordBatch, Failure> {
    let mut columns: Vec<Vec<String>> = vec![Vec::new(); key.fields().len()];
    for argument in arguments {
        let parts = parts(argument, key)?;
        for (column, part) in columns.iter_mut().zip(parts) {
            column.push(part);
        }
    }
    let arrays = key.fields().iter().zip(&columns).map(|(field, texts)| values(field, texts));
    let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(key.clone(), arrays).map_err(|error| Failure::usage(format!("keys: {error}")))
}

/// The text of each key column. An argument is taken as it is when there is only one.
fn parts(argument: &str, key: &Schema) -> Result<Vec<String>, Failure> {
    let columns = key.fields().len();
    if columns == 1 {
        return Ok(vec![argument.to_owned()]);
    }
    let wrong = |reason: String| Failure::usage(format!("key {argument:?}: {reason}"));
    let count = |found: usize| {
        let names: Vec<&str> = key.fields().iter().map(|field| field.name().as_str()).collect();
        wrong(format!(
            "{found} values, where the key has {columns} columns ({}); write them with commas between, or as \
             a JSON array when a text holds commas",
            names.join(", ")
        ))
    };
    if !argument.starts_with('[') {
        let parts: Vec<String> = argument.split(',').map(str::to_owned).collect();
        return if parts.len() == columns { Ok(parts) } else { Err(count(parts.len())) };
    }
    let array: Vec<Value> =
        serde_json::from_str(argument).map_err(|error| wrong(format!("no JSON array: {error}")))?;
    if array.len() != columns {
        return Err(count(array.len()));
    }
    let texts = key.fields().iter().zip(&array).map(|(field, value)| json_text(field, value));
    texts.collect()
}

/// A JSON value as the text of an argument, where it is of the column's kind.
fn json_text(field: &Field, value: &Value) -> Result<String, Failure> {
    match (value, field.data_type()) {
        (Value::String(text), _) => Ok(text.clone()),
        (Value::Number(number), to) if to.is_integer() => Ok(number.to_string()),
        (Value::Bool(truth), DataType::Boolean) => Ok(truth.to_string()),
        (other, _) => Err(misfit(field, &other.to_string())),
    }
}

/// Texts in the type of a key column.
fn values(field: &Field, texts: &[String]) -> Result<ArrayRef, Failure> {
    let array: ArrayRef = match field.data_type() {
        DataType::Binary | DataType::LargeBinary => {
            let bytes = texts.iter().map(|text| bytes(field, text)).collect::<Result<Vec<_>, _>>()?;
            Arc::new(BinaryArray::from_iter_values(bytes))
        }
        _ => Arc::new(StringArray::from_iter_values(texts)),
    };
    let error = match typed(field, &array) {
        Ok(values) => return Ok(values),
        Err(error) => error,
    };
    let bad = texts.iter().enumerate().find(|(row, _)| typed(field, &array.slice(*row, 1)).is_err());
    let bad = bad.map_or_else(|| error.to_string(), |(_, text)| format!("{text:?}"));
    Err(misfit(field, &bad))
}

/// Numbers are taken whole and in range, or not at all.
fn typed(field: &Field, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, field.data_type(), &exact)
}

fn bytes(field: &Field, text: &str) -> Result<Vec<u8>, Failure> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    hex::decode(digits).map_err(|error| {
        let reason = misfit(field, &format!("{text:?}"));
        Failure::usage(format!("{reason}: {error}; write bytes as hex, as in 0x1f8b"))
    })
}

fn misfit(field: &Field, value: &str) -> Failure {
    Failure::usage(format!("key column {} takes {} values; {value} is none", field.name(), field.data_type()))
}
