//! How many bytes rows are and how many they hold on to; copying when that differs much.
//!
//! Owns: logical and resident sizes of batches, [`compacted`]. Does not own: limits (`limits`) or merging
//! (`memtable::chunks`). A slice keeps its whole parent in memory, so a small one is copied; so is a batch
//! whose builders left much room (B2, M1).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::types::{BinaryViewType, ByteArrayType, ByteViewType, StringViewType};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;

/// A batch may hold on to this many bytes more than it needs, whatever it needs.
const SLACK_BYTES: u64 = 2 << 10;
/// Past 1/8 more than needed, buffers are cut to size where they can be, in place.
const SHRINK_SHARE: u64 = 8;
/// Past 1/4 more than needed, the rows are copied.
const COPY_SHARE: u64 = 4;

/// Bytes of a batch's columns beside their buffers: array, shared counts, allocator.
const COLUMN_OVERHEAD: u64 = 192;
/// The same of a batch.
const BATCH_OVERHEAD: u64 = 128;

/// Logical bytes of `columns`: what they would take as buffers cut to size.
pub(crate) fn logical_bytes<'a>(columns: impl IntoIterator<Item = &'a ArrayRef>) -> u64 {
    columns.into_iter().map(array_bytes).sum()
}

/// Bytes of all buffers of `batch`, which shares none of them.
pub(crate) fn own_bytes(batch: &RecordBatch) -> u64 {
    at_most_resident(batch.columns())
}

/// An estimate of what `batch` takes beside its buffers.
pub(crate) fn overhead_bytes(batch: &RecordBatch) -> u64 {
    BATCH_OVERHEAD + batch.num_columns() as u64 * COLUMN_OVERHEAD
}

/// `columns`, copied if they hold on to much more than the `needed` bytes they are; and what they hold on to
/// then.
///
/// # Errors
/// What Arrow says when the copy would be too large for its type.
pub(super) fn compacted(mut columns: Vec<ArrayRef>, needed: u64) -> Result<(Vec<ArrayRef>, u64), ArrowError> {
    let allowed = |share: u64| needed + needed / share + SLACK_BYTES;
    // Told without an allocation, and right but for shared buffers.
    let held = at_most_resident(&columns);
    if held <= allowed(SHRINK_SHARE) {
        return Ok((columns, held));
    }
    let held = columns_resident(&columns);
    if held <= allowed(SHRINK_SHARE) {
        return Ok((columns, held));
    }
    // Cheap when nobody else holds the arrays; else it does nothing.
    columns.iter_mut().for_each(|column| column.shrink_to_fit());
    let held = columns_resident(&columns);
    if held <= allowed(COPY_SHARE) {
        return Ok((columns, held));
    }
    let copies = columns.iter().map(copied).collect::<Result<Vec<_>, _>>()?;
    let held = columns_resident(&copies);
    Ok((copies, held))
}

/// Whether arrays of this type may hold on to data buffers of others after they were concatenated.
pub(crate) fn holds_views(data_type: &DataType) -> bool {
    use DataType::{
        BinaryView, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct, Utf8View,
    };
    match data_type {
        Utf8View | BinaryView => true,
        List(field)
        | LargeList(field)
        | ListView(field)
        | LargeListView(field)
        | FixedSizeList(field, _)
        | Map(field, _) => holds_views(field.data_type()),
        Struct(fields) => fields.iter().any(|field| holds_views(field.data_type())),
        DataType::Dictionary(_, value) => holds_views(value),
        _ => false,
    }
}

/// `batch` with the data of view columns in buffers of their own.
pub(crate) fn without_shared_views(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(own_views).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// A copy of `array` in buffers of its own, cut to size.
fn copied(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    // Concatenation always copies, but for a single array.
    let mut copy = own_views(&concat(&[array.as_ref(), array.slice(0, 0).as_ref()])?)?;
    copy.shrink_to_fit();
    Ok(copy)
}

/// `array` with the data of views, at any depth, in buffers of their own.
fn own_views(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Utf8View => Ok(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(array.as_binary_view().gc())),
        data_type if holds_views(data_type) => {
            let data = array.to_data();
            let children = data.child_data().iter().map(|child| own_views(&make_array(child.clone())));
            let children = children.map(|child| child.map(|child| child.to_data()));
            let children = children.collect::<Result<Vec<_>, _>>()?;
            Ok(make_array(data.into_builder().child_data(children).build()?))
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// Bytes of the buffers of all columns, a shared one counted each time.
fn at_most_resident(columns: &[ArrayRef]) -> u64 {
    columns.iter().map(|column| column.get_buffer_memory_size() as u64).sum()
}

/// Bytes of all different buffers the columns hold on to.
fn columns_resident(columns: &[ArrayRef]) -> u64 {
    let mut buffers: Vec<(usize, u64)> = Vec::with_capacity(columns.len() * 3);
    let mut arrays: Vec<_> = columns.iter().map(|column| column.to_data()).collect();
    while let Some(data) = arrays.pop() {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        let all = data.buffers().iter().chain(nulls);
        buffers.extend(all.map(|buffer| (buffer.data_ptr().as_ptr() as usize, buffer.capacity() as u64)));
        arrays.extend(data.child_data().iter().cloned());
    }
    buffers.sort_unstable();
    buffers.dedup_by_key(|(start, _)| *start);
    buffers.iter().map(|(_, capacity)| capacity).sum()
}

fn bits(len: usize) -> u64 {
    len.div_ceil(8) as u64
}

/// Logical bytes of one array, its validity included.
fn array_bytes(array: &ArrayRef) -> u64 {
    let nulls = if array.null_count() > 0 && array.nulls().is_some() { bits(array.len()) } else { 0 };
    nulls + offset_bytes(array.data_type(), array.len()) + value_bytes(array)
}

/// Bytes of 32-bit or 64-bit offsets, of which there is one more than values.
fn offset_bytes(data_type: &DataType, len: usize) -> u64 {
    use DataType::{Binary, LargeBinary, LargeList, LargeUtf8, List, Map, Utf8};
    let width = match data_type {
        Utf8 | Binary | List(_) | Map(_, _) => 4,
        LargeUtf8 | LargeBinary | LargeList(_) => 8,
        _ => return 0,
    };
    (len as u64 + 1) * width
}

/// Logical bytes of the values of one array: without its own offsets and validity.
pub(super) fn value_bytes(array: &ArrayRef) -> u64 {
    let len = array.len();
    match array.data_type() {
        DataType::Null => 0,
        DataType::Boolean => bits(len),
        DataType::Utf8 => text_bytes::<Utf8Type>(array),
        DataType::Binary => text_bytes::<BinaryType>(array),
        DataType::LargeUtf8 => text_bytes::<LargeUtf8Type>(array),
        DataType::LargeBinary => text_bytes::<LargeBinaryType>(array),
        DataType::Utf8View => view_bytes::<StringViewType>(array),
        DataType::BinaryView => view_bytes::<BinaryViewType>(array),
        DataType::FixedSizeBinary(width) => len as u64 * u64::try_from(*width).unwrap_or_default(),
        DataType::Struct(_) => logical_bytes(array.as_struct().columns()),
        DataType::List(_) => list_bytes(array.as_list::<i32>().offsets(), array.as_list::<i32>().values()),
        DataType::LargeList(_) => {
            list_bytes(array.as_list::<i64>().offsets(), array.as_list::<i64>().values())
        }
        DataType::FixedSizeList(_, _) => array_bytes(array.as_fixed_size_list().values()),
        DataType::Map(_, _) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            list_bytes(map.offsets(), &entries)
        }
        DataType::Dictionary(key, _) => {
            let keys = key.primitive_width().unwrap_or_default() * len;
            keys as u64 + array_bytes(array.as_any_dictionary().values())
        }
        other => match other.primitive_width() {
            Some(width) => (len * width) as u64,
            // Unions, run ends, list views: what Arrow makes of the slice.
            None => {
                array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_buffer_memory_size())
                    as u64
            }
        },
    }
}

fn text_bytes<T: ByteArrayType>(array: &ArrayRef) -> u64 {
    let offsets = array.as_bytes::<T>().value_offsets();
    let ends = offsets.first().zip(offsets.last());
    ends.map_or(0, |(first, last)| (last.as_usize() - first.as_usize()) as u64)
}

fn view_bytes<T: ByteViewType>(array: &ArrayRef) -> u64 {
    let views = array.as_byte_view::<T>();
    (views.len() * size_of::<u128>() + views.total_buffer_bytes_used()) as u64
}

fn list_bytes<O: OffsetSizeTrait>(offsets: &[O], values: &ArrayRef) -> u64 {
    match offsets.first().zip(offsets.last()) {
        Some((first, last)) => {
            array_bytes(&values.slice(first.as_usize(), last.as_usize() - first.as_usize()))
        }
        None => 0,
    }
}
