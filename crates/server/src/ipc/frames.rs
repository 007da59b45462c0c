//! The messages of an Arrow IPC stream in the body of a request.
//!
//! Owns: [`Frames`]: where a message begins and ends, and that what it claims of its own size is true, so
//! that decoding it takes no more memory than was sent or a bound allows. A body that ends anywhere but
//! behind the end marker was cut, and is refused. Does not own: what messages mean (`upload`).

use arrow_ipc::{Message, MessageHeader, root_as_message};
use axum::body::{Body, BodyDataStream};
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;

use super::packed;
use crate::error::ApiError;

/// Bytes of a message's own description.
const MAX_HEADER_BYTES: usize = 16 << 20;
/// Bytes of one record batch as it is sent.
const MAX_MESSAGE_BYTES: usize = 512 << 20;
/// Bytes of one record batch when it is unpacked.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;
/// Rows of one record batch: some columns take no bytes at all.
const MAX_BATCH_ROWS: i64 = 64 << 20;
/// What every message begins with.
const CONTINUATION: u32 = u32::MAX;
const WORD: usize = 4;

/// Messages of a body, one after the other. At most one is in memory.
#[derive(Debug)]
pub struct Frames {
    body: BodyDataStream,
    read: BytesMut,
    messages: usize,
    ended: bool,
}

/// One whole message.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its description, a flat buffer that was verified.
    pub header: Bytes,
    /// What it describes.
    pub body: Bytes,
}

impl Frames {
    /// The messages of `body`.
    pub fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), read: BytesMut::new(), messages: 0, ended: false }
    }

    /// The next message; none behind the end marker, when nothing follows it.
    ///
    /// # Errors 400 that names the message for a body that was cut, is no Arrow IPC stream, or claims what it
    /// does not hold.
    pub async fn next(&mut self) -> Result<Option<Frame>, ApiError> {
        if self.ended {
            return Ok(None);
        }
        if self.word("beginning").await? != CONTINUATION {
            return Err(self.bad("it does not begin as a message of an Arrow IPC stream does"));
        }
        let header_bytes = self.word("length").await? as usize;
        if header_bytes == 0 {
            return self.end().await;
        }
        if header_bytes > MAX_HEADER_BYTES {
            return Err(self.bad(&format!("its description of {header_bytes} bytes is too long")));
        }
        let header = self.take(header_bytes, "description").await?;
        let body_bytes = {
            let message = root_as_message(&header).map_err(|error| self.bad(&error.to_string()))?;
            usize::try_from(message.bodyLength()).ok().filter(|bytes| *bytes <= MAX_MESSAGE_BYTES)
        };
        let Some(body_bytes) = body_bytes else {
            return Err(
                self.bad(&format!("it is longer than {MAX_MESSAGE_BYTES} bytes: send smaller batches"))
            );
        };
        let body = self.take(body_bytes, "content").await?;
        let message = root_as_message(&header).map_err(|error| self.bad(&error.to_string()))?;
        check(&message, &body).map_err(|reason| self.bad(&reason))?;
        self.messages += 1;
        Ok(Some(Frame { header, body }))
    }

    /// Nothing may follow the end.
    async fn end(&mut self) -> Result<Option<Frame>, ApiError> {
        self.ended = true;
        loop {
            if !self.read.is_empty() {
                return Err(ApiError::invalid(
                    "request body: there are bytes behind the end of the Arrow IPC stream",
                ));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    async fn word(&mut self, what: &str) -> Result<u32, ApiError> {
        Ok(self.take(WORD, what).await?.get_u32_le())
    }

    async fn take(&mut self, bytes: usize, what: &str) -> Result<Bytes, ApiError> {
        while self.read.len() < bytes {
            if !self.fill().await? {
                let reason =
                    format!("the body ends in its {what}: the upload was cut, or lacks its end marker");
                return Err(self.bad(&reason));
            }
        }
        Ok(self.read.split_to(bytes).freeze())
    }

    /// Whether there was more.
    async fn fill(&mut self) -> Result<bool, ApiError> {
        match self.body.next().await {
            None => Ok(false),
            Some(Ok(bytes)) => {
                self.read.extend_from_slice(&bytes);
                Ok(true)
            }
            Some(Err(_)) => Err(self.bad("the body could not be read to its end: the connection broke")),
        }
    }

    /// What is wrong with the message that comes now.
    pub fn bad(&self, reason: &str) -> ApiError {
        ApiError::invalid(format!(
            "request body, message {} of the Arrow IPC stream: {reason}",
            self.messages
        ))
    }
}

/// Checks that `body` holds what the message says, and how much it is unpacked.
fn check(message: &Message<'_>, body: &[u8]) -> Result<(), String> {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => return Ok(()),
    };
    let batch = batch.ok_or("it describes no batch")?;
    if !(0..=MAX_BATCH_ROWS).contains(&batch.length()) {
        return Err(format!("{} rows: a batch has at most {MAX_BATCH_ROWS}", batch.length()));
    }
    let codec = batch.compression().map(|compression| compression.codec());
    let (mut unpacked, mut claims) = (0_u64, Vec::new());
    for buffer in batch.buffers().into_iter().flatten() {
        let bytes = range(buffer.offset(), buffer.length()).and_then(|range| body.get(range));
        let bytes = bytes.ok_or("it has a buffer outside its content")?;
        let Some(codec) = codec.filter(|_| !bytes.is_empty()) else {
            // Buffers may share bytes, but each is kept by itself once it is decoded.
            unpacked = unpacked.saturating_add(bytes.len() as u64);
            continue;
        };
        let (length, bytes) =
            bytes.split_first_chunk().ok_or("it has a compressed buffer without a length")?;
        let length = i64::from_le_bytes(*length);
        // -1: not compressed after all; 0: nothing, whatever follows.
        if length < -1 {
            return Err("it has a compressed buffer of negative length".to_owned());
        }
        if let Ok(length @ 1..) = u64::try_from(length) {
            unpacked = unpacked.saturating_add(length);
            claims.push((codec, bytes, length));
        }
    }
    if unpacked > MAX_UNPACKED_BYTES {
        return Err(format!("it unpacks to more than {MAX_UNPACKED_BYTES} bytes: send smaller batches"));
    }
    // Only now: looking into many buffers that share their bytes takes time.
    claims.into_iter().try_for_each(|(codec, bytes, length)| packed::check(codec, bytes, length))
}

fn range(offset: i64, length: i64) -> Option<std::ops::Range<usize>> {
    let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
    Some(offset..offset.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, RecordBatch};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
    use arrow_schema::{DataType, Field, Schema};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn stream(packed: Option<CompressionType>) -> Vec<u8> {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let ids = Int64Array::from_iter_values((0..2_000).map(|id| id % 50));
        let rows = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(ids)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(packed).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        writer.into_inner().unwrap()
    }

    async fn read(body: Vec<u8>) -> Result<usize, ApiError> {
        let mut frames = Frames::new(Body::from(body));
        let mut read = 0;
        while frames.next().await?.is_some() {
            read += 1;
        }
        Ok(read)
    }

    #[tokio::test]
    async fn whole_streams_have_all_their_messages() {
        for packed in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            assert_eq!(read(stream(packed)).await, Ok(2), "{packed:?}");
        }
    }

    #[tokio::test]
    async fn no_bytes_are_more_than_refused() {
        let chance = &mut SmallRng::seed_from_u64(1);
        let whole = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)].map(stream);
        let (mut refused, cases) = (0, 6_000);
        for case in 0..cases {
            let mut body = whole[case % 3].clone();
            match chance.random_range(0..4) {
                0 => body = (0..chance.random_range(0..200)).map(|_| chance.random()).collect(),
                1 => body.truncate(chance.random_range(0..body.len())),
                2 => {
                    let place = chance.random_range(0..body.len().min(800));
                    body[place] = chance.random();
                }
                _ => {
                    let place = chance.random_range(0..body.len() - 8);
                    let lie = [u64::MAX, 1 << 62, 1 << 31, 1 << 30, 0][chance.random_range(0..5)];
                    body[place..place + 8].copy_from_slice(&lie.to_le_bytes());
                }
            }
            if let Err(error) = read(body).await {
                assert_eq!(error.status, 400);
                assert!(error.text.starts_with("request body"), "{error}");
                refused += 1;
            }
        }
        assert!((cases / 2..cases).contains(&refused), "{refused}");
    }
}
