//! The conformance suite over memory and local disk, on threads and on the seeded executor; and proof that it
//! fails on stores that are wrong.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use headwater_store::conformance::{Nonconforming, Options, Report, run, run_with};
use headwater_store::env::{EnvRef, SeededEnv, TokioEnv};
use headwater_store::local::local_store;
use headwater_store::{RetryPolicy, Store};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What a passed suite must have done.
pub fn assert_thorough(report: &Report, options: Options) {
    println!("{report}");
    let Options { creators, rounds, records } = options;
    for name in
        ["of_racing_creators_exactly_one_wins", "of_racing_creators_exactly_one_wins_while_answers_are_lost"]
    {
        let check = report.check(name).unwrap();
        assert_eq!(
            (check.rounds, check.winners, check.losers),
            (rounds, rounds, rounds * (creators - 1)),
            "{name}"
        );
    }
    for name in [
        "no_record_of_a_register_is_lost_or_doubled",
        "no_record_of_a_register_is_lost_or_doubled_while_answers_are_lost",
    ] {
        assert_eq!(report.check(name).unwrap().winners, creators * records, "{name}");
    }
    assert_eq!(report.checks.len(), 9);
}

fn threads(inner: Arc<dyn ObjectStore>) -> Store {
    Store::new(inner, Path::from("root"), Arc::new(TokioEnv::new()), RetryPolicy::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_conforms() {
    let report = run(threads(Arc::new(InMemory::new()))).await.unwrap();
    assert_thorough(&report, Options::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn local_disk_with_fsync_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let report = run(threads(local_store(dir.path(), true).unwrap())).await.unwrap();
    assert_thorough(&report, Options::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn local_disk_without_fsync_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let report = run(threads(local_store(dir.path(), false).unwrap())).await.unwrap();
    assert_thorough(&report, Options::default());
}

/// The suite on the seeded executor; also what it left behind.
fn simulated(
    seed: u64,
    inner: Arc<dyn ObjectStore>,
) -> (std::result::Result<Report, Nonconforming>, u64, u64) {
    let env = SeededEnv::new(seed);
    let shared: EnvRef = Arc::new(env.clone());
    let store = Store::new(inner, Path::default(), shared, RetryPolicy::default());
    let options = Options { rounds: 12, records: 3, ..Options::default() };
    let report = env.block_on(async { run_with(store.clone(), options).await });
    if report.is_ok() {
        assert_eq!(env.block_on(store.list("")).unwrap(), [], "the suite leaves nothing behind");
    }
    (report, env.trace(), env.steps())
}

#[test]
fn memory_conforms_under_many_schedules() {
    for seed in 0..25 {
        let (report, ..) = simulated(seed, Arc::new(InMemory::new()));
        report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn a_seed_replays_to_the_same_trace() {
    let run = |seed| {
        let (report, trace, steps) = simulated(seed, Arc::new(InMemory::new()));
        (report.unwrap().checks, trace, steps)
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4).1, run(5).1);
}

/// A store that is wrong in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Put-if-absent replaces what is there.
    LastWins,
    /// Put-if-absent says "done" but leaves the older object.
    SilentlyDropped,
    /// Listings leave out one object.
    ForgetfulList,
    /// Deletes do nothing.
    KeepsDeleted,
}

#[derive(Debug)]
struct WrongStore {
    memory: Arc<InMemory>,
    wrong: Wrong,
}

impl fmt::Display for WrongStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.wrong)
    }
}

#[async_trait]
impl ObjectStore for WrongStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        if self.wrong == Wrong::LastWins {
            options.mode = PutMode::Overwrite;
        }
        let answer = self.memory.put_opts(location, payload, options).await;
        if answer.is_err() && self.wrong == Wrong::SilentlyDropped {
            return Ok(PutResult { e_tag: None, version: None, extensions: Default::default() });
        }
        answer
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.memory.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.memory.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.wrong == Wrong::KeepsDeleted { locations } else { self.memory.delete_stream(locations) }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        use futures::StreamExt;
        let skip = usize::from(self.wrong == Wrong::ForgetfulList);
        self.memory.list(prefix).skip(skip).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.memory.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.memory.copy_opts(from, to, options).await
    }
}

#[test]
fn stores_that_are_wrong_are_found_out() {
    for (wrong, check) in [
        (Wrong::LastWins, "deleting_is_idempotent_and_frees_the_name"),
        (Wrong::SilentlyDropped, "deleting_is_idempotent_and_frees_the_name"),
        (Wrong::ForgetfulList, "what_is_put_is_got_and_listed_at_once"),
        (Wrong::KeepsDeleted, "deleting_is_idempotent_and_frees_the_name"),
    ] {
        let (report, ..) = simulated(1, Arc::new(WrongStore { memory: Arc::default(), wrong }));
        match report {
            Err(Nonconforming::Violation { check: found, .. }) => assert_eq!(found, check, "{wrong:?}"),
            other => panic!("{wrong:?}: {other:?}"),
        }
    }
}
