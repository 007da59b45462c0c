//! The live rows after each prefix of the WAL, as digests.

use std::collections::BTreeMap;

use headwater_format::coord::WalPosition;

use crate::audit::Entry;
use crate::rows::{Row, Written};

/// Live rows, and a sum over them that two sets share only if they are equal.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    keyed: bool,
    newest: BTreeMap<u32, Written>,
    sum: u64,
    count: u64,
}

impl Fold {
    /// The live rows of the base. `keyed`: newer rows of a key replace older ones.
    pub fn new(keyed: bool, base: &[Row]) -> Self {
        let mut fold = Self { keyed, ..Self::default() };
        base.iter().for_each(|row| fold.apply(*row));
        fold
    }

    /// One more row.
    pub fn apply(&mut self, row: Row) {
        if self.keyed {
            let old = match row.written {
                Some(written) => self.newest.insert(row.key, written),
                None => self.newest.remove(&row.key),
            };
            if let Some(old) = old {
                self.sum = self.sum.wrapping_sub(Row { key: row.key, written: Some(old) }.digest());
                self.count -= 1;
            }
        }
        if row.written.is_some() {
            self.sum = self.sum.wrapping_add(row.digest());
            self.count += 1;
        }
    }

    /// Digest of the live rows.
    pub fn digest(&self) -> (u64, u64) {
        (self.count, self.sum)
    }

    /// The newest row of each live key; empty without a key.
    pub fn live(&self) -> &BTreeMap<u32, Written> {
        &self.newest
    }

    /// Digest of a set of live rows.
    pub fn digest_of(rows: &[Row]) -> (u64, u64) {
        let sum = rows.iter().fold(0_u64, |sum, row| sum.wrapping_add(row.digest()));
        (rows.len() as u64, sum)
    }

    /// Digests after 0, 1, 2, … entries; entry i of the result is the fold of positions 1 to i.
    pub fn prefixes(keyed: bool, base: &[Row], entries: &[Entry]) -> Vec<(u64, u64)> {
        let mut fold = Self::new(keyed, base);
        let mut digests = vec![fold.digest()];
        let mut at = WalPosition::ZERO;
        for entry in entries {
            // A hole is reported elsewhere; here it keeps positions and places together.
            while at.next() < entry.position {
                at = at.next();
                digests.push(fold.digest());
            }
            entry.rows.iter().flatten().for_each(|row| fold.apply(*row));
            at = entry.position;
            digests.push(fold.digest());
        }
        digests
    }
}
