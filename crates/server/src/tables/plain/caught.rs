//! Panics of the libraries below, which some nonsense makes them.
//!
//! Owns: [`read`] and [`change`]: a request that makes them is one that cannot be answered (P14), as long as
//! nothing came of it. Does not own: which requests those are.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use crate::error::ApiError;
use crate::tables::OpenTable;

/// What a read gives.
///
/// # Errors
/// Those of `read`; 400 when it panics.
pub async fn read<T>(name: &str, read: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    AssertUnwindSafe(read).catch_unwind().await.unwrap_or_else(|_panic| Err(cannot(name)))
}

/// What a change gives of a table that is at version `before`.
///
/// # Errors
/// Those of `change`; when it panics, 400 where nothing was committed, else 500.
pub async fn change<T>(
    table: &OpenTable,
    before: u64,
    change: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    match AssertUnwindSafe(change).catch_unwind().await.map_err(|_panic| ()) {
        Ok(done) => done,
        Err(()) if table.base().await?.version_id() == before => Err(cannot(table.name())),
        Err(()) => Err(ApiError::internal("changing a table", &"a panic at a commit, or another's")),
    }
}

/// 400: the log has where.
pub fn cannot(name: &str) -> ApiError {
    ApiError::invalid(format!(
        "table {name:?}: the request cannot be planned or run: write it in another way"
    ))
}
