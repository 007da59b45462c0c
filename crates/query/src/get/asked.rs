//! The keys a get still looks for, in a form that rows of the base are compared with.
//!
//! Owns: [`Asked`]: each key once, with all places it was asked for at.

use std::collections::BTreeMap;

use headwater_engine::memtable::BatchKeys;
use headwater_engine::shadow::{SourceKeys, SourceKeysBuilder};

use crate::error::QueryError;

/// Keys by value.
pub(super) struct Asked {
    keys: SourceKeys,
    /// By the last place of a key: all of its places that are still open.
    places: BTreeMap<u32, Vec<usize>>,
}

impl Asked {
    /// The keys of `wanted` at the places `open`.
    pub(super) fn new(wanted: &BatchKeys, open: &[usize]) -> Result<Self, QueryError> {
        let mut builder = SourceKeysBuilder::default();
        builder.push(wanted).map_err(QueryError::execution)?;
        let keys = builder.finish();
        let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for place in open {
            if let Some(last) = keys.newest(wanted, *place) {
                places.entry(last.get()).or_default().push(*place);
            }
        }
        Ok(Self { keys, places })
    }

    /// One place of each key.
    pub(super) fn one_each(&self) -> Vec<u32> {
        self.places.keys().copied().collect()
    }

    /// The places of the key that `keys` has at `row`.
    pub(super) fn places(&self, keys: &BatchKeys, row: usize) -> &[usize] {
        let last = self.keys.newest(keys, row);
        last.and_then(|last| self.places.get(&last.get())).map_or(&[], Vec::as_slice)
    }
}
