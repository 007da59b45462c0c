//! The same values under a data type that differs in field metadata only.
//!
//! Nested Arrow types carry the metadata of their children, so what a Lance file gives back (no field ids) is
//! of another type than the storage schema asks for. Nothing is copied or converted.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch,
    StructArray,
};
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};

/// `batch` with its columns picked by name, under `schema`.
///
/// # Errors
/// When a column is missing or its values are of another type.
pub fn retype_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    retyped(batch, schema, batch.num_rows(), Arc::clone)
}

/// As [`retype_batch`], of the one row at `row`. Nothing is copied.
///
/// # Errors
/// As [`retype_batch`].
pub fn retype_row(batch: &RecordBatch, row: usize, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    retyped(batch, schema, 1, |column| column.slice(row, 1))
}

fn retyped(
    batch: &RecordBatch,
    schema: &SchemaRef,
    rows: usize,
    part: impl Fn(&ArrayRef) -> ArrayRef,
) -> Result<RecordBatch, ArrowError> {
    let given = batch.schema_ref().fields();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (place, field) in schema.fields().iter().enumerate() {
        // Mostly it is where it is in the table.
        let column = match given.get(place) {
            Some(same) if same.name() == field.name() => batch.columns().get(place),
            _ => batch.column_by_name(field.name()),
        };
        let column = column.ok_or_else(|| ArrowError::SchemaError(format!("no column {}", field.name())))?;
        columns.push(retype(&part(column), field.data_type())?);
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// `array` under `data_type`, which differs in the metadata of nested fields at most; anything else comes
/// back as it was, for the caller's schema check to refuse.
fn retype(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), data_type) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let source = array.as_struct();
            let children = source.columns().iter().zip(fields);
            let children =
                children.map(|(child, field)| retype(child, field.data_type())).collect::<Result<_, _>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), children, source.nulls().cloned())?))
        }
        (DataType::List(_), DataType::List(field)) => retype_list::<i32>(array, field),
        (DataType::LargeList(_), DataType::LargeList(field)) => retype_list::<i64>(array, field),
        (DataType::FixedSizeList(_, size), DataType::FixedSizeList(field, wanted)) if size == wanted => {
            let source = array.as_fixed_size_list();
            let values = retype(source.values(), field.data_type())?;
            let nulls = source.nulls().cloned();
            Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(field), *size, values, nulls)?))
        }
        (DataType::Map(_, _), DataType::Map(field, sorted)) => {
            let source = array.as_map();
            let entries: ArrayRef = Arc::new(source.entries().clone());
            let entries = retype(&entries, field.data_type())?;
            let Some(entries) = entries.as_struct_opt() else { return Ok(Arc::clone(array)) };
            let (offsets, nulls) = (source.offsets().clone(), source.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries.clone(), nulls, *sorted)?))
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn retype_list<O: OffsetSizeTrait>(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let source = array.as_list::<O>();
    let values = retype(source.values(), field.data_type())?;
    let (offsets, nulls) = (source.offsets().clone(), source.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(field), offsets, values, nulls)?))
}
