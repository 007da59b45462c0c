//! Finding keys in the base.
//!
//! Owns: [`BaseLookup::find`] for keys of newer rows and [`BaseLookup::rows_of`] for keys somebody asks for.
//! Keys are compared exactly with the key columns of each row (P4); an index only saves reading rows.

use arrow_array::RecordBatch;
use headwater_engine::ingest::{batch_keys, key_column};
use headwater_engine::memtable::BatchKeys;
use headwater_engine::shadow::{FreshKeys, Resolution, are_selective, choose_resolution};
use headwater_format::coord::Seq;
use roaring::RoaringBitmap;

use super::lookup::BaseLookup;
use crate::error::QueryError;

/// Rows whose key columns are read at once.
const TAKEN_AT_ONCE: usize = 64 << 10;

impl BaseLookup {
    /// The rows of `fragments`, none = all, that have one of the keys of `fresh`, each with the `Seq` of the
    /// first newer row of its key. In any order.
    pub(crate) async fn find(
        &self,
        fresh: &FreshKeys,
        fragments: Option<&RoaringBitmap>,
    ) -> Result<Vec<(u64, Seq)>, QueryError> {
        let mut found = Vec::new();
        if fresh.is_empty() {
            return Ok(found);
        }
        let fragments = fragments.unwrap_or_else(|| self.base.dataset.fragment_bitmap());
        let (covered, mut passed) = (fragments & &self.covered, fragments - &self.covered);
        let candidates = match choose_resolution(fresh.len() as u64, self.rows_in(&covered)) {
            Resolution::Index => self.candidates_of(&fresh.keys(0..fresh.len() as u32), &covered).await?,
            Resolution::Pass => None,
        };
        let mut add = |rows: &RecordBatch, addresses: &[u64]| -> Result<(), QueryError> {
            let keys = self.keys(rows)?;
            let of_row = |(row, address): (usize, &u64)| Some((*address, fresh.first(&keys, row)?));
            found.extend(addresses.iter().enumerate().filter_map(of_row));
            Ok(())
        };
        match candidates {
            Some(candidates) => {
                for some in candidates.chunks(TAKEN_AT_ONCE) {
                    add(&self.take(some, &self.key_names()).await?, some)?;
                }
            }
            None => passed |= covered,
        }
        self.pass(&passed, add).await?;
        Ok(found)
    }

    /// Addresses, ascending, of rows that may have one of `keys`, and of every row that has: exact where the
    /// key has one column.
    pub(crate) async fn rows_of(
        &self,
        keys: &BatchKeys,
        is_wanted: impl Fn(&BatchKeys, usize) -> bool + Send + Sync,
    ) -> Result<Vec<u64>, QueryError> {
        let all = self.base.dataset.fragment_bitmap();
        let (covered, mut passed) = (&**all & &self.covered, &**all - &self.covered);
        let candidates = match choose_resolution(keys.len() as u64, self.rows_in(&covered)) {
            Resolution::Index => self.candidates_of(keys, &covered).await?,
            Resolution::Pass => None,
        };
        if candidates.is_none() {
            passed |= covered;
        }
        let mut found = candidates.unwrap_or_default();
        self.pass(&passed, |rows, addresses| {
            let keys = self.keys(rows)?;
            let wanted = addresses.iter().enumerate().filter(|(row, _)| is_wanted(&keys, *row));
            found.extend(wanted.map(|(_, address)| *address));
            Ok(())
        })
        .await?;
        found.sort_unstable();
        Ok(found)
    }

    /// Rows of `covered` fragments that may have one of `keys`; `None` when reading all is cheaper.
    async fn candidates_of(
        &self,
        keys: &BatchKeys,
        covered: &RoaringBitmap,
    ) -> Result<Option<Vec<u64>>, QueryError> {
        let Some(values) = key_column(&self.key, keys, self.column) else {
            return Err(QueryError::execution("keys of another form than those of the table"));
        };
        let found = self.candidates(&values, covered).await?;
        // An index on the whole key names no row in vain.
        let worth = self.key.single().is_some() || are_selective(found.len() as u64, self.rows_in(covered));
        Ok(worth.then_some(found))
    }

    /// The keys of rows of the base.
    pub(crate) fn keys(&self, rows: &RecordBatch) -> Result<BatchKeys, QueryError> {
        batch_keys(&self.key, rows).map_err(|error| self.corrupt(error.to_string()))
    }
}
