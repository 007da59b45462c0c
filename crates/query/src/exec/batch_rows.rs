//! How many rows a batch of a scan has.
//!
//! Every batch costs the same few steps whatever is in it, so narrow rows come in larger batches. Wide rows
//! come as Lance would hand them out.

use arrow_schema::{DataType, Schema};

/// Bytes a batch of narrow rows aims at.
const WANTED_BYTES: usize = 1 << 20;
/// What Lance hands out unless it is told otherwise.
const LEAST_ROWS: usize = 8_192;
const MOST_ROWS: usize = 65_536;
/// What a value of no fixed size is taken for.
const GUESSED_BYTES: usize = 128;

/// Rows of a batch with the columns of `schema`.
pub(super) fn batch_rows(schema: &Schema) -> usize {
    let row: usize = schema.fields().iter().map(|field| value_bytes(field.data_type())).sum();
    WANTED_BYTES.checked_div(row).map_or(MOST_ROWS, |rows| rows.clamp(LEAST_ROWS, MOST_ROWS))
}

/// Bytes of one value.
fn value_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).unwrap_or_default(),
        DataType::FixedSizeList(item, length) => {
            let length = usize::try_from(*length).unwrap_or_default();
            length.saturating_mul(value_bytes(item.data_type()))
        }
        DataType::Struct(fields) => fields.iter().map(|field| value_bytes(field.data_type())).sum(),
        other => other.primitive_width().unwrap_or(GUESSED_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Field;

    use super::*;

    fn rows(types: &[DataType]) -> usize {
        let field = |(place, of): (usize, &DataType)| Field::new(format!("c{place}"), of.clone(), true);
        batch_rows(&Schema::new(types.iter().enumerate().map(field).collect::<Vec<_>>()))
    }

    #[test]
    fn narrow_rows_come_in_large_batches_and_wide_ones_in_lances() {
        assert_eq!(rows(&[]), MOST_ROWS);
        assert_eq!(rows(&[DataType::Int32]), MOST_ROWS);
        assert_eq!(rows(&[DataType::Int64, DataType::Float64, DataType::Int64, DataType::Int64]), 32_768);
        assert_eq!(rows(&[DataType::Utf8]), LEAST_ROWS);
        let item = Arc::new(Field::new("item", DataType::Float32, true));
        assert_eq!(rows(&[DataType::FixedSizeList(item, 1_536)]), LEAST_ROWS);
    }
}
