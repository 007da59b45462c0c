//! The bloom filter of an SSTable, for reads of a few keys.
//!
//! Owns: when it is trusted. The reference writes filters that say "absent" of keys that are there, unless
//! every key column is of a type it hashes; for other keys the filter is not asked, whoever wrote it.

use arrow_array::RecordBatch;
use headwater_engine::table::TableError;
use headwater_format::bloom::Bloom;
use headwater_format::key::KeySchema;

use super::reader::SsTableFiles;
use crate::error;

impl SsTableFiles {
    /// Of each of `keys` whether it may be here; false is certain. `None` when there is no filter to trust.
    /// Read once.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when `keys` are not keys of the table; otherwise what storage said.
    pub async fn may_have(&self, keys: &RecordBatch) -> Result<Option<Vec<bool>>, TableError> {
        let Some(key) = self.schema.key.as_ref().filter(|key| is_trusted(key)) else { return Ok(None) };
        let Some(bloom) = self.bloom.get_or_try_init(|| self.read_bloom()).await? else { return Ok(None) };
        let hashes = key.hashes(keys).map_err(|error| TableError::invalid(error.to_string()))?;
        Ok(Some(hashes.into_iter().map(|hash| bloom.check(hash)).collect()))
    }

    /// `None` when it is missing or damaged: the key sidecar answers then, and `verify` tells of it.
    async fn read_bloom(&self) -> Result<Option<Bloom>, TableError> {
        let bytes = match self.store.read_one_all(&self.layout.bloom()).await {
            Ok(bytes) => bytes,
            Err(error) => match error::of_file(&self.layout.relative_file("bloom_filter.bin"), error) {
                TableError::NotFound { .. } | TableError::Corrupt { .. } => return Ok(None),
                other => return Err(other),
            },
        };
        Ok(Bloom::from_bytes(&bytes).ok())
    }
}

fn is_trusted(key: &KeySchema) -> bool {
    key.columns().iter().all(|column| column.key_type.is_hashed_by_reference())
}
