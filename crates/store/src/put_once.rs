//! Put-if-absent whose outcome is known even when the answer is lost.
//!
//! Owns: [`Store::put_once`] and the pure decision behind it. An answer decides only when it is "done";
//! after any other the object is read back and compared: own bytes mean created, others mean foreign,
//! absence means the same bytes are sent again. Reading back is a [`DurableRead`](crate::DurableRead): a
//! PUT that was not answered in time may be visible and not yet synced, and would otherwise be acknowledged
//! too early (P1). "Already exists" decides nothing: it can be our own earlier attempt, whose answer was
//! lost to us or to the backend's own retries. What cannot be resolved within the budget is
//! [`PutOnce::Unknown`], not a guess. Keeps P2 and P7 for whoever binds one position to one encoded object
//! until its fate is known. Called by `register` (manifest versions) and by the engine's WAL.

use bytes::Bytes;
use object_store::path::Path;

use crate::error::{Failure, StoreError};
use crate::retry::Attempts;
use crate::store::Store;

/// What became of a put-if-absent.
#[derive(Clone, Debug)]
pub enum PutOnce {
    /// The object holds the bytes given. If another caller gave the very same bytes it may be theirs.
    Created,
    /// The object holds other bytes, and ours never will be there.
    Exists {
        /// What it holds.
        found: Bytes,
    },
    /// Nobody knows, now or later: a request of ours may still be applied. Calling again with the same bytes
    /// may tell.
    Unknown {
        /// The last failure.
        source: StoreError,
    },
}

/// What reading the object back showed.
#[derive(Debug)]
enum ReadBack {
    Own,
    Foreign(Bytes),
    Absent,
    Failed(StoreError),
    /// Not tried: the object could not be synced, and writing it again tries that first.
    Skipped,
}

/// What to do after an attempt that did not answer "done".
#[derive(Debug)]
enum Step {
    Created,
    Exists(Bytes),
    /// Send the same bytes again, if the budget allows.
    Again(StoreError),
    /// The store will not do it, and no request of ours can still be applied.
    Refused(StoreError),
    /// The store will not do it any more, but an earlier request may still be applied.
    Unknown(StoreError),
}

/// Decides what follows from `failure` and `read`. `open`: an earlier attempt may still be applied.
fn next_step(failure: Failure, read: ReadBack, open: bool) -> Step {
    match (failure, read) {
        (_, ReadBack::Own) => Step::Created,
        (_, ReadBack::Foreign(found)) => Step::Exists(found),
        (Failure::Refused(error), _) if open => Step::Unknown(error),
        (Failure::Refused(error), _) => Step::Refused(error),
        (_, ReadBack::Failed(error)) => Step::Again(error),
        (failure, ReadBack::Absent | ReadBack::Skipped) => Step::Again(failure.into_error()),
    }
}

impl Store {
    /// Creates `path` with `bytes` if there is no object yet, and finds out what became of it.
    ///
    /// Dropping the future leaves the outcome unknown; calling again with the same bytes resolves it.
    ///
    /// # Errors
    /// Only refusals after which nothing of ours is or will be there: permission, a full or read-only disk,
    /// an unsupported operation, an invalid path, a missing bucket.
    pub async fn put_once(&self, path: &str, bytes: Bytes) -> Result<PutOnce, StoreError> {
        let full = self.full_path(path)?;
        if full == *self.root() {
            return Err(StoreError::invalid(path, "an object needs a name"));
        }
        let mut attempts = Attempts::new(self.env().as_ref(), self.retry());
        let mut open = false;
        loop {
            let failure = match self.create_attempt(path, &full, &bytes, &mut attempts).await {
                Ok(()) => return Ok(PutOnce::Created),
                Err(failure) => failure,
            };
            tracing::debug!(
                path,
                attempts = attempts.made(),
                ?failure,
                "put-if-absent was not answered by done"
            );
            let read = match &failure {
                Failure::NotSynced(_) => ReadBack::Skipped,
                _ => self.read_back(path, &full, &bytes, attempts.again()).await,
            };
            let cannot_be_applied = matches!(failure, Failure::Refused(_) | Failure::Missing(_));
            let unresolved = match next_step(failure, read, open) {
                Step::Created => return Ok(PutOnce::Created),
                Step::Exists(found) => return Ok(PutOnce::Exists { found }),
                Step::Refused(error) => return Err(error),
                Step::Unknown(source) => return Ok(PutOnce::Unknown { source }),
                Step::Again(error) => error,
            };
            open |= !cannot_be_applied;
            if !attempts.pause().await {
                return if open { Ok(PutOnce::Unknown { source: unresolved }) } else { Err(unresolved) };
            }
        }
    }

    /// Reads `path` and compares. Foreign bytes are believed when two reads in a row agree: one damaged read
    /// of our own entry must not make it look like somebody else's, or it would be written a second time
    /// (P12).
    async fn read_back(&self, path: &str, full: &Path, own: &Bytes, mut attempts: Attempts<'_>) -> ReadBack {
        let mut last: Option<Bytes> = None;
        loop {
            let failure = match self.durable_get_attempt(path, full, &mut attempts).await {
                Ok(found) if found == *own => return ReadBack::Own,
                Ok(found) if last.as_ref() == Some(&found) => return ReadBack::Foreign(found),
                Ok(found) if attempts.any_left() => {
                    last = Some(found);
                    continue;
                }
                Ok(_) => return ReadBack::Failed(StoreError::corrupt(path, "no two reads of it agree")),
                Err(Failure::Missing(_)) => return ReadBack::Absent,
                Err(Failure::Refused(error)) => return ReadBack::Failed(error),
                Err(failure) => failure,
            };
            if !attempts.pause().await {
                return ReadBack::Failed(failure.into_error());
            }
        }
    }
}

#[cfg(test)]
mod tests;
