//! Rows that a client sends, decoded as they come.
//!
//! Owns: [`Upload`]. One batch is in memory at a time, LZ4 or Zstandard unpacked. Nothing a client sends
//! panics: the decoders of Arrow do on some garbage, and that is caught. Does not own: framing (`frames`),
//! what becomes of the rows.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Message, MessageHeader, root_as_message};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use axum::body::Body;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use parking_lot::Mutex;

use super::frames::{Frame, Frames};
use crate::error::ApiError;

/// Bytes of all dictionaries of a stream.
const MAX_DICTIONARY_BYTES: usize = 256 << 20;

/// An Arrow IPC stream being read.
#[derive(Debug)]
pub struct Upload {
    /// What the batches are sent with.
    sent: SchemaRef,
    /// What they are to have.
    schema: SchemaRef,
    frames: Frames,
    dictionaries: Dictionaries,
}

/// The dictionaries that batches refer to, by their ids.
#[derive(Debug, Default)]
struct Dictionaries {
    values: HashMap<i64, ArrayRef>,
    bytes: BTreeMap<i64, usize>,
}

/// Why a stream of rows failed, for whoever only gets the error of the one who read it.
#[derive(Clone, Debug, Default)]
pub struct Failure(Arc<Mutex<Option<ApiError>>>);

impl Failure {
    /// The reason, if it was the upload.
    pub fn take(&self) -> Option<ApiError> {
        self.0.lock().take()
    }
}

enum Decoded {
    Batch(RecordBatch),
    Other,
}

impl Upload {
    /// Reads the schema, which comes first.
    ///
    /// # Errors
    /// 400 for a body that is no Arrow IPC stream.
    pub async fn open(body: Body) -> Result<Self, ApiError> {
        let mut frames = Frames::new(body);
        let Some(frame) = frames.next().await? else {
            return Err(frames.bad("the stream ends before its schema"));
        };
        let schema = caught(|| {
            let message = message(&frame)?;
            let schema = message.header_as_schema();
            let schema = schema.ok_or_else(|| ArrowError::IpcError("a schema comes first".to_owned()))?;
            Ok(Arc::new(fb_to_schema(schema)))
        });
        let schema = schema.map_err(|reason| frames.bad(&reason))?;
        Ok(Self { sent: Arc::clone(&schema), schema, frames, dictionaries: Dictionaries::default() })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Lets its batches have `schema`: the same columns, stricter about nulls or with other metadata.
    pub fn declare(&mut self, schema: Schema) {
        self.schema = Arc::new(schema);
    }

    /// The next batch; none at the end.
    ///
    /// # Errors
    /// 400 that names the message for a stream that is cut or damaged.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, ApiError> {
        while let Some(frame) = self.frames.next().await? {
            let decoded = caught(|| decode(&frame, &self.sent, &mut self.dictionaries));
            match decoded.map_err(|reason| self.frames.bad(&reason))? {
                Decoded::Other => {}
                Decoded::Batch(batch) if Arc::ptr_eq(&self.sent, &self.schema) => return Ok(Some(batch)),
                Decoded::Batch(batch) => {
                    let declared = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec());
                    return declared.map(Some).map_err(|error| self.frames.bad(&error.to_string()));
                }
            }
        }
        Ok(None)
    }

    /// Its batches as a stream, and where to look for the reason when that fails.
    pub fn into_stream(self) -> (SendableRecordBatchStream, Failure) {
        let (schema, failure) = (Arc::clone(&self.schema), Failure::default());
        let told = failure.clone();
        let batches = stream::try_unfold(self, move |mut upload| {
            let told = told.clone();
            async move {
                match upload.next().await {
                    Ok(batch) => Ok(batch.map(|batch| (batch, upload))),
                    Err(error) => {
                        *told.0.lock() = Some(error.clone());
                        Err(DataFusionError::External(Box::new(error)))
                    }
                }
            }
        });
        (Box::pin(RecordBatchStreamAdapter::new(schema, batches)), failure)
    }

    /// Reads to the end and keeps nothing.
    ///
    /// # Errors
    /// As [`Upload::next`].
    pub async fn discard(mut self) -> Result<(), ApiError> {
        while self.frames.next().await?.is_some() {}
        Ok(())
    }
}

impl Dictionaries {
    /// All of them stay in memory for as long as the upload goes on.
    fn weigh(&mut self, id: i64) -> Result<(), ArrowError> {
        let bytes = self.values.get(&id).map_or(0, |values| values.get_array_memory_size());
        self.bytes.insert(id, bytes);
        let all = self.bytes.values().fold(0, |all: usize, bytes| all.saturating_add(*bytes));
        match all <= MAX_DICTIONARY_BYTES {
            true => Ok(()),
            false => Err(ArrowError::IpcError(format!(
                "its dictionaries have more than {MAX_DICTIONARY_BYTES} bytes: send plain columns"
            ))),
        }
    }
}

fn message(frame: &Frame) -> Result<Message<'_>, ArrowError> {
    root_as_message(&frame.header).map_err(|error| ArrowError::IpcError(error.to_string()))
}

fn decode(frame: &Frame, schema: &SchemaRef, dictionaries: &mut Dictionaries) -> Result<Decoded, ArrowError> {
    let message = message(frame)?;
    let body = Buffer::from(frame.body.clone());
    let nothing = || ArrowError::IpcError("it describes nothing".to_owned());
    match message.header_type() {
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch().ok_or_else(nothing)?;
            let schema = Arc::clone(schema);
            let (known, version) = (&dictionaries.values, message.version());
            let batch = read_record_batch(&body, batch, schema, known, None, &version)?;
            Ok(Decoded::Batch(batch))
        }
        MessageHeader::DictionaryBatch => {
            let batch = message.header_as_dictionary_batch().ok_or_else(nothing)?;
            read_dictionary(&body, batch, schema, &mut dictionaries.values, &message.version())?;
            dictionaries.weigh(batch.id())?;
            Ok(Decoded::Other)
        }
        MessageHeader::Schema => Err(ArrowError::IpcError("a second schema".to_owned())),
        _ => Ok(Decoded::Other),
    }
}

/// What `decode` gives; a panic of it is an error.
fn caught<T>(decode: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(_panic) => Err("it cannot be decoded".to_owned()),
    }
}
