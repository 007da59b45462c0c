//! How many of something came in which size: the one form in which a shard tells of times and group sizes.
//!
//! Owns: [`Histogram`]. Does not own: units; whoever records says what a value is. Recording is a shift and
//! two additions, so it is done for every acknowledgement.

use serde::Serialize;

/// How many sizes are told apart.
const SIZES: usize = 32;

/// Counts of values by size: the first size holds values up to 1, each next one up to twice as much, the last
/// one all that are larger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    counts: [u64; SIZES],
    sum: u64,
}

impl Histogram {
    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        // The number of bits of what is just too small for the size above.
        let size = (u64::BITS - value.saturating_sub(1).leading_zeros()) as usize;
        let size = size.min(SIZES - 1);
        if let Some(count) = self.counts.get_mut(size) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(value);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Each size: the largest value in it (none for the last, which has no limit) and how many there were.
    pub fn sizes(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let limits = (0..SIZES).map(|size| (size < SIZES - 1).then(|| 1_u64 << size));
        limits.zip(self.counts.iter().copied())
    }

    /// Adds the values of another one.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(value: u64) -> Option<u64> {
        let mut histogram = Histogram::default();
        histogram.record(value);
        histogram.sizes().find(|(_, count)| *count == 1).map(|(limit, _)| limit).unwrap()
    }

    #[test]
    fn a_value_is_counted_in_the_smallest_size_that_holds_it() {
        let expected = [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1 << 30, 1 << 30)];
        for (value, limit) in expected {
            assert_eq!(limit_of(value), Some(limit), "{value}");
        }
        assert_eq!((limit_of((1 << 30) + 1), limit_of(u64::MAX)), (None, None));
    }

    #[test]
    fn merged_histograms_hold_the_values_of_both() {
        let (mut first, mut second) = (Histogram::default(), Histogram::default());
        first.record(3);
        second.record(100);
        second.record(u64::MAX);
        first.merge(&second);
        assert_eq!((first.count(), first.sum()), (3, u64::MAX));
        assert_eq!(first.sizes().filter(|(_, count)| *count > 0).count(), 3);
    }
}
