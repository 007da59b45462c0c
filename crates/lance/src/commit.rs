//! Commits to the base that go onto exactly the version they were planned on, or not at all.
//!
//! Owns: [`LanceTable::try_commit`], which refuses any other version (Lance would silently rebase), and how
//! often a commit is planned.
//! Does not own: what is committed. Keeps P16: an operation planned on one state of the indexes never meets
//! another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_engine::table::TableError;
use lance::Dataset;
use lance::dataset::CommitBuilder;
use lance::dataset::transaction::{Operation, Transaction};
use lance_table::io::commit::{CommitError, CommitHandler};

use crate::commit_handler::looking;
use crate::error;
use crate::schema::TableSchema;
use crate::table::LanceTable;

/// Times a commit is planned when others get in between.
pub(crate) const ATTEMPTS: u32 = 16;

/// How a commit ended.
enum Outcome {
    /// It is the table's newest version.
    Committed(Box<Dataset>),
    /// Somebody else committed first: plan again on the newest version.
    Moved,
    /// The answer was lost: read the newest version and look for the own mark in it.
    Unknown(TableError),
}

impl LanceTable {
    /// Commits `operation`, planned on the version `dataset` is at, as the next version, and remembers that
    /// one. None when it is to be planned again on the newest version: somebody else committed first, or the
    /// answer was `lost`, and then the own mark may be found there.
    ///
    /// # Errors
    /// What Lance refused for good.
    pub(crate) async fn try_commit(
        &self,
        dataset: &Dataset,
        schema: &Arc<TableSchema>,
        operation: Operation,
        lost: &mut Option<TableError>,
    ) -> Result<Option<Dataset>, TableError> {
        match commit_onto(dataset, &self.commit_handler, operation).await? {
            Outcome::Committed(dataset) => {
                self.adopt(&dataset, schema);
                return Ok(Some(*dataset));
            }
            Outcome::Moved => {}
            Outcome::Unknown(error) => *lost = Some(error),
        }
        Ok(None)
    }

    /// What is said after too many commits by others.
    pub(crate) fn busy(&self, lost: Option<TableError>) -> TableError {
        lost.unwrap_or_else(|| TableError::Unavailable {
            path: self.uri.clone(),
            reason: format!("other commits got in between {ATTEMPTS} times: try again"),
        })
    }
}

/// Commits `operation`, planned on the version `dataset` is at, as the next version.
///
/// # Errors
/// What Lance refused for good, as [`TableError`].
async fn commit_onto(
    dataset: &Dataset,
    handler: &Arc<dyn CommitHandler>,
    operation: Operation,
) -> Result<Outcome, TableError> {
    let planned = dataset.version_id();
    let refused = Arc::new(AtomicBool::new(false));
    let (noted, only) = (Arc::clone(&refused), planned.saturating_add(1));
    let strict = looking(handler, move |manifest| {
        if manifest.version == only {
            return Ok(());
        }
        noted.store(true, Ordering::Release);
        Err(CommitError::CommitConflict)
    });
    let committed = CommitBuilder::new(Arc::new(dataset.clone()))
        .with_commit_handler(strict)
        .with_max_retries(1)
        .with_skip_auto_cleanup(true)
        .execute(Transaction::new(planned, operation, None))
        .await;
    let error = match committed {
        Ok(dataset) => return Ok(Outcome::Committed(Box::new(dataset))),
        Err(error) => error,
    };
    if refused.load(Ordering::Acquire) {
        return Ok(Outcome::Moved);
    }
    use lance_core::Error as E;
    match &error {
        E::CommitConflict { .. }
        | E::RetryableCommitConflict { .. }
        | E::IncompatibleTransaction { .. }
        | E::TooMuchWriteContention { .. } => Ok(Outcome::Moved),
        E::InvalidInput { .. } | E::NotSupported { .. } | E::Schema { .. } => {
            Err(error::of_table(dataset.uri(), error))
        }
        _ => Ok(Outcome::Unknown(error::of_table(dataset.uri(), error))),
    }
}
