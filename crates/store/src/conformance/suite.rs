//! The suite: runs the checks one after the other below a fresh root, and leaves nothing behind.
//!
//! Owns: [`run`], [`Options`], what checks share. Does not own: the checks (`basics`, `races`).

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;

use super::lossy::Lossy;
use super::report::{CheckReport, Nonconforming, Report};
use super::{basics, races};
use crate::error::StoreError;
use crate::meter::Meter;
use crate::retry::RetryPolicy;
use crate::store::Store;

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Creators that race for one path, and writers of one register.
    pub creators: u64,
    /// Paths they race for, in each of the races.
    pub rounds: u64,
    /// Records each writer adds to the register.
    pub records: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { creators: 8, rounds: 40, records: 4 }
    }
}

/// Many short attempts: lost answers are frequent here, and every one must be resolved.
const LOSSY_RETRY: RetryPolicy = RetryPolicy {
    max_attempts: 64,
    base: Duration::from_millis(1),
    cap: Duration::from_millis(20),
    budget: Duration::from_secs(120),
};

/// What background writes get to end.
const SETTLE: Duration = Duration::from_millis(50);
const SWEEPS: u32 = 20;

/// Runs the suite against `store` with [`Options::default`].
///
/// # Errors
/// [`Nonconforming`] with the first check that failed.
pub async fn run(store: Store) -> Result<Report, Nonconforming> {
    run_with(store, Options::default()).await
}

/// Runs the suite against `store`. Everything it writes lies below a fresh directory, which is emptied at the
/// end, also after a failure.
///
/// # Errors
/// [`Nonconforming`] with the first check that failed.
pub async fn run_with(store: Store, options: Options) -> Result<Report, Nonconforming> {
    let name = format!("conformance-{}", store.env().uuid());
    let meter = Arc::new(Meter::new());
    let root = store.root().clone().join(name);
    let store = Store::new(Arc::clone(store.inner()), root, Arc::clone(store.env()), store.retry())
        .with_meter(Arc::clone(&meter));
    let bench = Bench { store, options };
    let checked = bench.check_all().await;
    let swept = bench.sweep().await;
    let checks = checked?;
    swept?;
    Ok(Report { checks, requests: meter.snapshot() })
}

/// What checks work with.
#[derive(Debug)]
pub(super) struct Bench {
    pub store: Store,
    pub options: Options,
}

impl Bench {
    async fn check_all(&self) -> Result<Vec<CheckReport>, Nonconforming> {
        Ok(vec![
            basics::what_is_put_is_got_and_listed_at_once(self).await?,
            basics::what_is_not_there_is_none_and_not_an_error(self).await?,
            basics::listings_stop_at_their_directory(self).await?,
            basics::deleting_is_idempotent_and_frees_the_name(self).await?,
            races::of_racing_creators_exactly_one_wins(self).await?,
            races::creators_of_the_same_bytes_all_win(self).await?,
            races::of_racing_creators_exactly_one_wins_while_answers_are_lost(self).await?,
            races::no_record_of_a_register_is_lost_or_doubled(self).await?,
            races::no_record_of_a_register_is_lost_or_doubled_while_answers_are_lost(self).await?,
        ])
    }

    /// Deletes what the checks wrote. Background writes (version hints, late writes) get some time to end,
    /// and are deleted when they come even later.
    async fn sweep(&self) -> Result<(), Nonconforming> {
        let check = "sweep";
        let mut left = Vec::new();
        for _ in 0..SWEEPS {
            self.store.env().sleep(SETTLE).await;
            left = self.store.list("").await.map_err(storage(check))?;
            if left.is_empty() {
                return Ok(());
            }
            for object in &left {
                self.store.delete(&object.path).await.map_err(storage(check))?;
            }
        }
        Err(violation(check, format!("{left:?} is listed after it was deleted")))
    }

    /// The store under test seen through [`Lossy`], with patience.
    pub fn lossy(&self) -> (Store, Lossy) {
        let lossy = Lossy::new(Arc::clone(self.store.inner()), Arc::clone(self.store.env()));
        let env = Arc::clone(self.store.env());
        let store = Store::new(Arc::new(lossy.clone()), self.store.root().clone(), env, LOSSY_RETRY)
            .with_meter(Arc::clone(self.store.meter()));
        (store, lossy)
    }

    /// Runs `tasks` at the same time, each as a task of its own, and hands back their values in order.
    pub async fn together<T: Send + 'static>(
        &self,
        check: &'static str,
        tasks: Vec<BoxFuture<'static, Result<T, Nonconforming>>>,
    ) -> Result<Vec<T>, Nonconforming> {
        let mut ends = Vec::with_capacity(tasks.len());
        for task in tasks {
            let (sender, end) = oneshot::channel();
            // Nobody listens any more once another task has failed.
            let run = async move { drop(sender.send(task.await)) };
            self.store.env().spawn(check, run.boxed()).detach();
            ends.push(end);
        }
        let mut values = Vec::with_capacity(ends.len());
        for end in ends {
            let ended = end.await.map_err(|_| violation(check, "a task panicked or was dropped"))?;
            values.push(ended?);
        }
        Ok(values)
    }
}

/// A [`Nonconforming::Violation`].
pub(super) fn violation(check: &'static str, found: impl Into<String>) -> Nonconforming {
    Nonconforming::Violation { check, found: found.into() }
}

/// Wraps what the store said while `check` ran.
pub(super) fn storage(check: &'static str) -> impl Fn(StoreError) -> Nonconforming {
    move |source| Nonconforming::Storage { check, source }
}

/// Fails `check` unless `holds`.
pub(super) fn expect(
    check: &'static str,
    holds: bool,
    found: impl FnOnce() -> String,
) -> Result<(), Nonconforming> {
    if holds { Ok(()) } else { Err(violation(check, found())) }
}
