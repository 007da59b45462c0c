//! Rows as LanceDB's clients send them: an Arrow IPC stream, each batch packed with LZ4 and sent as a chunk
//! of its own, the schema with the first, the end marker by itself.
//!
//! Owns: [`Chunks`]. Does not own: sending them (`client`).

use anyhow::Result;
use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::Schema;
use bytes::Bytes;

/// The chunks of a body, made one by one.
pub struct Chunks<I> {
    /// None behind the end.
    writer: Option<StreamWriter<Vec<u8>>>,
    batches: I,
}

impl<I> Chunks<I> {
    /// Of these batches.
    pub fn new(schema: &Schema, batches: I) -> Result<Self> {
        let packed = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?;
        let writer = StreamWriter::try_new_with_options(Vec::new(), schema, packed)?;
        Ok(Self { writer: Some(writer), batches })
    }
}

impl<I: Iterator<Item = Result<RecordBatch>>> Chunks<I> {
    fn chunk(&mut self) -> Result<Option<Bytes>> {
        let Some(writer) = &mut self.writer else { return Ok(None) };
        let next = self.batches.next().transpose()?;
        match &next {
            Some(batch) => writer.write(batch)?,
            None => writer.finish()?,
        }
        let bytes = Bytes::from(std::mem::take(writer.get_mut()));
        if next.is_none() {
            self.writer = None;
        }
        Ok(Some(bytes))
    }
}

impl<I: Iterator<Item = Result<RecordBatch>>> Iterator for Chunks<I> {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        self.chunk().transpose()
    }
}

/// The body with one batch, made beforehand.
pub fn body(batch: &RecordBatch) -> Result<Vec<Bytes>> {
    Chunks::new(&batch.schema(), std::iter::once(Ok(batch.clone())))?.collect()
}
