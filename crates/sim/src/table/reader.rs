//! An open model SSTable.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use async_trait::async_trait;
use headwater_engine::table::{SsTableReader, TableError};
use headwater_format::bloom::Bloom;
use headwater_format::coord::RowOffset;
use headwater_format::key::KeySchema;

use super::files::Files;
use super::sstable::{FileNames, TableManifest, decode_batches, decode_offsets};

/// Everything of one SSTable, read at once.
#[derive(Debug)]
pub struct ModelSsTable {
    key: Option<KeySchema>,
    rows: RecordBatch,
    replaced: Vec<u32>,
    keys: BTreeMap<Vec<u8>, Vec<RowOffset>>,
    bloom: Option<Bloom>,
}

fn corrupt(path: &str, reason: impl std::fmt::Display) -> TableError {
    TableError::Corrupt { path: path.to_owned(), reason: reason.to_string() }
}

impl ModelSsTable {
    /// Reads every file: one request each.
    ///
    /// # Errors [`TableError::NotFound`] or [`TableError::Corrupt`] name the file;
    /// [`TableError::Unavailable`] may be tried again.
    pub async fn open(files: &Files, names: &FileNames, key: Option<KeySchema>) -> Result<Self, TableError> {
        let path = names.manifest();
        let manifest: TableManifest =
            serde_json::from_slice(&files.read(&path).await?).map_err(|error| corrupt(&path, error))?;
        let path = names.data();
        let (schema, batches) = decode_batches(&path, &files.read(&path).await?)?;
        let rows = concat_batches(&schema, &batches).map_err(|error| corrupt(&path, error))?;
        let path = names.deletions();
        let replaced = decode_offsets(&path, &files.read(&path).await?)?;
        let (mut keys, mut bloom) = (BTreeMap::new(), None);
        if manifest.has_key {
            let path = names.sidecar();
            keys = read_sidecar(&path, &decode_batches(&path, &files.read(&path).await?)?.1)?;
            let path = names.bloom();
            let filter =
                Bloom::from_bytes(&files.read(&path).await?).map_err(|error| corrupt(&path, error))?;
            bloom = Some(filter);
        }
        if rows.num_rows() != manifest.physical_rows as usize {
            return Err(corrupt(
                &names.data(),
                format!("{} rows of {}", rows.num_rows(), manifest.physical_rows),
            ));
        }
        Ok(Self { key, rows, replaced, keys, bloom })
    }
}

fn read_sidecar(
    path: &str,
    batches: &[RecordBatch],
) -> Result<BTreeMap<Vec<u8>, Vec<RowOffset>>, TableError> {
    let mut keys: BTreeMap<Vec<u8>, Vec<RowOffset>> = BTreeMap::new();
    let mut offset = 0;
    for batch in batches {
        let values = batch.columns().first().and_then(|column| column.as_binary_opt::<i32>());
        for key in values.ok_or_else(|| corrupt(path, "no key column"))? {
            let key = key.ok_or_else(|| corrupt(path, "a null key"))?;
            keys.entry(key.to_vec()).or_default().push(RowOffset::new(offset));
            offset += 1;
        }
    }
    Ok(keys)
}

#[async_trait]
impl SsTableReader for ModelSsTable {
    fn physical_rows(&self) -> u64 {
        self.rows.num_rows() as u64
    }

    async fn find_keys(&self, keys: &RecordBatch) -> Result<Vec<Vec<RowOffset>>, TableError> {
        let (Some(key), Some(bloom)) = (&self.key, &self.bloom) else {
            return Err(TableError::invalid("the table has no key"));
        };
        let encoded = key.encode(keys).map_err(|error| TableError::invalid(error.to_string()))?;
        let hashes = key.hashes(keys).map_err(|error| TableError::invalid(error.to_string()))?;
        let found = encoded.iter().zip(hashes).map(|(key, hash)| {
            let key = key.unwrap_or_default();
            let known = if bloom.check(hash) { self.keys.get(key) } else { None };
            known.cloned().unwrap_or_default()
        });
        Ok(found.collect())
    }

    async fn read_rows(&self, offsets: &[RowOffset]) -> Result<RecordBatch, TableError> {
        let rows = self.rows.num_rows();
        if let Some(beyond) = offsets.iter().find(|offset| offset.get() as usize >= rows) {
            return Err(TableError::invalid(format!("offset {beyond} of {rows} rows")));
        }
        let picks = UInt32Array::from_iter_values(offsets.iter().map(|offset| offset.get()));
        take_record_batch(&self.rows, &picks).map_err(|error| TableError::invalid(error.to_string()))
    }

    async fn scan(&self) -> Result<Vec<RecordBatch>, TableError> {
        let mut kept = vec![true; self.rows.num_rows()];
        for offset in &self.replaced {
            match kept.get_mut(*offset as usize) {
                Some(kept) => *kept = false,
                None => return Err(corrupt("_deletions", format!("offset {offset} beyond the rows"))),
            }
        }
        let batch = filter_record_batch(&self.rows, &BooleanArray::from(kept))
            .map_err(|error| TableError::invalid(error.to_string()))?;
        Ok(vec![batch])
    }
}
