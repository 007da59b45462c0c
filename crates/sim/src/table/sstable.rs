//! What a model SSTable consists of, byte for byte.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use headwater_engine::memtable::FrozenMemtable;
use headwater_engine::table::TableError;
use headwater_format::bloom::Bloom;
use headwater_format::coord::{RowOffset, ShardId};
use headwater_format::key::KeySchema;
use headwater_format::path::sstable_dir;
use serde::{Deserialize, Serialize};

/// Odds of a false positive the filter is sized for.
const FALSE_POSITIVES: f64 = 0.01;

/// Paths of the files of one SSTable, relative to the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNames {
    directory: String,
}

impl FileNames {
    /// The files of SSTable `name` of `shard`.
    pub fn new(shard: ShardId, name: &str) -> Self {
        Self { directory: sstable_dir(shard, name) }
    }

    /// All physical rows, in the storage schema.
    pub fn data(&self) -> String {
        format!("{}/data/0.arrow", self.directory)
    }

    /// Offsets of replaced rows.
    pub fn deletions(&self) -> String {
        format!("{}/_deletions/0-1-0.bin", self.directory)
    }

    /// Encoded keys of all physical rows, in order of their offsets.
    pub fn sidecar(&self) -> String {
        format!("{}/_pk_index/page_data.arrow", self.directory)
    }

    /// The filter over the keys.
    pub fn bloom(&self) -> String {
        format!("{}/bloom_filter.bin", self.directory)
    }

    /// How many rows the index `name` has.
    pub fn index(&self, name: &str) -> String {
        format!("{}/_indices/{name}/rows.bin", self.directory)
    }

    /// The table manifest, written last.
    pub fn manifest(&self) -> String {
        format!("{}/_versions/18446744073709551614.manifest", self.directory)
    }
}

/// The table manifest of a model SSTable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableManifest {
    /// Rows in the data file.
    pub physical_rows: u32,
    /// Rows in the deletion vector.
    pub replaced_rows: u32,
    /// Whether there is a key sidecar and a bloom filter.
    pub has_key: bool,
    /// Names of the indexes.
    pub indexes: Vec<String>,
}

/// Everything to write for one frozen memtable.
#[derive(Debug)]
pub struct Contents {
    /// Path and bytes of every file but the manifest.
    pub files: Vec<(String, Vec<u8>)>,
    /// The manifest.
    pub manifest: TableManifest,
}

impl Contents {
    /// The files of `frozen` under `names`.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when the rows cannot be encoded.
    pub fn new(names: &FileNames, frozen: &FrozenMemtable) -> Result<Self, TableError> {
        let batches = frozen.batches();
        let replaced: Vec<RowOffset> = frozen.superseded().iter().map(RowOffset::new).collect();
        let mut files = vec![
            (names.data(), encode_batches(frozen.schema(), &batches)?),
            (names.deletions(), encode_offsets(&replaced)),
        ];
        if let Some(key) = frozen.key() {
            files.push((names.sidecar(), encode_sidecar(key, &batches)?));
            files.push((names.bloom(), bloom(key, &batches)?));
        }
        let mut indexes = Vec::new();
        for index in frozen.indexes() {
            let name = index.describe().name;
            files.push((names.index(&name), index.applied().get().to_le_bytes().to_vec()));
            indexes.push(name);
        }
        let rows = batches.iter().map(|batch| batch.num_rows() as u32).sum();
        let manifest = TableManifest {
            physical_rows: rows,
            replaced_rows: replaced.len() as u32,
            has_key: frozen.key().is_some(),
            indexes,
        };
        Ok(Self { files, manifest })
    }
}

fn invalid(error: impl std::fmt::Display) -> TableError {
    TableError::invalid(error.to_string())
}

/// Batches as an Arrow IPC stream.
///
/// # Errors
/// [`TableError::Invalid`] when Arrow refuses them.
pub fn encode_batches(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>, TableError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema).map_err(invalid)?;
    for batch in batches {
        writer.write(batch).map_err(invalid)?;
    }
    writer.into_inner().map_err(invalid)
}

/// The batches of an Arrow IPC stream.
///
/// # Errors
/// [`TableError::Corrupt`] when it is none.
pub fn decode_batches(path: &str, bytes: &Bytes) -> Result<(SchemaRef, Vec<RecordBatch>), TableError> {
    let corrupt = |error: &dyn std::fmt::Display| TableError::Corrupt {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let reader = StreamReader::try_new(bytes.as_ref(), None).map_err(|error| corrupt(&error))?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|error| corrupt(&error))?;
    Ok((schema, batches))
}

fn encode_sidecar(key: &KeySchema, batches: &[RecordBatch]) -> Result<Vec<u8>, TableError> {
    let field = arrow_schema::Field::new("values", arrow_schema::DataType::Binary, false);
    let schema = Arc::new(arrow_schema::Schema::new(vec![field]));
    let encoded = batches.iter().map(|batch| {
        let keys = key.encode(batch).map_err(invalid)?;
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys)]).map_err(invalid)
    });
    encode_batches(&schema, &encoded.collect::<Result<Vec<_>, _>>()?)
}

fn bloom(key: &KeySchema, batches: &[RecordBatch]) -> Result<Vec<u8>, TableError> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut bloom = Bloom::with_ndv_fpp(rows as u64, FALSE_POSITIVES);
    for batch in batches {
        for hash in key.hashes(batch).map_err(invalid)? {
            bloom.insert(hash);
        }
    }
    Ok(bloom.to_bytes())
}

fn encode_offsets(offsets: &[RowOffset]) -> Vec<u8> {
    offsets.iter().flat_map(|offset| offset.get().to_le_bytes()).collect()
}

/// Offsets as they stand in the deletion file.
///
/// # Errors
/// [`TableError::Corrupt`] when the file does not hold whole offsets.
pub fn decode_offsets(path: &str, bytes: &[u8]) -> Result<Vec<u32>, TableError> {
    let chunks = bytes.chunks_exact(4);
    if !chunks.remainder().is_empty() {
        return Err(TableError::Corrupt { path: path.to_owned(), reason: "half an offset".to_owned() });
    }
    Ok(chunks.map(|four| four.iter().rev().fold(0, |sum, byte| (sum << 8) | u32::from(*byte))).collect())
}
