//! Queries within a bound of memory.
//!
//! Owns: [`bounded`]. What sorts, joins and aggregates cannot hold in memory they write to temporary files,
//! where they can (B2).

use std::sync::Arc;

use datafusion::execution::context::SessionContext;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionConfig;

use crate::error::QueryError;

/// Bytes a sort sets aside for merging what it wrote to files, where there are enough.
const MERGE_BYTES: usize = 10 << 20;

/// A session of this configuration whose plans may hold `memory_bytes` together.
///
/// # Errors
/// [`QueryError::Execution`] when there is no place for temporary files.
pub(crate) fn bounded(config: SessionConfig, memory_bytes: usize) -> Result<SessionContext, QueryError> {
    let pool = Arc::new(FairSpillPool::new(memory_bytes));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
    // What a sort sets aside for merging must leave room for the rows.
    let merging = memory_bytes.div_ceil(16).min(MERGE_BYTES);
    let config = config.with_sort_spill_reservation_bytes(merging);
    Ok(SessionContext::new_with_config_rt(config, runtime))
}
