//! R2: R1's tables, and a scan of one column that is not the key: whether the key is read all the same.

use anyhow::Result;

use super::r1;
use crate::bench::Bench;
use crate::rows::VALUE;

/// Runs it.
pub async fn run(bench: &mut Bench) -> Result<()> {
    r1::compare(bench, "R2", &[VALUE]).await
}
