//! Rows that a read leaves out.
//!
//! Owns: [`HiddenRows`], a set of rows by address, and [`unmarked`], what is left of consecutive rows. Does
//! not own: why they are hidden. An address is the fragment in the upper and the offset in the lower 32 bits,
//! as Lance has it; an SSTable is fragment 0.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use roaring::RoaringBitmap;

/// A set of row addresses. A clone shares the rows of every fragment until one of both adds to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HiddenRows {
    fragments: BTreeMap<u32, Arc<RoaringBitmap>>,
    rows: u64,
}

impl HiddenRows {
    /// How many rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The offsets of the rows of `fragment`, if there are any.
    pub fn fragment(&self, fragment: u32) -> Option<&Arc<RoaringBitmap>> {
        self.fragments.get(&fragment)
    }

    /// Offsets by fragment, ascending.
    pub fn fragments(&self) -> impl Iterator<Item = (u32, &Arc<RoaringBitmap>)> {
        self.fragments.iter().map(|(fragment, rows)| (*fragment, rows))
    }

    /// Whether the row at `address` is hidden.
    pub fn contains(&self, address: u64) -> bool {
        self.fragment((address >> 32) as u32).is_some_and(|rows| rows.contains(address as u32))
    }

    /// Adds a row; whether it is new.
    pub fn insert(&mut self, address: u64) -> bool {
        let rows = self.fragments.entry((address >> 32) as u32).or_default();
        let new = !rows.contains(address as u32) && Arc::make_mut(rows).insert(address as u32);
        self.rows += u64::from(new);
        new
    }

    /// Adds all rows of `other`.
    pub fn extend(&mut self, other: &Self) {
        for (fragment, rows) in &other.fragments {
            let known = self.fragments.entry(*fragment).or_default();
            let before = known.len();
            if before == 0 {
                *known = Arc::clone(rows);
            } else {
                *Arc::make_mut(known) |= &**rows;
            }
            self.rows += known.len() - before;
        }
    }

    /// Which of the rows at `addresses` are not hidden; none when that is all of them.
    pub fn kept(&self, addresses: &[u64]) -> Option<BooleanBuffer> {
        let mut kept = Kept::all(addresses.len());
        let mut start = 0;
        for part in addresses.chunk_by(|one, next| one >> 32 == next >> 32) {
            let fragment = part.first().and_then(|address| self.fragment((address >> 32) as u32));
            if let Some(rows) = fragment {
                kept.without(rows, part, start);
            }
            start += part.len();
        }
        kept.finish()
    }

    /// Resident bytes, roughly.
    pub fn bytes(&self) -> u64 {
        let rows = self.fragments.values().map(|rows| rows.serialized_size() as u64);
        rows.sum::<u64>() + (self.fragments.len() * size_of::<(u32, RoaringBitmap)>()) as u64
    }
}

impl FromIterator<u64> for HiddenRows {
    fn from_iter<T: IntoIterator<Item = u64>>(addresses: T) -> Self {
        let mut rows = Self::default();
        for address in addresses {
            rows.insert(address);
        }
        rows
    }
}

/// Which of the rows of `range` are not in `marked`; none when that is all of them.
pub fn unmarked(marked: &RoaringBitmap, range: Range<u32>) -> Option<BooleanBuffer> {
    let mut kept = Kept::all(range.len());
    for row in marked.range(range.clone()) {
        kept.clear((row - range.start) as usize);
    }
    kept.finish()
}

/// A bit for each of some rows, made when the first of them is cleared.
struct Kept {
    rows: usize,
    bits: Option<BooleanBufferBuilder>,
}

impl Kept {
    fn all(rows: usize) -> Self {
        Self { rows, bits: None }
    }

    fn clear(&mut self, row: usize) {
        let rows = self.rows;
        let bits = self.bits.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(rows);
            bits.append_n(rows, true);
            bits
        });
        bits.set_bit(row, false);
    }

    /// Clears the rows at `addresses`, all of one fragment and the first of them at `start`, whose offsets
    /// are in `hidden`. Where they ascend, as a scan brings them, it costs what is hidden, not what there is.
    fn without(&mut self, hidden: &RoaringBitmap, addresses: &[u64], start: usize) {
        let (Some(first), Some(last)) = (addresses.first(), addresses.last()) else { return };
        if !addresses.is_sorted_by(|one, next| one < next) {
            for (row, address) in (start..).zip(addresses) {
                if hidden.contains(*address as u32) {
                    self.clear(row);
                }
            }
            return;
        }
        let without_gaps = last - first + 1 == addresses.len() as u64;
        let mut from = 0;
        for offset in hidden.range(*first as u32..=*last as u32) {
            if without_gaps {
                self.clear(start + (offset - *first as u32) as usize);
                continue;
            }
            let rest = addresses.get(from..).unwrap_or_default();
            from += rest.iter().take_while(|address| (**address as u32) < offset).count();
            if addresses.get(from).is_some_and(|address| *address as u32 == offset) {
                self.clear(start + from);
            }
        }
    }

    fn finish(self) -> Option<BooleanBuffer> {
        self.bits.map(|mut bits| bits.finish())
    }
}
