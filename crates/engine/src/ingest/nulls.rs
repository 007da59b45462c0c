//! Nulls where the table allows none, at any depth.
//!
//! Owns: [`first_null`] (one column by its own) and [`first_forbidden`] (nested fields). A child's slot under
//! a null parent, or outside every list, is no value, so it may be null whatever the field says.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};

/// A null that may not be: the path of its field and where it is in the array that was asked about.
pub(super) type Forbidden = (String, usize);

/// Index of the first null of `array`, by the values a reader sees (through dictionaries).
pub(super) fn first_null(array: &dyn Array) -> Option<usize> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    (0..nulls.len()).find(|row| nulls.is_null(*row))
}

/// The first null in a not-null field below `field`, whose data is `array`. `path` is the path of `field`.
pub(super) fn first_forbidden(path: &str, field: &Field, array: &ArrayRef) -> Option<Forbidden> {
    if !is_suspect(field.data_type(), array) {
        return None;
    }
    below(path, field.data_type(), array, array.nulls().cloned().as_ref())
}

/// Whether some not-null field below has a null slot; the usual case, none, is told without looking at rows.
fn is_suspect(data_type: &DataType, array: &ArrayRef) -> bool {
    children(data_type, array).iter().any(|(field, child)| {
        (!field.is_nullable() && has_nulls(child)) || is_suspect(field.data_type(), child)
    })
}

fn has_nulls(array: &ArrayRef) -> bool {
    array.logical_null_count() > 0
}

fn children<'a>(data_type: &'a DataType, array: &ArrayRef) -> Vec<(&'a Field, ArrayRef)> {
    match data_type {
        DataType::Struct(fields) => {
            fields.iter().map(AsRef::as_ref).zip(array.as_struct().columns().iter().cloned()).collect()
        }
        DataType::List(field) => vec![(field.as_ref(), array.as_list::<i32>().values().clone())],
        DataType::LargeList(field) => vec![(field.as_ref(), array.as_list::<i64>().values().clone())],
        DataType::FixedSizeList(field, _) => {
            vec![(field.as_ref(), array.as_fixed_size_list().values().clone())]
        }
        DataType::Map(field, _) => {
            let entries: ArrayRef = std::sync::Arc::new(array.as_map().entries().clone());
            vec![(field.as_ref(), entries)]
        }
        _ => Vec::new(),
    }
}

/// As [`first_forbidden`]; `there` says which slots of `array` are values at all (none = every one).
fn below(
    path: &str,
    data_type: &DataType,
    array: &ArrayRef,
    there: Option<&NullBuffer>,
) -> Option<Forbidden> {
    let mut first: Option<Forbidden> = None;
    for (field, child) in children(data_type, array) {
        let path = format!("{path}.{}", field.name());
        let (lengths, there_below) = child_slots(data_type, array, there, child.len());
        let found = forbidden_in(&path, field, &child, there_below.as_ref());
        let found = found.map(|(path, slot)| (path, lengths.parent(slot)));
        first = match (first, found) {
            (Some(one), Some(other)) if other.1 < one.1 => Some(other),
            (one, other) => one.or(other),
        };
    }
    first
}

fn forbidden_in(
    path: &str,
    field: &Field,
    child: &ArrayRef,
    there: Option<&NullBuffer>,
) -> Option<Forbidden> {
    let values = child.logical_nulls();
    let is_there = |slot: usize| there.is_none_or(|there| there.is_valid(slot));
    let own = values.as_ref().filter(|_| !field.is_nullable()).and_then(|values| {
        (0..child.len())
            .find(|slot| values.is_null(*slot) && is_there(*slot))
            .map(|slot| (path.to_owned(), slot))
    });
    let both = NullBuffer::union(there, values.as_ref());
    let deeper = below(path, field.data_type(), child, both.as_ref());
    match (own, deeper) {
        (Some(one), Some(other)) if other.1 < one.1 => Some(other),
        (one, other) => one.or(other),
    }
}

/// How slots of a child belong to slots of its parent.
enum Slots {
    /// One to one.
    Same,
    /// So many to one.
    Fixed(usize),
    /// By the ends of the parents' ranges.
    Ends(Vec<usize>),
}

impl Slots {
    fn parent(&self, child: usize) -> usize {
        match self {
            Self::Same => child,
            Self::Fixed(size) => child.checked_div(*size).unwrap_or_default(),
            Self::Ends(ends) => ends.partition_point(|end| *end <= child),
        }
    }
}

/// How child slots belong to `array`, and which of the `len` child slots are values.
fn child_slots(
    data_type: &DataType,
    array: &ArrayRef,
    there: Option<&NullBuffer>,
    len: usize,
) -> (Slots, Option<NullBuffer>) {
    match data_type {
        DataType::List(_) => by_offsets(array.as_list::<i32>().offsets(), there, len),
        DataType::LargeList(_) => by_offsets(array.as_list::<i64>().offsets(), there, len),
        DataType::Map(_, _) => by_offsets(array.as_map().offsets(), there, len),
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or_default();
            (Slots::Fixed(size), there.map(|there| there.expand(size)))
        }
        _ => (Slots::Same, there.cloned()),
    }
}

fn by_offsets<O: OffsetSizeTrait>(
    offsets: &OffsetBuffer<O>,
    there: Option<&NullBuffer>,
    len: usize,
) -> (Slots, Option<NullBuffer>) {
    let mut slots = BooleanBufferBuilder::new(len);
    let mut ends = Vec::with_capacity(offsets.len());
    let starts = offsets.iter().zip(offsets.iter().skip(1)).enumerate();
    for (row, (start, end)) in starts {
        let (start, end) = (start.as_usize(), end.as_usize());
        slots.append_n(start.saturating_sub(slots.len()), false);
        slots.append_n(end - start, there.is_none_or(|there| there.is_valid(row)));
        ends.push(end);
    }
    slots.append_n(len.saturating_sub(slots.len()), false);
    (Slots::Ends(ends), Some(NullBuffer::new(slots.finish())))
}
