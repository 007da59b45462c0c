//! How large one put may be.
//!
//! Owns: [`IngestLimits`]. Does not own: the limits of a memtable (`freeze`).

use super::error::InvalidInput;
use crate::settings::ShardSettings;

/// Limits on one put or delete. A larger one is refused before anything is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestLimits {
    /// Rows: `freeze.max_rows`.
    pub max_rows: u64,
    /// Logical bytes: `wal.max_entry_bytes`.
    pub max_bytes: u64,
}

impl From<&ShardSettings> for IngestLimits {
    fn from(settings: &ShardSettings) -> Self {
        Self { max_rows: u64::from(settings.freeze.max_rows), max_bytes: settings.wal.max_entry_bytes }
    }
}

impl IngestLimits {
    pub(super) fn check_rows(&self, rows: usize) -> Result<(), InvalidInput> {
        let (rows, limit) = (rows as u64, self.max_rows);
        if rows > limit { Err(InvalidInput::TooManyRows { rows, limit }) } else { Ok(()) }
    }

    pub(super) fn check_bytes(&self, bytes: u64) -> Result<(), InvalidInput> {
        let limit = self.max_bytes;
        if bytes > limit { Err(InvalidInput::TooLarge { bytes, limit }) } else { Ok(()) }
    }
}
