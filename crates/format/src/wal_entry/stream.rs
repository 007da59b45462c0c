//! The frame of an Arrow IPC stream, walked before anything in it is decoded.
//!
//! Owns: [`measure`]. Called by [`super::decode`]. It answers three questions Arrow's own reader leaves open:
//! does the stream have its end (without it, a cut between two batches would pass for a shorter entry), where
//! is that end, and does every length in it fit in the bytes there are.
//!
//! A message is an optional marker 0xFFFFFFFF, the i32 length of its flatbuffer, the flatbuffer and its body;
//! length 0 is the end.

use arrow_ipc::{CompressionType, Message, MessageHeader, RecordBatch, root_as_message};

use super::{MAX_DECODED_BYTES, WalEntryError};

const CONTINUATION: u32 = u32::MAX;
const WORD: usize = 4;
/// Length prefix of a compressed buffer, and its value for "stored as it is".
const PREFIX: usize = 8;
const STORED: i64 = -1;
/// Most that one compressed byte can become. An LZ4 byte extends a match by at most 255; a Zstandard block of
/// four bytes repeats one byte at most 128 Ki times.
const LZ4_RATIO: u64 = 256;
const ZSTD_RATIO: u64 = 1 << 15;

/// Bytes of the stream at the start of `bytes`, its end-of-stream marker included. What follows is not looked
/// at.
pub(super) fn measure(bytes: &[u8]) -> Result<usize, WalEntryError> {
    let mut walk = Walk { bytes, at: 0 };
    let mut messages = 0_usize;
    let mut decoded = 0_u64;
    loop {
        let mut length = walk.word()?;
        if length == CONTINUATION {
            length = walk.word()?;
        }
        if length == 0 {
            return match messages {
                0 => Err(undecodable("a stream without a schema")),
                _ => Ok(walk.at),
            };
        }
        let length = i32::try_from(length).map_err(|_| undecodable("a message of negative length"))?;
        let flatbuffer = walk.take(i64::from(length))?;
        let message = root_as_message(flatbuffer).map_err(|error| undecodable(&error.to_string()))?;
        let body = walk.take(message.bodyLength())?;
        decoded = decoded.saturating_add(check_message(&message, body, messages == 0)?);
        if decoded > MAX_DECODED_BYTES {
            return Err(undecodable("it claims to decompress to more than an entry can hold"));
        }
        messages = messages.saturating_add(1);
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn take(&mut self, length: i64) -> Result<&'a [u8], WalEntryError> {
        let truncated = WalEntryError::Truncated { length: self.bytes.len() };
        if length < 0 {
            return Err(undecodable("a negative length"));
        }
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let taken = end.and_then(|end| Some((self.bytes.get(self.at..end)?, end)));
        let (taken, end) = taken.ok_or(truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, WalEntryError> {
        let bytes = self.take(WORD as i64)?;
        Ok(bytes.first_chunk().copied().map_or(0, u32::from_le_bytes))
    }
}

/// Checks one message against its body; returns how many bytes its compressed buffers become.
fn check_message(message: &Message<'_>, body: &[u8], first: bool) -> Result<u64, WalEntryError> {
    let header = message.header_type();
    if first != (header == MessageHeader::Schema) {
        return Err(match first {
            true => undecodable("a stream that does not begin with its schema"),
            false => WalEntryError::MixedSchemas { difference: "a second schema in the stream".to_owned() },
        });
    }
    let batch = match header {
        MessageHeader::Schema => return Ok(0),
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => return Err(undecodable("a message that is neither schema nor rows")),
    };
    check_batch(&batch.ok_or_else(|| undecodable("a message without its header"))?, body)
}

fn check_batch(batch: &RecordBatch<'_>, body: &[u8]) -> Result<u64, WalEntryError> {
    let ratio = match batch.compression().map(|compression| compression.codec()) {
        None => None,
        Some(CompressionType::LZ4_FRAME) => Some(LZ4_RATIO),
        Some(CompressionType::ZSTD) => Some(ZSTD_RATIO),
        Some(_) => return Err(undecodable("an unknown compression")),
    };
    let mut decoded = 0_u64;
    for buffer in batch.buffers().iter().flatten() {
        let outside = || undecodable("a buffer outside its message");
        let start = usize::try_from(buffer.offset()).map_err(|_| outside())?;
        let length = usize::try_from(buffer.length()).map_err(|_| outside())?;
        let end = start.checked_add(length).ok_or_else(outside)?;
        let bytes = body.get(start..end).ok_or_else(outside)?;
        if let (Some(ratio), false) = (ratio, bytes.is_empty()) {
            decoded = decoded.saturating_add(check_compressed(bytes, ratio)?);
        }
    }
    Ok(decoded)
}

fn check_compressed(bytes: &[u8], ratio: u64) -> Result<u64, WalEntryError> {
    let (prefix, compressed) = bytes
        .split_first_chunk::<PREFIX>()
        .ok_or_else(|| undecodable("a compressed buffer without its length"))?;
    let claimed = i64::from_le_bytes(*prefix);
    let compressed = compressed.len() as u64;
    if claimed == STORED {
        return Ok(compressed);
    }
    let possible = u64::try_from(claimed).is_ok_and(|claimed| claimed <= compressed.saturating_mul(ratio));
    if !possible {
        return Err(undecodable("a compressed buffer that claims an impossible length"));
    }
    Ok(claimed.cast_unsigned())
}

fn undecodable(reason: &str) -> WalEntryError {
    WalEntryError::Undecodable { reason: reason.to_owned() }
}
