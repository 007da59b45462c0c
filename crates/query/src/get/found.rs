//! What a get has found.
//!
//! Owns: [`Found`]: rows of several sources, put into the order of the keys.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave_record_batch;

use super::sources::Rows;
use crate::error::QueryError;

/// Found rows: for each, which key it has, and the row.
#[derive(Default)]
pub(super) struct Found {
    batches: Vec<RecordBatch>,
    /// Key, batch, row.
    rows: Vec<(usize, usize, usize)>,
}

impl Found {
    /// Adds the rows of one source.
    pub(super) fn add(&mut self, rows: Option<Rows>) {
        let Some(rows) = rows else { return };
        let number = self.batches.len();
        self.rows.extend(rows.places.into_iter().map(|(key, row)| (key, number, row)));
        self.batches.push(rows.batch);
    }

    /// In the order of the keys.
    pub(super) fn finish(mut self, schema: &SchemaRef) -> Result<RecordBatch, QueryError> {
        self.rows.sort_unstable();
        if self.rows.is_empty() {
            return Ok(RecordBatch::new_empty(Arc::clone(schema)));
        }
        if schema.fields().is_empty() {
            let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
            let rows = RecordBatch::try_new_with_options(Arc::clone(schema), Vec::new(), &options);
            return rows.map_err(QueryError::execution);
        }
        if let [batch] = self.batches.as_slice()
            && self.rows.len() == batch.num_rows()
            && self.rows.iter().zip(0..).all(|((_, _, row), place)| *row == place)
        {
            return Ok(batch.clone());
        }
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let places: Vec<_> = self.rows.iter().map(|(_, batch, row)| (*batch, *row)).collect();
        interleave_record_batch(&batches, &places).map_err(QueryError::execution)
    }
}
