//! Snapshots that are pinned: read again by a token, until they are released or too old.
//!
//! Owns: [`SnapshotToken`], and the pinned snapshots of one open table: how many there may be, and how long.
//! A pinned snapshot reads the same before and after flush, compaction and collection (P6); what it keeps
//! stays charged to the memory budget (B2), so it goes by itself when its time is over. Does not own: what a
//! snapshot reads (`headwater-query`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use headwater_engine::settings::ReadSettings;
use headwater_query::ReadSnapshot;
use headwater_store::env::{EnvRef, Task};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::error::Error;

/// Names a pinned snapshot: of one open table, in the process that pinned it. Prints as text without spaces,
/// and is read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotToken {
    /// The open table.
    of: Uuid,
    /// Counted by the table, so that no two of its snapshots share one.
    number: u64,
    /// When it was taken, by the clock of its process: a token tells its age when the snapshot is gone.
    taken_ms: u64,
}

impl fmt::Display for SnapshotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.of.simple(), self.number, self.taken_ms)
    }
}

/// A text that no snapshot token prints as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no snapshot token: tokens are what pinning a snapshot gave")]
pub struct NoSnapshotToken {
    /// The text.
    pub text: String,
}

impl FromStr for SnapshotToken {
    type Err = NoSnapshotToken;

    fn from_str(text: &str) -> Result<Self, NoSnapshotToken> {
        let mut parts = text.split('-');
        let of = parts.next().and_then(|of| Uuid::try_parse(of).ok());
        let mut number = || parts.next().and_then(|number| number.parse().ok());
        let token = match (of, number(), number()) {
            (Some(of), Some(number), Some(taken_ms)) => Some(Self { of, number, taken_ms }),
            _ => None,
        };
        // Nothing but what is printed: no second spelling of a token.
        let token = token.filter(|token| token.to_string() == text);
        token.ok_or_else(|| NoSnapshotToken { text: text.to_owned() })
    }
}

/// The pinned snapshots of an open table, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedSnapshots {
    /// How many there are.
    pub count: usize,
    /// Age of the oldest.
    pub oldest: Option<Duration>,
    /// Bytes of the memtables they keep, each counted once; those that are not flushed yet among them.
    pub memtable_bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pins {
    table: String,
    of: Uuid,
    env: EnvRef,
    max_age: Duration,
    max: usize,
    pinned: Arc<Mutex<Pinned>>,
}

#[derive(Debug, Default)]
struct Pinned {
    last_number: u64,
    by_number: BTreeMap<u64, Pin>,
}

#[derive(Debug)]
struct Pin {
    taken: Duration,
    snapshot: ReadSnapshot,
    /// Lets go of it when its time is over.
    expiry: Option<Task>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(expiry) = self.expiry.take() {
            expiry.cancel();
        }
    }
}

impl Pins {
    /// None yet.
    pub fn new(table: &str, env: &EnvRef, settings: &ReadSettings) -> Self {
        Self {
            table: table.to_owned(),
            of: env.uuid(),
            env: env.clone(),
            max_age: Duration::from_millis(settings.snapshot_max_age_ms),
            max: settings.max_pinned_snapshots,
            pinned: Arc::default(),
        }
    }

    /// Refuses one more than there may be.
    pub fn check_room(&self) -> Result<(), Error> {
        self.room(&self.pinned.lock())
    }

    fn room(&self, pinned: &Pinned) -> Result<(), Error> {
        let count = pinned.by_number.len();
        if count < self.max {
            return Ok(());
        }
        Err(Error::TooManySnapshots { table: self.table.clone(), pinned: count, max: self.max })
    }

    /// Keeps a snapshot that was taken at `taken` or later.
    pub fn pin(&self, taken: Duration, snapshot: ReadSnapshot) -> Result<SnapshotToken, Error> {
        let mut pinned = self.pinned.lock();
        self.room(&pinned)?;
        pinned.last_number += 1;
        let number = pinned.last_number;
        let (left, held) = (self.left(taken), Arc::downgrade(&self.pinned));
        let over = self.env.sleep(left);
        let expire = async move {
            over.await;
            if let Some(held) = held.upgrade() {
                // Not under the lock: what it keeps may be large.
                let gone = held.lock().by_number.remove(&number);
                drop(gone);
            }
        };
        let expiry = Some(self.env.spawn("expire a pinned snapshot", Box::pin(expire)));
        pinned.by_number.insert(number, Pin { taken, snapshot, expiry });
        Ok(SnapshotToken { of: self.of, number, taken_ms: millis(taken) })
    }

    /// The snapshot of a token.
    pub fn at(&self, token: &SnapshotToken) -> Result<ReadSnapshot, Error> {
        let found =
            self.pinned.lock().by_number.get(&token.number).map(|pin| (pin.taken, pin.snapshot.clone()));
        let found = found.filter(|(taken, _)| self.is_own(token, *taken));
        // The clock decides, not the task that follows it.
        match found {
            Some((taken, snapshot)) if !self.left(taken).is_zero() => Ok(snapshot),
            _ => Err(self.gone(token)),
        }
    }

    /// Lets go of the snapshot of a token; whether it was still pinned.
    pub fn release(&self, token: &SnapshotToken) -> bool {
        let mut pinned = self.pinned.lock();
        let is_own = pinned.by_number.get(&token.number).is_some_and(|pin| self.is_own(token, pin.taken));
        let gone = is_own.then(|| pinned.by_number.remove(&token.number)).flatten();
        drop(pinned);
        gone.is_some_and(|pin| !self.left(pin.taken).is_zero())
    }

    /// Lets go of all.
    pub fn release_all(&self) {
        let gone = std::mem::take(&mut self.pinned.lock().by_number);
        drop(gone);
    }

    /// All of them together.
    pub fn stats(&self) -> PinnedSnapshots {
        let (pinned, now) = (self.pinned.lock(), self.env.now());
        let mut memtables = BTreeMap::new();
        let mut oldest = BTreeSet::new();
        for pin in pinned.by_number.values() {
            memtables.extend(pin.snapshot.memtables());
            oldest.insert(pin.taken);
        }
        PinnedSnapshots {
            count: pinned.by_number.len(),
            oldest: oldest.first().map(|taken| now.saturating_sub(*taken)),
            memtable_bytes: memtables.values().sum(),
        }
    }

    fn is_own(&self, token: &SnapshotToken, taken: Duration) -> bool {
        token.of == self.of && token.taken_ms == millis(taken)
    }

    /// How long a snapshot may still be read.
    fn left(&self, taken: Duration) -> Duration {
        self.max_age.saturating_sub(self.env.now().saturating_sub(taken))
    }

    fn gone(&self, token: &SnapshotToken) -> Error {
        let (table, token_text) = (self.table.clone(), token.to_string());
        let age = self.env.now().saturating_sub(Duration::from_millis(token.taken_ms));
        if token.of != self.of || age < self.max_age {
            return Error::NoSuchSnapshot { table, token: token_text };
        }
        let (age_ms, max_age_ms) = (millis(age), millis(self.max_age));
        Error::SnapshotExpired { table, token: token_text, age_ms, max_age_ms }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
