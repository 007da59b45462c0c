//! Rows of a Parquet file or of Parquet bytes.

use std::sync::Arc;

use arrow_schema::Schema;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::reader::ChunkReader;

use crate::convert::Fit;
use crate::input::{Chunk, FileReader, InputError, Reading};

/// A Parquet file being read.
#[derive(Debug)]
pub struct ParquetFile {
    rows: ParquetRecordBatchReader,
    fit: Fit,
    name: Arc<str>,
    next: u64,
    failed: Option<InputError>,
}

impl ParquetFile {
    /// Opens `input` behind its first `skip` rows; also says how many of these it had.
    ///
    /// # Errors
    /// [`InputError`] when it is no Parquet file or its columns do not fit the table.
    pub fn open<R: ChunkReader + 'static>(
        input: R,
        name: Arc<str>,
        reading: &Reading,
        skip: u64,
    ) -> Result<(Self, u64), InputError> {
        let failed = |error| not_parquet(&name, &error);
        let file = ParquetRecordBatchReaderBuilder::try_new(input).map_err(failed)?;
        let fit = Fit::new(&name, file.schema(), &reading.schema)?;
        let there = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap_or_default();
        let skipped = skip.min(there);
        let offset = usize::try_from(skipped).unwrap_or(usize::MAX);
        let rows = file.with_batch_size(reading.batch_rows).with_offset(offset).build().map_err(failed)?;
        Ok((Self { rows, fit, name, next: skipped, failed: None }, skipped))
    }
}

impl FileReader for ParquetFile {
    fn next(&mut self) -> Result<Option<Chunk>, InputError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let batch = match self.rows.next() {
            None => return Ok(None),
            Some(Ok(batch)) => batch,
            Some(Err(error)) => {
                let reason = format!("the file cannot be read from here on: {error}");
                return Err(InputError { row: Some(self.next), ..InputError::of_file(&self.name, reason) });
            }
        };
        let (rows, fault) = self.fit.rows_before_fault(&batch, self.next)?;
        match fault {
            Some(fault) if rows.num_rows() == 0 => return Err(fault),
            fault => self.failed = fault,
        }
        let chunk = Chunk { rows, file: self.name.clone(), first: self.next };
        self.next += chunk.rows.num_rows() as u64;
        Ok(Some(chunk))
    }
}

/// The columns of a Parquet file.
pub fn schema<R: ChunkReader + 'static>(input: R, name: &str) -> Result<Schema, InputError> {
    let file = ParquetRecordBatchReaderBuilder::try_new(input).map_err(|error| not_parquet(name, &error))?;
    Ok(file.schema().as_ref().clone())
}

fn not_parquet(name: &str, error: &parquet::errors::ParquetError) -> InputError {
    InputError::of_file(name, format!("not a readable Parquet file: {error}"))
}
