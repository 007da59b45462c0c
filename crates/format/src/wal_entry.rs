//! One WAL entry: the rows one PUT made durable, or the sentinel that fences earlier writers.
//!
//! Owns: [`WalEntry`], [`encode_rows`], [`encode_rows_with_tokens`], [`encode_sentinel`], [`decode`]. Does
//! not own: positions (the file name), what an epoch or generation means for a shard (`headwater-engine`),
//! the text of a list of client tokens ([`crate::token`]), whether an entry's schema is the table's
//! ([`crate::schema::schema_difference`]). Keeps P3 readable: an entry decodes whole or not at all; no prefix
//! of an entry is an entry.
//!
//! # Bytes
//! An Arrow IPC stream of one schema. Schema metadata is exactly the base's own plus `writer_epoch` and
//! `generation`, decimal; client tokens stand in field metadata of `_tombstone`, where the reference ignores
//! them ([`crate::token`]). A sentinel has no fields, `fence_sentinel` = `true` and no batches. Bodies may be
//! compressed. Bytes after the end-of-stream marker are ignored.
//!
//! **What cannot be caught:** the format has no checksum, so flipped bits inside values decode to other
//! values.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::{ArrowError, FieldRef, Fields, Schema, SchemaRef};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::coord::{Epoch, Generation};
use crate::path::parse_decimal;
use crate::schema::{TOMBSTONE, schema_difference};
use crate::token::{self, EntryToken, TOKENS};

mod stream;

#[cfg(test)]
mod tests;

/// Schema metadata: the epoch of the writer, decimal. Every entry has it.
pub const WRITER_EPOCH: &str = "writer_epoch";
/// Schema metadata: the memtable the rows belong to, decimal.
pub const GENERATION: &str = "generation";
/// Schema metadata: `true` in a fence sentinel.
pub const FENCE_SENTINEL: &str = "fence_sentinel";
/// Keys of schema metadata an entry needs for itself; a base table whose own metadata has one cannot be
/// written.
pub const RESERVED_METADATA: [&str; 3] = [WRITER_EPOCH, GENERATION, FENCE_SENTINEL];
/// Most bytes an entry may claim to decompress to. The largest memtable of the reference's defaults is a
/// quarter.
pub const MAX_DECODED_BYTES: u64 = 1 << 30;

/// Buffers of rows begin at multiples of this, the least Arrow allows: an entry of one row is mostly padding
/// otherwise.
const ALIGNMENT: usize = 8;
/// Characters of an invalid list of tokens that an error shows.
const SHOWN_TOKENS: usize = 80;
/// The reference's mark of an entry whose rows are incomplete without side files (managed blobs).
const SIDE_FILES: &str = "mem_wal_target_generation";

/// A decoded entry.
#[derive(Clone, Debug, PartialEq)]
pub struct WalEntry {
    /// Epoch of the writer that wrote it.
    pub epoch: Epoch,
    /// What it holds.
    pub body: WalBody,
    /// The client tokens its rows came with, in row order; never any in entries of other writers.
    pub tokens: Vec<EntryToken>,
}

/// What an entry holds.
#[derive(Clone, Debug, PartialEq)]
pub enum WalBody {
    /// Nothing: it occupies its position so that no writer of a lower epoch can.
    FenceSentinel,
    /// Rows, at least one batch.
    Rows {
        /// The memtable all rows belong to; absent in entries of writers without memtables.
        generation: Option<Generation>,
        /// The batches, of one schema, whose metadata is what the base's own was when they were written. They
        /// share the entry's buffer unless it was compressed.
        batches: Vec<RecordBatch>,
    },
}

/// How the bodies of an entry are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// Why bytes are no WAL entry, or rows cannot become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WalEntryError {
    /// The bytes end before the stream does.
    #[error("wal entry is cut short: {length} bytes without an end of stream")]
    Truncated {
        /// How many bytes there are.
        length: usize,
    },
    /// Not an Arrow IPC stream of rows.
    #[error("undecodable wal entry: {reason}")]
    Undecodable {
        /// What is wrong.
        reason: String,
    },
    /// An entry without the epoch of its writer.
    #[error("wal entry without {WRITER_EPOCH}")]
    MissingEpoch,
    /// A number in the schema metadata is none.
    #[error("wal entry with {key} {value:?}, which is no valid number")]
    InvalidMetadata {
        /// The metadata key.
        key: &'static str,
        /// What it holds.
        value: String,
    },
    /// A list of client tokens is none, or names rows the entry does not have.
    #[error("wal entry with an invalid list of client tokens: {text:?}")]
    InvalidTokens {
        /// How the list begins.
        text: String,
    },
    /// An entry without batches that is no sentinel.
    #[error("wal entry without batches that is no fence sentinel")]
    NoBatches,
    /// A sentinel with batches.
    #[error("fence sentinel with {batches} batches")]
    SentinelWithRows {
        /// How many.
        batches: usize,
    },
    /// The entry uses a feature this version does not know.
    #[error("wal entry uses {feature}, which is not supported")]
    Unsupported {
        /// Which feature.
        feature: &'static str,
    },
    /// Batches of more than one schema.
    #[error("wal entry of mixed schemas: {difference}")]
    MixedSchemas {
        /// The first difference.
        difference: String,
    },
    /// The schema's own metadata uses one of [`RESERVED_METADATA`].
    #[error("schema metadata key {key:?} is reserved for wal entries")]
    ReservedMetadata {
        /// The key.
        key: &'static str,
    },
    /// Rows that cannot be encoded.
    #[error("rows cannot be encoded: {reason}")]
    Unencodable {
        /// What Arrow said.
        reason: String,
    },
}

/// As [`encode_rows_with_tokens`], without tokens.
///
/// # Errors
/// As [`encode_rows_with_tokens`].
pub fn encode_rows(
    schema: &SchemaRef,
    epoch: Epoch,
    generation: Generation,
    batches: &[RecordBatch],
    compression: Compression,
) -> Result<Bytes, WalEntryError> {
    encode_rows_with_tokens(schema, epoch, generation, batches, &[], compression)
}

/// The bytes of an entry with `batches`, all of which belong to memtable `generation` and have the fields of
/// `schema` (the storage schema, whose metadata is the base's own). `tokens` need a `_tombstone` column to
/// stand in. The same input gives the same bytes.
///
/// # Errors
/// [`WalEntryError::NoBatches`] when there is no row, [`WalEntryError::MixedSchemas`] when a batch has other
/// fields than `schema`, [`WalEntryError::ReservedMetadata`], [`WalEntryError::InvalidMetadata`] for
/// generation 0 (the base), else [`WalEntryError::Unencodable`].
pub fn encode_rows_with_tokens(
    schema: &SchemaRef,
    epoch: Epoch,
    generation: Generation,
    batches: &[RecordBatch],
    tokens: &[EntryToken],
    compression: Compression,
) -> Result<Bytes, WalEntryError> {
    if batches.iter().all(|batch| batch.num_rows() == 0) {
        return Err(WalEntryError::NoBatches);
    }
    if generation == Generation::ZERO {
        return Err(WalEntryError::InvalidMetadata { key: GENERATION, value: generation.to_string() });
    }
    if let Some(key) = RESERVED_METADATA.iter().find(|key| schema.metadata().contains_key(**key)) {
        return Err(WalEntryError::ReservedMetadata { key });
    }
    let mut metadata = schema.metadata().clone();
    metadata.insert(WRITER_EPOCH.to_owned(), epoch.to_string());
    metadata.insert(GENERATION.to_owned(), generation.to_string());
    let fields = with_tokens(schema.fields(), tokens)?;
    let entry_schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let batches = batches.iter().map(|batch| under_schema(batch, &entry_schema));
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    let write = || write_stream(&entry_schema, &batches, row_options(compression)?);
    write().map_err(unencodable)
}

/// The bytes of a fence sentinel.
///
/// # Errors
/// [`WalEntryError::Unencodable`], if Arrow refuses to write it.
pub fn encode_sentinel(epoch: Epoch) -> Result<Bytes, WalEntryError> {
    let metadata = HashMap::from([
        (WRITER_EPOCH.to_owned(), epoch.to_string()),
        (FENCE_SENTINEL.to_owned(), "true".to_owned()),
    ]);
    let schema = Arc::new(Schema::empty().with_metadata(metadata));
    write_stream(&schema, &[], IpcWriteOptions::default()).map_err(unencodable)
}

/// The entry whose bytes these are.
///
/// # Errors
/// [`WalEntryError`]: cut short, not a stream, epoch missing or undecodable, no batches and no sentinel, a
/// second schema in the stream, side files. Never a part of the rows.
pub fn decode(bytes: Bytes) -> Result<WalEntry, WalEntryError> {
    let length = stream::measure(&bytes)?;
    // NOTE: `measure` has checked every length and offset, so that nothing is allocated on the word of a
    // damaged entry. Arrow still panics on some schemas that are well-formed and senseless; that is a damaged
    // entry, no bug of ours.
    let decoded = catch_unwind(AssertUnwindSafe(|| read_stream(bytes.slice(..length))));
    let (schema, batches) = match decoded {
        Ok(Ok(decoded)) => decoded,
        Ok(Err(error)) => return Err(undecodable(error)),
        Err(_panic) => return Err(WalEntryError::Undecodable { reason: "senseless schema".to_owned() }),
    };
    let metadata = schema.metadata();
    let epoch = number(metadata, WRITER_EPOCH)?.ok_or(WalEntryError::MissingEpoch).map(Epoch::new)?;
    if metadata.get(FENCE_SENTINEL).is_some_and(|mark| mark == "true") {
        return match batches.len() {
            0 => Ok(WalEntry { epoch, body: WalBody::FenceSentinel, tokens: Vec::new() }),
            batches => Err(WalEntryError::SentinelWithRows { batches }),
        };
    }
    if metadata.contains_key(SIDE_FILES) {
        return Err(WalEntryError::Unsupported { feature: "managed blob columns" });
    }
    if batches.is_empty() {
        return Err(WalEntryError::NoBatches);
    }
    let generation = number(metadata, GENERATION)?.map(Generation::new);
    if generation == Some(Generation::ZERO) {
        return Err(WalEntryError::InvalidMetadata { key: GENERATION, value: "0".to_owned() });
    }
    let tokens = tokens_of(&schema, &batches)?;
    let batches = with_own_metadata(&schema, batches)?;
    Ok(WalEntry { epoch, body: WalBody::Rows { generation, batches }, tokens })
}

/// `fields` with `tokens` in the metadata of `_tombstone`, the last of them.
fn with_tokens(fields: &Fields, tokens: &[EntryToken]) -> Result<Fields, WalEntryError> {
    let Some(last) = fields.last().filter(|_| !tokens.is_empty()) else { return Ok(fields.clone()) };
    let unencodable = |reason: String| WalEntryError::Unencodable { reason };
    if last.name() != TOMBSTONE {
        return Err(unencodable(format!("client tokens need the column {TOMBSTONE}, which is not last")));
    }
    let text = token::write_list(tokens).map_err(|error| unencodable(error.to_string()))?;
    let mut metadata = last.metadata().clone();
    metadata.insert(TOKENS.to_owned(), text);
    let carrier: FieldRef = Arc::new(last.as_ref().clone().with_metadata(metadata));
    Ok(fields.iter().take(fields.len().saturating_sub(1)).cloned().chain([carrier]).collect())
}

/// The tokens in the metadata of `_tombstone`.
fn tokens_of(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<EntryToken>, WalEntryError> {
    let carrier = schema.field_with_name(TOMBSTONE).ok();
    let Some(text) = carrier.and_then(|carrier| carrier.metadata().get(TOKENS)) else {
        return Ok(Vec::new());
    };
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let invalid = || WalEntryError::InvalidTokens { text: text.chars().take(SHOWN_TOKENS).collect() };
    token::read_list(text, rows).ok_or_else(invalid)
}

fn number(metadata: &HashMap<String, String>, key: &'static str) -> Result<Option<u64>, WalEntryError> {
    let Some(text) = metadata.get(key) else { return Ok(None) };
    let invalid = || WalEntryError::InvalidMetadata { key, value: text.clone() };
    parse_decimal(text).ok_or_else(invalid).map(Some)
}

/// Gives batches the schema metadata of the base back, and `_tombstone` its own.
fn with_own_metadata(schema: &Schema, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>, WalEntryError> {
    let mut metadata = schema.metadata().clone();
    RESERVED_METADATA.iter().for_each(|key| drop(metadata.remove(*key)));
    let fields = schema.fields().iter().map(without_tokens).collect::<Fields>();
    let own = Arc::new(Schema::new_with_metadata(fields, metadata));
    let restore = |batch: RecordBatch| rewrap(&batch, &own).map_err(undecodable);
    batches.into_iter().map(restore).collect()
}

fn without_tokens(field: &FieldRef) -> FieldRef {
    if field.name() != TOMBSTONE || !field.metadata().contains_key(TOKENS) {
        return Arc::clone(field);
    }
    let mut metadata = field.metadata().clone();
    metadata.remove(TOKENS);
    Arc::new(field.as_ref().clone().with_metadata(metadata))
}

fn under_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, WalEntryError> {
    if let Some(difference) = schema_difference(schema, batch.schema_ref()) {
        return Err(WalEntryError::MixedSchemas { difference });
    }
    rewrap(batch, schema).map_err(|error| WalEntryError::MixedSchemas { difference: error.to_string() })
}

/// The columns of `batch` under `schema`; field metadata inside nested types may differ.
fn rewrap(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options =
        RecordBatchOptions::new().with_row_count(Some(batch.num_rows())).with_match_field_names(false);
    RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)
}

fn row_options(compression: Compression) -> Result<IpcWriteOptions, ArrowError> {
    let codec = match compression {
        Compression::None => None,
        Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
        Compression::Zstd => Some(CompressionType::ZSTD),
    };
    IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?.try_with_compression(codec)
}

fn write_stream(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    options: IpcWriteOptions,
) -> Result<Bytes, ArrowError> {
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), schema, options)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()?;
    writer.into_inner().map(Bytes::from)
}

fn read_stream(bytes: Bytes) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let mut decoder = StreamDecoder::new();
    let mut rest = Buffer::from(bytes);
    let mut batches = Vec::new();
    while let Some(batch) = decoder.decode(&mut rest)? {
        if u32::try_from(batch.num_rows()).is_err() {
            return Err(ArrowError::IpcError(format!("a batch of {} rows", batch.num_rows())));
        }
        batches.push(batch);
    }
    decoder.finish()?;
    let no_schema = || ArrowError::IpcError("no schema".to_owned());
    Ok((decoder.schema().ok_or_else(no_schema)?, batches))
}

fn undecodable(error: ArrowError) -> WalEntryError {
    WalEntryError::Undecodable { reason: error.to_string() }
}

fn unencodable(error: ArrowError) -> WalEntryError {
    WalEntryError::Unencodable { reason: error.to_string() }
}
