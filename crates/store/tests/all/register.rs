//! The register: hints, gaps, damage, lost races, lost answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater_format::coord::{ManifestVersion, ShardId, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;
use headwater_store::env::{Env, SeededEnv};
use headwater_store::{Kind, Register, RegisterWrite, Request, StoreError};
use uuid::Uuid;

use crate::scripted::{OnGet, OnPut, Scripted};

const SHARD: ShardId = ShardId::new(Uuid::from_u128(0x5eed));

struct Bench {
    env: SeededEnv,
    scripted: Scripted,
    register: Register<ShardManifest>,
}

fn bench() -> Bench {
    let (env, scripted) = (SeededEnv::new(3), Scripted::default());
    let register = Register::for_shard(scripted.store(&env), SHARD);
    Bench { env, scripted, register }
}

fn record(version: u64) -> ShardManifest {
    let write_id = Some(Uuid::from_u128(u128::from(version) << 64));
    let mut record = ShardManifest::fresh(SHARD, 1, BTreeMap::new(), write_id);
    record.version = ManifestVersion::new(version);
    record.last_seen = WalPosition::new(version);
    record
}

fn at(version: u64) -> String {
    path::manifest_path(SHARD, ManifestVersion::new(version))
}

impl Bench {
    /// Versions 1 ..= `newest`, without a hint.
    fn with_versions(newest: u64) -> Self {
        let bench = bench();
        for version in 1..=newest {
            bench.scripted.place(&at(version), record(version).encode());
        }
        bench
    }

    fn hint(&self, bytes: &'static str) {
        self.scripted.place(&path::version_hint_path(SHARD), bytes);
    }

    fn load(&self) -> Result<Option<Arc<ShardManifest>>, StoreError> {
        self.env.block_on(self.register.load())
    }

    #[track_caller]
    fn assert_newest(&self, version: u64) {
        let newest = self.load().unwrap().map(|record| record.version.get());
        assert_eq!(newest, Some(version));
    }

    #[track_caller]
    fn assert_corrupt(&self, version: u64) {
        match self.load() {
            Err(StoreError::Corrupt { path, .. }) => assert_eq!(path, at(version)),
            other => panic!("{other:?}"),
        }
    }

    fn write(&self, next: &ShardManifest) -> Result<RegisterWrite<ShardManifest>, StoreError> {
        self.env.block_on(self.register.write(next))
    }

    fn requests(&self) -> u64 {
        self.register.store().meter().snapshot().total().requests
    }

    /// Lets background hint writes end.
    fn settle(&self) {
        self.env.block_on(self.env.sleep(std::time::Duration::from_secs(60)));
    }
}

#[test]
fn a_shard_without_versions_has_no_record() {
    let bench = bench();
    assert_eq!(bench.load().unwrap(), None);
    assert_eq!(bench.env.block_on(bench.register.refresh(ManifestVersion::ZERO)).unwrap(), None);
    bench
        .scripted
        .place(&format!("{}/{}.binpb.tmp.0a1b", path::manifest_dir(SHARD), path::rev64(1)), "left over");
    bench.scripted.place(&format!("{}/unknown", path::manifest_dir(SHARD)), "unknown");
    assert_eq!(bench.load().unwrap(), None);
}

#[test]
fn every_hint_is_tolerated() {
    for hint in [
        "{\"version\":5}",
        "{\"version\":1}",
        "{\"version\":4}",
        "{\"version\":900}",
        "{\"version\":0}",
        "garbage",
        "",
    ] {
        let bench = Bench::with_versions(5);
        bench.hint(hint);
        bench.assert_newest(5);
    }
    Bench::with_versions(5).assert_newest(5);
}

#[test]
fn an_exact_hint_costs_three_requests_and_an_unchanged_refresh_one() {
    let bench = Bench::with_versions(5);
    bench.hint("{\"version\":5}");
    bench.assert_newest(5);
    assert_eq!(bench.requests(), 3);
    let unchanged = bench.env.block_on(bench.register.refresh(ManifestVersion::new(5))).unwrap();
    assert_eq!((unchanged, bench.requests()), (None, 4));
    bench.scripted.place(&at(6), record(6).encode());
    bench.scripted.place(&at(7), record(7).encode());
    let newer = bench.env.block_on(bench.register.refresh(ManifestVersion::new(5))).unwrap();
    assert_eq!(newer.unwrap().version.get(), 7);
}

#[test]
fn a_reader_far_behind_lists_instead_of_probing_every_version() {
    let bench = Bench::with_versions(300);
    bench.hint("{\"version\":2}");
    bench.assert_newest(300);
    assert!(bench.requests() < 30, "{} requests", bench.requests());
}

#[test]
fn a_stale_listing_is_healed_by_probing() {
    let bench = Bench::with_versions(3);
    let newest: &'static str = Box::leak(format!("{}.binpb", path::rev64(3)).into_boxed_str());
    bench.scripted.stale_list(vec![newest]);
    bench.assert_newest(3);
    let middle: &'static str = Box::leak(format!("{}.binpb", path::rev64(2)).into_boxed_str());
    bench.scripted.stale_list(vec![middle]);
    bench.assert_newest(3);
}

/// P8: a hole is an error, not a skip.
#[test]
fn a_missing_version_is_corrupt_and_named() {
    let bench = Bench::with_versions(4);
    bench.scripted.remove(&at(2));
    bench.assert_corrupt(2);
}

#[test]
fn damaged_records_are_corrupt_and_named() {
    let good = record(3).encode();
    let mut other_shard = record(3);
    other_shard.shard_id = ShardId::new(Uuid::from_u128(1));
    let damaged = [
        good.slice(..good.len() / 2),
        good.slice(..0),
        "garbage".into(),
        record(2).encode(),
        other_shard.encode(),
    ];
    for bytes in damaged {
        let bench = Bench::with_versions(2);
        bench.scripted.place(&at(3), bytes);
        bench.assert_corrupt(3);
        bench.hint("{\"version\":2}");
        bench.assert_corrupt(3);
    }
}

#[test]
fn one_damaged_read_is_not_corruption() {
    for damage in [OnGet::Flipped(0), OnGet::Empty, OnGet::Short, OnGet::Error] {
        let bench = Bench::with_versions(3);
        bench.scripted.on_get(&at(3), [damage]);
        bench.assert_newest(3);
    }
}

#[test]
fn a_write_takes_its_version_and_leaves_a_hint() {
    let bench = bench();
    for version in 1..=3 {
        let written = bench.write(&record(version)).unwrap();
        assert!(matches!(written, RegisterWrite::Written), "{written:?}");
    }
    bench.settle();
    assert_eq!(bench.scripted.there(&path::version_hint_path(SHARD)).unwrap(), "{\"version\":3}");
    bench.assert_newest(3);
    assert_eq!(*bench.load().unwrap().unwrap(), record(3));
}

#[test]
fn a_hint_that_cannot_be_written_harms_nothing_and_is_counted() {
    let bench = bench();
    bench.scripted.on_put(&path::version_hint_path(SHARD), [OnPut::ErrorBefore, OnPut::DiskFull]);
    for version in 1..=2 {
        assert!(matches!(bench.write(&record(version)).unwrap(), RegisterWrite::Written));
        bench.settle();
    }
    bench.assert_newest(2);
    let hints = bench.register.store().meter().snapshot().get(Request::Put, Kind::Hint);
    assert_eq!((hints.requests, hints.failed), (2, 2));
}

#[test]
fn the_loser_of_a_race_gets_the_newest_record() {
    let bench = Bench::with_versions(5);
    let mut late = record(4);
    late.write_id = Some(Uuid::from_u128(77));
    match bench.write(&late).unwrap() {
        RegisterWrite::Lost { latest } => assert_eq!(*latest, record(5)),
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.scripted.there(&at(4)), Some(record(4).encode()));
}

/// A claim whose answer was lost is ours, not a lost race (lance#7896).
#[test]
fn a_lost_answer_is_not_a_lost_race() {
    for fault in
        [OnPut::AnswerLost, OnPut::AnswerLostThenExists, OnPut::AppliedAndHangs, OnPut::AppliedThenDenied]
    {
        let bench = Bench::with_versions(3);
        bench.scripted.on_put(&at(4), [fault]);
        let written = bench.write(&record(4)).unwrap();
        assert!(matches!(written, RegisterWrite::Written), "{written:?}");
    }
}

/// A publish whose answer was lost is recognised as done when it is written again.
#[test]
fn an_unknown_write_is_resolved_by_writing_the_same_record_again() {
    let bench = Bench::with_versions(3);
    bench.scripted.on_put(&at(4), [OnPut::AnswerLost]);
    bench.scripted.on_get(&at(4), [OnGet::Error; 16]);
    assert!(matches!(bench.write(&record(4)).unwrap(), RegisterWrite::Unknown { .. }));
    assert!(matches!(bench.write(&record(4)).unwrap(), RegisterWrite::Written));
}

#[test]
fn refused_writes_leave_nothing_and_go_through_later() {
    let bench = Bench::with_versions(1);
    bench.scripted.on_put(&at(2), [OnPut::DiskFull]);
    let error = bench.write(&record(2)).unwrap_err();
    assert!(matches!(&error, StoreError::Full { path, .. } if *path == at(2)), "{error:?}");
    bench.assert_newest(1);
    assert!(matches!(bench.write(&record(2)).unwrap(), RegisterWrite::Written));
}

#[test]
fn what_nobody_could_read_is_not_written() {
    let bench = bench();
    let mut other_shard = record(1);
    other_shard.shard_id = ShardId::new(Uuid::from_u128(1));
    let mut no_generation = record(1);
    no_generation.current_generation = headwater_format::coord::Generation::ZERO;
    for wrong in [record(0), other_shard, no_generation] {
        let error = bench.write(&wrong).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
    }
    assert_eq!(bench.requests(), 0);
}

#[test]
fn losing_to_an_undecodable_version_is_corruption() {
    let bench = Bench::with_versions(1);
    bench.scripted.place(&at(2), "garbage");
    match bench.write(&record(2)) {
        Err(StoreError::Corrupt { path, .. }) => assert_eq!(path, at(2)),
        other => panic!("{other:?}"),
    }
}
