//! Rows of Arrow IPC, a file or a stream.
//!
//! Owns: [`ArrowRows`]. Does not own: which types fit ([`crate::convert`]). A record batch of the input is
//! held at a time and handed over in pieces, so memory is that of its largest batch. Of a stream that ends
//! without its end mark what came counts as all of it, as the format has it.

use std::fmt;
use std::io::{Read, Seek};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader as IpcFile, StreamReader as IpcStream};
use arrow_schema::{ArrowError, Schema};

use crate::convert::Fit;
use crate::input::{Chunk, FileReader, InputError, Reading};

/// Arrow IPC being read.
pub struct ArrowRows {
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
    /// What is left of the batch in hand.
    rest: Option<RecordBatch>,
    fit: Fit,
    name: Arc<str>,
    batch_rows: usize,
    next: u64,
    failed: Option<InputError>,
}

impl fmt::Debug for ArrowRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowRows")
            .field("name", &self.name)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl ArrowRows {
    /// Opens an IPC file behind its first `skip` rows; also says how many of these it had.
    ///
    /// # Errors
    /// [`InputError`] when it is no such file, or its columns do not fit the table.
    pub fn of_file<R: Read + Seek + 'static>(
        input: R,
        name: Arc<str>,
        reading: &Reading,
        skip: u64,
    ) -> Result<(Self, u64), InputError> {
        let file = IpcFile::try_new(input, None).map_err(|error| not_arrow(&name, &error))?;
        let schema = file.schema();
        Self::over(Box::new(file), &schema, name, reading, skip)
    }

    /// The same of an IPC stream.
    ///
    /// # Errors
    /// As [`Self::of_file`].
    pub fn of_stream<R: Read + 'static>(
        input: R,
        name: Arc<str>,
        reading: &Reading,
        skip: u64,
    ) -> Result<(Self, u64), InputError> {
        let stream = IpcStream::try_new(input, None).map_err(|error| not_arrow(&name, &error))?;
        let schema = stream.schema();
        Self::over(Box::new(stream), &schema, name, reading, skip)
    }

    fn over(
        batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
        schema: &Schema,
        name: Arc<str>,
        reading: &Reading,
        skip: u64,
    ) -> Result<(Self, u64), InputError> {
        let fit = Fit::new(&name, schema, &reading.schema)?;
        let batch_rows = reading.batch_rows;
        let mut rows = Self { batches, rest: None, fit, name, batch_rows, next: 0, failed: None };
        while rows.next < skip {
            let most = usize::try_from(skip - rows.next).unwrap_or(usize::MAX);
            let Some(skipped) = rows.piece(most)? else { break };
            rows.next += skipped.num_rows() as u64;
        }
        let skipped = rows.next;
        Ok((rows, skipped))
    }

    /// At most so many of the next rows, as they are in the file; none at the end.
    fn piece(&mut self, most: usize) -> Result<Option<RecordBatch>, InputError> {
        loop {
            if let Some(batch) = self.rest.take() {
                let rows = batch.num_rows();
                if rows > most {
                    self.rest = Some(batch.slice(most, rows - most));
                    return Ok(Some(batch.slice(0, most)));
                }
                if rows > 0 {
                    return Ok(Some(batch));
                }
            }
            match self.batches.next() {
                None => return Ok(None),
                Some(Ok(batch)) => self.rest = Some(batch),
                Some(Err(error)) => {
                    let reason = format!("it cannot be read from here on: {error}");
                    return Err(InputError {
                        row: Some(self.next),
                        ..InputError::of_file(&self.name, reason)
                    });
                }
            }
        }
    }
}

impl FileReader for ArrowRows {
    fn next(&mut self) -> Result<Option<Chunk>, InputError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(batch) = self.piece(self.batch_rows)? else { return Ok(None) };
        let (rows, fault) = self.fit.rows_before_fault(&batch, self.next)?;
        match fault {
            Some(fault) if rows.num_rows() == 0 => return Err(fault),
            fault => self.failed = fault,
        }
        let chunk = Chunk { rows, file: Arc::clone(&self.name), first: self.next };
        self.next += chunk.rows.num_rows() as u64;
        Ok(Some(chunk))
    }
}

/// The columns of an IPC file.
pub fn schema_of_file<R: Read + Seek>(input: R, name: &str) -> Result<Schema, InputError> {
    let file = IpcFile::try_new(input, None).map_err(|error| not_arrow(name, &error))?;
    Ok(file.schema().as_ref().clone())
}

/// The columns of an IPC stream.
pub fn schema_of_stream<R: Read>(input: R, name: &str) -> Result<Schema, InputError> {
    let stream = IpcStream::try_new(input, None).map_err(|error| not_arrow(name, &error))?;
    Ok(stream.schema().as_ref().clone())
}

fn not_arrow(name: &str, error: &ArrowError) -> InputError {
    InputError::of_file(name, format!("not readable as Arrow IPC: {error}"))
}
