//! The running hash of everything that was decided, so that two runs of one seed can be compared.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// An order-dependent 64-bit hash (FNV-1a with a final mix). Not for security: two runs of one seed must
/// agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl Trace {
    /// Feeds one number.
    pub fn feed(&mut self, value: u64) {
        self.feed_bytes(&value.to_le_bytes());
    }

    /// Feeds a string and its length.
    pub fn feed_text(&mut self, text: &str) {
        self.feed_bytes(text.as_bytes());
        self.feed(text.len() as u64);
    }

    /// Feeds bytes.
    pub fn feed_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// The hash of everything fed so far.
    pub fn value(&self) -> u64 {
        let mut mixed = self.0;
        mixed ^= mixed >> 32;
        mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }
}
