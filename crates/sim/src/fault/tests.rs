//! Every fault does what its name says.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt};
use headwater_store::env::{Env, SeededEnv, SeededProcess};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use parking_lot::Mutex;

use super::*;

const WAL: &str = "t/_mem_wal/s/wal/1.arrow";

struct Bench {
    machine: SeededEnv,
    store: FaultStore,
    process: SeededProcess,
    client: Arc<dyn ObjectStore>,
}

fn bench(seed: u64) -> Bench {
    let machine = SeededEnv::new(seed);
    let store = FaultStore::new(&machine);
    let process = machine.process("client");
    let client = store.client(&process);
    Bench { machine, store, process, client }
}

impl Bench {
    fn create(&self, path: &str, bytes: &'static str) -> Result<(), Error> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let (path, payload) = (Path::from(path), PutPayload::from_static(bytes.as_bytes()));
        self.machine.block_on(self.client.put_opts(&path, payload, options)).map(|_| ())
    }

    fn get(&self, path: &str) -> Result<Bytes, Error> {
        let path = Path::from(path);
        self.machine.block_on(async { self.client.get(&path).await?.bytes().await })
    }

    fn script(&self, number: u64, kind: FaultKind) {
        self.store.set_script(Script::new().at(number, kind));
    }

    fn holds(&self, path: &str) -> bool {
        self.store.read(|objects| objects.get(path).is_some())
    }
}

#[test]
fn put_if_absent_is_refused_by_an_object_that_is_there() {
    let bench = bench(1);
    bench.create(WAL, "one").unwrap();
    assert!(matches!(bench.create(WAL, "two"), Err(Error::AlreadyExists { .. })));
    assert_eq!(bench.get(WAL).unwrap(), "one");
    assert!(matches!(bench.get("t/none"), Err(Error::NotFound { .. })));
    assert_eq!(bench.store.requests(), 4);
}

#[test]
fn an_error_before_applies_nothing_and_a_lost_answer_applies() {
    let bench = bench(2);
    bench.script(1, FaultKind::ErrorBefore);
    assert!(matches!(bench.create(WAL, "one"), Err(Error::Generic { .. })));
    assert!(!bench.holds(WAL));
    bench.script(2, FaultKind::AnswerLost);
    assert!(matches!(bench.create(WAL, "one"), Err(Error::Generic { .. })));
    assert!(bench.holds(WAL));
    assert_eq!(bench.store.counts().get(FaultKind::AnswerLost), 1);
}

#[test]
fn a_late_write_is_applied_later_if_its_place_is_still_free() {
    for taken in [false, true] {
        let bench = bench(3);
        bench.script(1, FaultKind::LateApply);
        assert!(bench.create(WAL, "late").is_err());
        assert!(!bench.holds(WAL) || !taken);
        if taken && !bench.holds(WAL) {
            bench.create(WAL, "first").unwrap();
        }
        let expected = if taken && bench.get(WAL).unwrap() == "first" { "first" } else { "late" };
        bench.machine.block_on(bench.machine.sleep(Duration::from_secs(60)));
        assert_eq!(bench.get(WAL).unwrap(), expected);
        assert_eq!(bench.store.counts().get(FaultKind::LateApply), 1);
    }
}

#[test]
fn a_precondition_may_fail_on_ones_own_object_or_on_nothing() {
    let bench = bench(4);
    bench.script(1, FaultKind::OwnPrecondition);
    assert!(matches!(bench.create(WAL, "one"), Err(Error::AlreadyExists { .. })));
    assert!(bench.holds(WAL));
    bench.script(2, FaultKind::SpuriousPrecondition);
    assert!(matches!(bench.create("t/other", "one"), Err(Error::AlreadyExists { .. })));
    assert!(!bench.holds("t/other"));
}

#[test]
fn reads_come_back_short_flipped_empty_or_of_another_object() {
    let bench = bench(5);
    bench.create("t/base", "a base file").unwrap();
    bench.create(WAL, "entry").unwrap();
    for (number, kind) in [
        (3, FaultKind::ShortBody),
        (4, FaultKind::BitFlip),
        (5, FaultKind::EmptyObject),
        (6, FaultKind::WrongObject),
    ] {
        bench.script(number, kind);
        let path = Path::from(WAL);
        let (size, bytes) = bench.machine.block_on(async {
            let answer = bench.client.get(&path).await.unwrap();
            (answer.meta.size, answer.bytes().await.unwrap())
        });
        assert_ne!(bytes, "entry", "{kind}");
        assert_eq!(size != bytes.len() as u64, kind == FaultKind::ShortBody, "{kind}");
        assert_eq!(bench.store.counts().get(kind), 1, "{kind}");
    }
    assert_eq!(bench.get(WAL).unwrap(), "entry");
}

fn listed(bench: &Bench) -> Vec<String> {
    let objects: Vec<_> =
        bench.machine.block_on(bench.client.list(Some(&Path::from("t"))).try_collect()).unwrap();
    objects.into_iter().map(|meta: object_store::ObjectMeta| meta.location.to_string()).collect()
}

#[test]
fn a_stale_listing_lacks_new_objects_and_only_those() {
    let bench = bench(6);
    bench.create("t/old", "x").unwrap();
    bench.machine.jump(Duration::from_secs(60));
    bench.create("t/new", "x").unwrap();
    assert_eq!(listed(&bench), ["t/new", "t/old"]);
    bench.script(4, FaultKind::StaleListing);
    assert_eq!(listed(&bench), ["t/old"]);
    assert_eq!(bench.store.counts().get(FaultKind::StaleListing), 1);
}

#[test]
fn a_paged_listing_may_see_what_is_written_meanwhile() {
    let bench = bench(7);
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        bench.create(&format!("t/{name}"), "x").unwrap();
    }
    bench.script(8, FaultKind::PagedListing);
    assert_eq!(listed(&bench).len(), 7);
    assert_eq!(bench.store.counts().get(FaultKind::PagedListing), 1);
}

#[test]
fn one_level_of_a_listing_has_directories_and_objects() {
    let bench = bench(7);
    for path in ["t/a/1", "t/a/2", "t/b/1", "t/c", "tt/x"] {
        bench.create(path, "x").unwrap();
    }
    let prefix = Path::from("t");
    let level = bench.machine.block_on(bench.client.list_with_delimiter(Some(&prefix))).unwrap();
    assert_eq!(level.common_prefixes, [Path::from("t/a"), Path::from("t/b")]);
    assert_eq!(level.objects.len(), 1);
}

#[test]
fn a_crash_before_applies_nothing_a_crash_after_applies_and_nobody_learns() {
    for (kind, applied) in [(FaultKind::CrashBefore, false), (FaultKind::CrashAfter, true)] {
        let bench = bench(8);
        bench.script(1, kind);
        let client = Arc::clone(&bench.client);
        let told = Arc::new(Mutex::new(false));
        let learns = Arc::clone(&told);
        let task = async move {
            let _ = client.put(&Path::from(WAL), PutPayload::from_static(b"x")).await;
            *learns.lock() = true;
        };
        bench.process.spawn("put", task.boxed()).detach();
        bench.machine.block_on(bench.machine.sleep(Duration::from_secs(60)));
        assert!(!bench.process.is_alive());
        assert_eq!(bench.holds(WAL), applied, "{kind}");
        assert!(!*told.lock());
    }
}

#[test]
fn a_stalled_process_sends_its_write_when_it_wakes() {
    let bench = bench(9);
    bench.script(1, FaultKind::PausedBefore);
    let client = Arc::clone(&bench.client);
    let task = async move {
        client.put(&Path::from(WAL), PutPayload::from_static(b"x")).await.unwrap();
    };
    let task = bench.process.spawn("put", task.boxed());
    bench.machine.block_on(bench.machine.sleep(Duration::from_millis(5)));
    assert!(bench.process.is_paused() || bench.holds(WAL));
    bench.machine.block_on(task).unwrap();
    assert!(bench.holds(WAL) && !bench.process.is_paused());
}

#[test]
fn a_gate_holds_matching_requests_until_it_is_released() {
    let bench = bench(10);
    let gate = bench.store.gate(|request| request.kind == ObjectKind::Wal && request.op.is_write());
    bench.create("t/base", "x").unwrap();
    let client = Arc::clone(&bench.client);
    let task = async move {
        client.put(&Path::from(WAL), PutPayload::from_static(b"x")).await.unwrap();
    };
    let task = bench.process.spawn("put", task.boxed());
    bench.machine.block_on(bench.machine.sleep(Duration::from_secs(3600)));
    assert!(!bench.holds(WAL));
    assert_eq!(gate.held(), 1);
    gate.release();
    bench.machine.block_on(task).unwrap();
    assert!(bench.holds(WAL));
}

#[test]
fn a_full_disk_refuses_writes_until_space_returns() {
    let bench = bench(11);
    bench.store.set_full(true);
    let error = bench.create(WAL, "x").unwrap_err();
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
    assert_eq!(source.unwrap().kind(), std::io::ErrorKind::StorageFull);
    assert!(!bench.holds(WAL));
    bench.store.set_full(false);
    bench.create(WAL, "x").unwrap();
}

/// Puts entries, cuts power, and says which survived: acknowledged ones, and those whose writer died.
fn after_power_cut(seed: u64, fsync: bool) -> (usize, usize) {
    let bench = bench(seed);
    bench.store.set_fsync(fsync);
    for number in 0..4 {
        bench.create(&format!("t/acked/{number}"), "x").unwrap();
        bench.script(bench.store.requests() + 1, FaultKind::CrashAfter);
        let process = bench.machine.process("doomed");
        let (client, path) = (bench.store.client(&process), Path::from(format!("t/applied{number}/0")));
        let put = async move {
            let _ = client.put(&path, PutPayload::from_static(b"x")).await;
        };
        process.spawn("put", put.boxed()).detach();
        bench.machine.block_on(bench.machine.sleep(Duration::from_secs(1)));
    }
    bench.store.power_cut();
    let count = |prefix: &str| bench.store.read(|objects| objects.under(prefix).count());
    (count("t/acked/"), count("t/applied"))
}

#[test]
fn a_power_cut_takes_unsynced_writes_only() {
    let survivors: Vec<_> = (0..20).map(|seed| after_power_cut(seed, true)).collect();
    assert!(survivors.iter().all(|(acked, _)| *acked == 4), "{survivors:?}");
    assert!(survivors.iter().any(|(_, applied)| *applied < 4), "{survivors:?}");
    assert!(survivors.iter().any(|(_, applied)| *applied > 0), "{survivors:?}");
}

#[test]
fn without_fsync_a_power_cut_takes_acknowledged_writes_too() {
    assert!((0..20).any(|seed| after_power_cut(seed, false).0 < 4));
}

#[test]
fn a_power_cut_drops_late_writes_and_restores_what_was_overwritten() {
    let bench = bench(12);
    let path = Path::from("t/hint");
    bench.machine.block_on(bench.client.put(&path, PutPayload::from_static(b"one"))).unwrap();
    bench.script(2, FaultKind::LateApply);
    assert!(bench.create(WAL, "late").is_err());
    let late_already = bench.holds(WAL);
    bench.store.power_cut();
    bench.machine.block_on(bench.machine.sleep(Duration::from_secs(60)));
    assert!(late_already || !bench.holds(WAL));
    assert_eq!(bench.get("t/hint").unwrap(), "one");
}

#[test]
fn every_fault_of_a_request_is_drawn_and_takes_effect() {
    let bench = bench(13);
    bench.store.set_plan(FaultPlan { rate: 700, stalls: 30, crashes: 0 });
    bench.machine.block_on(async {
        for number in 0..900 {
            let path = Path::from(format!("t/_mem_wal/s/wal/{number}.arrow"));
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let _ = bench.client.put_opts(&path, PutPayload::from_static(b"0123456789"), options).await;
            let _ = bench.client.get(&path).await;
            if number % 10 == 0 {
                let _ = bench.client.list(Some(&Path::from("t"))).collect::<Vec<_>>().await;
            }
            if number == 5 {
                let _ = bench.client.put(&Path::from("t/base"), PutPayload::from_static(b"x")).await;
            }
        }
    });
    let machine_wide = [
        FaultKind::CrashBefore,
        FaultKind::CrashAfter,
        FaultKind::DiskFull,
        FaultKind::CrashAnywhere,
        FaultKind::PowerCut,
        FaultKind::ClockJump,
        FaultKind::SecondWriter,
    ];
    assert_eq!(bench.store.counts().missing(), machine_wide);
}

#[test]
fn kinds_of_objects_follow_from_their_place() {
    let of = |path: &str| ObjectKind::of(&format!("db/t.lance/{path}"));
    assert_eq!(of("_mem_wal/s/wal/01.arrow"), ObjectKind::Wal);
    assert_eq!(of("_mem_wal/s/manifest/01.binpb"), ObjectKind::Manifest);
    assert_eq!(of("_mem_wal/s/manifest/version_hint.json"), ObjectKind::Hint);
    assert_eq!(of("_mem_wal/s/00000001_gen_3/data/0.lance"), ObjectKind::SsTable);
    assert_eq!(of("_versions/1.manifest"), ObjectKind::Base);
}
