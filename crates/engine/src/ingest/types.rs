//! Whether a column can be taken for a column of the table, and taking it for one.
//!
//! Owns: [`same_type`] and [`relabel`]. Metadata of fields is ignored, and so are the names of list items and
//! map entries and nullability below the top (nulls are looked for in the data instead); everything else must
//! be equal: nothing is cast.

use arrow_array::{Array, ArrayRef, UInt64Array, make_array};
use arrow_schema::{ArrowError, DataType, Fields};
use arrow_select::take::take;

/// Whether data of type `found` is data of type `expected`.
pub(super) fn same_type(expected: &DataType, found: &DataType) -> bool {
    use DataType::{Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
    match (expected, found) {
        (List(one), List(other))
        | (LargeList(one), LargeList(other))
        | (ListView(one), ListView(other))
        | (LargeListView(one), LargeListView(other)) => same_type(one.data_type(), other.data_type()),
        (FixedSizeList(one, length), FixedSizeList(other, found_length)) => {
            length == found_length && same_type(one.data_type(), other.data_type())
        }
        (Struct(one), Struct(other)) => same_fields(one, other, true),
        (Map(one, sorted), Map(other, found_sorted)) => {
            let entries = match (one.data_type(), other.data_type()) {
                (Struct(one), Struct(other)) => same_fields(one, other, false),
                _ => false,
            };
            sorted == found_sorted && entries
        }
        (Dictionary(key, value), Dictionary(found_key, found_value)) => {
            key == found_key && same_type(value, found_value)
        }
        (one, other) => one == other,
    }
}

fn same_fields(expected: &Fields, found: &Fields, by_name: bool) -> bool {
    expected.len() == found.len()
        && expected.iter().zip(found).all(|(one, other)| {
            (!by_name || one.name() == other.name()) && same_type(one.data_type(), other.data_type())
        })
}

/// `array` under the type `expected`, of which its own is the [same](same_type). Shares the buffers, unless
/// nulls that `expected` does not allow lie where no value is: outside every list, or under a null one. Then
/// it is a copy without them.
///
/// # Errors
/// What Arrow finds wrong with a nested column.
pub(super) fn relabel(array: &ArrayRef, expected: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == expected {
        return Ok(array.clone());
    }
    relabel_shared(array, expected).or_else(|_| {
        let every = UInt64Array::from_iter_values(0..array.len() as u64);
        relabel_shared(&take(array, &every, None)?, expected)
    })
}

fn relabel_shared(array: &ArrayRef, expected: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == expected {
        return Ok(array.clone());
    }
    let data = array.to_data();
    let children: Result<Vec<_>, ArrowError> = data
        .child_data()
        .iter()
        .zip(child_types(expected))
        .map(|(child, wanted)| {
            relabel_shared(&make_array(child.clone()), wanted).map(|child| child.to_data())
        })
        .collect();
    let data = data.into_builder().data_type(expected.clone()).child_data(children?).build()?;
    Ok(make_array(data))
}

/// Types of the children as `ArrayData` has them.
fn child_types(data_type: &DataType) -> Vec<&DataType> {
    use DataType::{Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
    match data_type {
        List(field)
        | LargeList(field)
        | ListView(field)
        | LargeListView(field)
        | FixedSizeList(field, _)
        | Map(field, _) => vec![field.data_type()],
        Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        Dictionary(_, value) => vec![value],
        _ => Vec::new(),
    }
}
