//! Requests that come again.
//!
//! Owns: [`Mark`], [`Replays`] and [`OpenTable::once`]. A client that gets no answer asks again with the same
//! `x-request-id`. The commit of a change carries that id, so a request that comes again is answered with
//! what the first one did: while this process remembers it; and within ten minutes after a crash, too, even
//! one between the commit and its answer, for then the id is read from the versions on storage (P12). Changes
//! of one table in one process happen one after the other, so a copy waits for the first one. Not covered:
//! two copies at the same moment at two servers, and ids that are no UUIDs, which some clients use twice.
//! Does not own: what is changed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use headwater::{ClientToken, TokenError};
use headwater_lance::mark_of;
use lance::Dataset;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Again, ApiError};
use crate::tables::OpenTable;
use crate::tables::plain::caught;

/// How old a commit may be whose request still comes again.
const WINDOW: Duration = Duration::from_mins(10);
/// Versions of others looked at, at most.
const MAX_VERSIONS: usize = 1024;
/// Changes remembered of a table.
const MAX_TOLD: usize = 1024;
/// Bytes of the digest of a request that its mark carries.
const DIGEST_BYTES: usize = 8;

/// What tells a request that comes again from every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// Of a request with this id that asks for `what`; none when the id says nothing.
    pub fn of(request_id: Option<&str>, what: &str, body: &impl std::fmt::Debug) -> Option<Self> {
        let id = Uuid::parse_str(request_id?).ok()?;
        let digest = Sha256::digest(format!("{what} {body:?}"));
        let digest = hex::encode(digest.iter().take(DIGEST_BYTES).copied().collect::<Vec<u8>>());
        Some(Self(format!("request:{id}:{digest}")))
    }
}

impl Mark {
    /// As the name of a request in the log of a write tier.
    ///
    /// # Errors
    /// None: a mark is never empty, nor too long.
    pub fn token(&self) -> Result<ClientToken, TokenError> {
        ClientToken::new(self.0.as_bytes())
    }
}

/// What a change did, as the client is told.
pub type Done = Result<(Arc<Dataset>, Value), lance::Error>;

/// A change of a table: makes one commit through the dataset it is given.
pub type Change = Box<dyn FnOnce(Dataset) -> BoxFuture<'static, Done> + Send>;

/// What to tell of a change that is found on storage, from the version it made.
pub type Recount = fn(Dataset) -> BoxFuture<'static, Result<Value, lance::Error>>;

/// Changes of one table that may be asked for again.
#[derive(Debug, Default)]
pub struct Replays {
    told: VecDeque<(Mark, Value)>,
    /// Versions whose marks were read, and the marks.
    found: VecDeque<(String, u64)>,
    seen: u64,
}

impl Replays {
    fn told(&self, mark: &Mark) -> Option<Value> {
        self.told.iter().find(|(told, _)| told == mark).map(|(_, reply)| reply.clone())
    }

    fn tell(&mut self, mark: Mark, reply: Value) {
        self.told.push_back((mark, reply));
        while self.told.len() > MAX_TOLD {
            self.told.pop_front();
        }
    }

    /// The version that was committed with `mark`, among those that are young enough.
    async fn version(
        &mut self,
        newest: &Dataset,
        mark: &Mark,
        now: SystemTime,
    ) -> Result<Option<u64>, lance::Error> {
        let oldest = now.checked_sub(WINDOW).unwrap_or(SystemTime::UNIX_EPOCH);
        let (mut version, mut marks) = (newest.version_id(), Vec::new());
        while version > self.seen && marks.len() < MAX_VERSIONS {
            let dataset = match version == newest.version_id() {
                true => newest.clone(),
                false => match newest.checkout_version(version).await {
                    Ok(dataset) => dataset,
                    // Collected, and so was everything before it.
                    Err(lance::Error::NotFound { .. } | lance::Error::DatasetNotFound { .. }) => break,
                    Err(error) => return Err(error),
                },
            };
            if SystemTime::from(dataset.version().timestamp) < oldest {
                break;
            }
            marks.push((mark_of(&dataset).unwrap_or_default().to_owned(), version));
            version -= 1;
        }
        self.seen = newest.version_id();
        self.found.extend(marks.into_iter().rev().filter(|(mark, _)| !mark.is_empty()));
        while self.found.len() > MAX_VERSIONS {
            self.found.pop_front();
        }
        Ok(self.found.iter().find(|(found, _)| *found == mark.0).map(|(_, version)| *version))
    }
}

impl OpenTable {
    /// Makes `change` once: when a request with this mark made it already, says what that did.
    ///
    /// # Errors
    /// What Lance refuses, or storage says. Asking again is harmless when there is a mark.
    pub async fn once(
        self: &Arc<Self>,
        mark: Option<Mark>,
        change: Change,
        recount: Recount,
    ) -> Result<Value, ApiError> {
        let table = Arc::clone(self);
        self.to_the_end(async move { table.make_once(mark, change, recount).await }).await
    }

    async fn make_once(
        &self,
        mark: Option<Mark>,
        change: Change,
        recount: Recount,
    ) -> Result<Value, ApiError> {
        let mut replays = self.replays.lock().await;
        let again = if mark.is_some() { Again::Harmless } else { Again::Doubles };
        let failed = |error| ApiError::lance(self.name(), error, again);
        let dataset = self.marked(mark.as_ref().map(|mark| mark.0.as_str())).await?;
        if let Some(mark) = &mark {
            if let Some(reply) = replays.told(mark) {
                return Ok(reply);
            }
            let version = replays.version(&dataset, mark, self.env().wall_clock()).await.map_err(failed)?;
            if let Some(version) = version {
                let made = dataset.checkout_version(version).await.map_err(failed)?;
                let reply = recount(made).await.map_err(failed)?;
                replays.tell(mark.clone(), reply.clone());
                return Ok(reply);
            }
        }
        let before = dataset.version_id();
        let (changed, reply) =
            caught::change(self, before, async move { change(dataset).await.map_err(failed) }).await?;
        self.adopt(&changed);
        if let Some(mark) = mark {
            replays.tell(mark, reply.clone());
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6fa459ea-ee8a-4ca4-894e-db77e160355e";

    #[test]
    fn a_mark_is_the_id_and_what_is_asked_for() {
        let mark = Mark::of(Some(ID), "delete", &"a > 1");
        assert_eq!(mark, Mark::of(Some(&ID.to_uppercase()), "delete", &"a > 1"));
        assert_ne!(mark, Mark::of(Some(ID), "delete", &"a > 2"));
        assert!(mark.unwrap().token().is_ok());
        let mark = Mark::of(Some(ID), "delete", &"a > 1");
        assert_ne!(mark, Mark::of(Some(ID), "update", &"a > 1"));
        for nothing in [None, Some(""), Some("1"), Some("the-same-each-time")] {
            assert_eq!(Mark::of(nothing, "delete", &"a > 1"), None);
        }
    }
}
