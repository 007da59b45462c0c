//! The split-block bloom filter of `bloom_filter.bin`, over the hashes of [`crate::key::KeySchema::hashes`].
//!
//! Owns: [`Bloom`], its bytes and its sizing. Does not own: hashing keys; whether a filter can be trusted
//! (one the reference wrote cannot for some key types: [`crate::key::KeyType::is_hashed_by_reference`]). A
//! filter answers "absent" only for keys that were never inserted; "present" proves nothing (P4: exact
//! comparison decides).
//!
//! # Bytes
//! Blocks of 32 bytes, each eight 32-bit little-endian words. The upper half of a hash picks the block, the
//! lower half one bit in each word: Parquet's filter without its header.

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 32;
/// Smallest and largest filter [`Bloom::with_ndv_fpp`] makes: one block, 128 MiB.
pub const SIZE_RANGE: std::ops::RangeInclusive<usize> = BLOCK_BYTES..=128 << 20;

const WORDS: usize = 8;
const SALTS: [u32; WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];
/// What `with_ndv_fpp` takes probabilities to be at least and at most.
const FPP_FLOOR: f64 = 1e-12;
const FPP_CEILING: f64 = 0.999;

type Block = [u32; WORDS];

/// A split-block bloom filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bloom {
    /// Never empty.
    blocks: Vec<Block>,
}

/// Bytes that are no bloom filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bloom filter of {length} bytes, which is no positive multiple of 32")]
pub struct BloomError {
    /// How many bytes there are.
    pub length: usize,
}

impl Bloom {
    /// An empty filter, of the smallest power-of-two size in [`SIZE_RANGE`] that keeps the false-positive
    /// probability at `ndv` distinct keys within `fpp` (taken to be at least 1e-12 and at most 0.999).
    pub fn with_ndv_fpp(ndv: u64, fpp: f64) -> Self {
        let fpp = if fpp.is_nan() { FPP_FLOOR } else { fpp.clamp(FPP_FLOOR, FPP_CEILING) };
        let mut bytes = *SIZE_RANGE.start();
        while bytes < *SIZE_RANGE.end() && expected_fpp(ndv, bytes) > fpp {
            bytes *= 2;
        }
        Self { blocks: vec![[0; WORDS]; bytes / BLOCK_BYTES] }
    }

    /// Adds a key by its hash.
    pub fn insert(&mut self, hash: u64) {
        let index = self.block_index(hash);
        if let Some(block) = self.blocks.get_mut(index) {
            block.iter_mut().zip(mask(hash)).for_each(|(word, bit)| *word |= bit);
        }
    }

    /// Whether the key with this hash may have been inserted; false is certain.
    pub fn check(&self, hash: u64) -> bool {
        let block = self.blocks.get(self.block_index(hash));
        block.is_some_and(|block| block.iter().zip(mask(hash)).all(|(word, bit)| word & bit != 0))
    }

    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// The filter's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The filter whose bytes these are, of any size.
    ///
    /// # Errors
    /// [`BloomError`] unless there is a positive whole number of blocks.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BloomError> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        if blocks.is_empty() || !rest.is_empty() {
            return Err(BloomError { length: bytes.len() });
        }
        Ok(Self { blocks: blocks.iter().map(read_block).collect() })
    }

    fn block_index(&self, hash: u64) -> usize {
        let blocks = self.blocks.len() as u64;
        // Both factors are below 2^32, so the product fits, and the result is below `blocks`.
        ((hash >> 32).wrapping_mul(blocks) >> 32) as usize
    }
}

fn read_block(bytes: &[u8; BLOCK_BYTES]) -> Block {
    let mut block = [0; WORDS];
    let (words, _) = bytes.as_chunks::<4>();
    block.iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
    block
}

/// One bit for each word of a block, from the lower half of the hash.
fn mask(hash: u64) -> Block {
    let low = hash as u32;
    SALTS.map(|salt| 1 << (low.wrapping_mul(salt) >> 27))
}

/// Probability that an absent key finds its eight bits set in a filter of `bytes` bytes holding `ndv` keys:
/// over the number `i` of keys in its block (Poisson), the chance that `i` keys set a given bit in each of
/// eight words.
fn expected_fpp(ndv: u64, bytes: usize) -> f64 {
    const TERMS: u32 = 2_000;
    let blocks = bytes as f64 / BLOCK_BYTES as f64;
    let keys_per_block = ndv as f64 / blocks;
    if keys_per_block > f64::from(TERMS / 2) {
        return 1.0;
    }
    if keys_per_block == 0.0 {
        return 0.0;
    }
    let mut log_poisson = -keys_per_block;
    let mut total = 0.0;
    for keys in 1..TERMS {
        log_poisson += keys_per_block.ln() - f64::from(keys).ln();
        let bit_set = 1.0 - (31.0_f64 / 32.0).powf(f64::from(keys));
        total += log_poisson.exp() * bit_set.powi(8);
    }
    total.min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_references_parameters_give_the_references_size() {
        assert_eq!(Bloom::with_ndv_fpp(8_192, 0.000_57).size(), 32_768);
    }

    #[test]
    fn sizes_stay_in_range() {
        assert_eq!(Bloom::with_ndv_fpp(0, 0.01).size(), 32);
        assert_eq!(Bloom::with_ndv_fpp(1, 1.0).size(), 32);
        assert_eq!(Bloom::with_ndv_fpp(u64::MAX, 0.0).size(), 128 << 20);
        assert_eq!(Bloom::with_ndv_fpp(u64::MAX, f64::NAN).size(), 128 << 20);
    }

    #[test]
    fn computed_probabilities_are_those_of_the_facts_page() {
        // 32 KiB filter: 3.6e-5 at 8 k keys, 0.35 % at 20 k, 15.5 % at 50 k, 68 % at 100 k.
        for (keys, expected) in [(8_192, 3.6e-5), (20_000, 0.0035), (50_000, 0.155), (100_000, 0.68)] {
            let found = expected_fpp(keys, 32_768);
            assert!((found / expected - 1.0).abs() < 0.05, "{keys} keys: {found} instead of {expected}");
        }
    }

    #[test]
    fn false_positives_stay_near_the_promise() {
        let mut bloom = Bloom::with_ndv_fpp(10_000, 0.01);
        // A Weyl sequence through a finalizer: spread out, distinct, and the same on each run.
        let hash = |n: u64| {
            let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        (0..10_000).for_each(|n| bloom.insert(hash(n)));
        assert!((0..10_000).all(|n| bloom.check(hash(n))));
        let wrong = (10_000..110_000).filter(|n| bloom.check(hash(*n))).count();
        assert!(wrong < 1_100, "{wrong} of 100000 absent keys are taken for present");
        assert!(wrong > 0, "a filter of this size has false positives; is anything checked?");
    }

    #[test]
    fn one_hash_sets_the_bits_the_format_says() {
        let mut bloom = Bloom::with_ndv_fpp(0, 0.5);
        bloom.insert(0xffff_ffff_0000_0001);
        let bits: Vec<u32> = SALTS.iter().map(|salt| 1 << (salt >> 27)).collect();
        let bytes: Vec<u8> = bits.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bloom.to_bytes(), bytes);
        assert!(bloom.check(0x0000_0000_0000_0001), "one block: the upper half picks nothing");
        assert!(!bloom.check(0xffff_ffff_0000_0002));
    }

    #[test]
    fn bytes_that_are_no_whole_blocks_are_refused() {
        for length in [0, 1, 31, 33, 63] {
            assert_eq!(Bloom::from_bytes(&vec![0xff; length]), Err(BloomError { length }));
        }
    }

    proptest! {
        #[test]
        fn what_was_inserted_is_found_after_a_round_trip(
            hashes in prop::collection::vec(any::<u64>(), 0..200),
            blocks in 1_usize..20,
        ) {
            let mut bloom = Bloom::from_bytes(&vec![0; blocks * BLOCK_BYTES]).unwrap();
            hashes.iter().for_each(|hash| bloom.insert(*hash));
            let again = Bloom::from_bytes(&bloom.to_bytes()).unwrap();
            prop_assert_eq!(&again, &bloom);
            prop_assert!(hashes.iter().all(|hash| again.check(*hash)));
        }
    }
}
