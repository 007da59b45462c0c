//! What the tests of several file readers share: how input is read, and reading it to its end.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, Schema};

use crate::input::{Chunk, FileReader, InputError, Reading};

/// Into a table with a column `id` and `others`, waiting for rows as long as it takes.
pub fn reading(others: Vec<Field>, batch_rows: usize) -> Reading {
    let id = Field::new("id", DataType::Int64, false);
    let schema = Arc::new(Schema::new([vec![id], others].concat()));
    Reading { schema, format: None, batch_rows, batch_wait: Duration::MAX, skip_rows: 0, csv_delimiter: b',' }
}

pub fn ids(chunk: &Chunk) -> Vec<i64> {
    chunk.rows.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()
}

/// Ids handed over, chunk by chunk, and the error at the end, of a file read from its row `first` on.
pub fn read_all(file: &mut dyn FileReader, first: u64) -> (Vec<Vec<i64>>, Option<InputError>) {
    let (mut chunks, mut next) = (Vec::new(), first);
    loop {
        match file.next() {
            Ok(None) => return (chunks, None),
            Err(error) => return (chunks, Some(error)),
            Ok(Some(chunk)) => {
                assert_eq!(chunk.first, next, "chunks follow one another");
                next += chunk.rows.num_rows() as u64;
                chunks.push(ids(&chunk));
            }
        }
    }
}
