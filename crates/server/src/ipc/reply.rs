//! Rows that a client gets, encoded as they are read.
//!
//! Owns: [`rows`]. The reply is an Arrow IPC file: header, batches, footer, each sent when it is there, so a
//! slow client holds one batch in memory, not the result. Where a column has a dictionary it is an IPC
//! stream, for files cannot change one half-way. Errors before the first batch are an error reply; later ones
//! break the reply off, so that no client takes a part for the whole. Does not own: the rows.

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use http::header::CONTENT_TYPE;

use crate::error::ApiError;

const FILE: &str = "application/vnd.apache.arrow.file";
const STREAM: &str = "application/vnd.apache.arrow.stream";

/// Rows on their way to a client.
pub type Rows = BoxStream<'static, Result<RecordBatch, ApiError>>;

/// The reply with these rows.
///
/// # Errors
/// What the rows failed with before there was one.
pub async fn rows(schema: SchemaRef, mut rows: Rows) -> Result<Response, ApiError> {
    let first = rows.try_next().await?;
    let rows = stream::iter(first.map(Ok)).chain(rows).boxed();
    let encoder = Encoder::new(&schema).map_err(|error| ApiError::internal("encoding a result", &error))?;
    let content_type = encoder.content_type();
    let encoding = Encoding { encoder: Some(encoder), rows };
    let bytes = stream::try_unfold(encoding, |mut encoding| async move {
        let bytes = encoding.next().await?;
        Ok::<_, ApiError>(bytes.map(|bytes| (bytes, encoding)))
    });
    let bytes = bytes.inspect_err(|error| tracing::warn!(%error, "a result broke off"));
    Ok(([(CONTENT_TYPE, content_type)], Body::from_stream(bytes)).into_response())
}

struct Encoding {
    /// None when everything was handed out.
    encoder: Option<Encoder>,
    rows: Rows,
}

impl Encoding {
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let Some(encoder) = &mut self.encoder else { return Ok(None) };
        let failed = |error: ArrowError| ApiError::internal("encoding a result", &error);
        match self.rows.try_next().await? {
            Some(batch) => encoder.write(&batch).map_err(failed)?,
            None => {
                encoder.finish().map_err(failed)?;
                let last = encoder.take();
                self.encoder = None;
                return Ok(Some(last));
            }
        }
        Ok(Some(encoder.take()))
    }
}

enum Encoder {
    File(Box<FileWriter<Vec<u8>>>),
    Stream(Box<StreamWriter<Vec<u8>>>),
}

impl Encoder {
    fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let dictionary = schema
            .flattened_fields()
            .iter()
            .any(|field| matches!(field.data_type(), DataType::Dictionary(..)));
        Ok(if dictionary {
            Self::Stream(Box::new(StreamWriter::try_new(Vec::new(), schema)?))
        } else {
            Self::File(Box::new(FileWriter::try_new(Vec::new(), schema)?))
        })
    }

    fn content_type(&self) -> &'static str {
        match self {
            Self::File(_) => FILE,
            Self::Stream(_) => STREAM,
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            Self::File(writer) => writer.write(batch),
            Self::Stream(writer) => writer.write(batch),
        }
    }

    fn finish(&mut self) -> Result<(), ArrowError> {
        match self {
            Self::File(writer) => writer.finish(),
            Self::Stream(writer) => writer.finish(),
        }
    }

    /// What was written since the last time.
    fn take(&mut self) -> Bytes {
        let written = match self {
            Self::File(writer) => writer.get_mut(),
            Self::Stream(writer) => writer.get_mut(),
        };
        Bytes::from(std::mem::take(written))
    }
}
