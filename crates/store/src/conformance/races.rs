//! Checks with many callers at once: creators of one object, writers of one register.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use headwater_format::coord::{ManifestVersion, ShardId, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;
use tokio::sync::Barrier;

use super::lossy::Injected;
use super::report::{CheckReport, Nonconforming};
use super::suite::{Bench, expect, storage, violation};
use crate::put_once::PutOnce;
use crate::register::{Register, RegisterWrite};
use crate::store::Store;

/// The bytes of one creator: long, so that two damaged reads of them hardly ever agree.
fn body(creator: u64) -> Bytes {
    creator.to_be_bytes().repeat(128).into()
}

pub(super) async fn of_racing_creators_exactly_one_wins(bench: &Bench) -> Result<CheckReport, Nonconforming> {
    const CHECK: &str = "of_racing_creators_exactly_one_wins";
    race_creators(CHECK, bench, &bench.store, "race").await
}

pub(super) async fn of_racing_creators_exactly_one_wins_while_answers_are_lost(
    bench: &Bench,
) -> Result<CheckReport, Nonconforming> {
    const CHECK: &str = "of_racing_creators_exactly_one_wins_while_answers_are_lost";
    let (store, lossy) = bench.lossy();
    let report = race_creators(CHECK, bench, &store, "lossy-race").await?;
    with_faults(report, lossy.injected())
}

/// Adds the faults to a report. A race in which not every kind of fault happened has shown nothing.
fn with_faults(report: CheckReport, injected: Injected) -> Result<CheckReport, Nonconforming> {
    let Injected { before, answer_lost, late, reads } = injected;
    let all = [before, answer_lost, late, reads].iter().all(|count| *count > 0);
    expect(report.name, all, || format!("not every kind of fault was injected: {injected:?}"))?;
    Ok(CheckReport { faults: injected.total(), ..report })
}

/// In each round all creators put other bytes to one path. One must be told it won, and its bytes must be
/// there; all others must be told those bytes.
async fn race_creators(
    check: &'static str,
    bench: &Bench,
    store: &Store,
    dir: &str,
) -> Result<CheckReport, Nonconforming> {
    let mut report = CheckReport { name: check, ..CheckReport::default() };
    for round in 0..bench.options.rounds {
        // Every other directory is new, because making directories races too.
        let path = format!("{dir}/{}/{round}", round / 2);
        let outcomes = put_together(check, bench, store, &path, body).await?;
        let there = bench.store.get(&path).await.map_err(storage(check))?;
        let there = there.ok_or_else(|| violation(check, format!("nobody created {path}: {outcomes:?}")))?;
        let mut winners = 0;
        for (creator, outcome) in (0..).zip(&outcomes) {
            match outcome {
                PutOnce::Created if there == body(creator) => winners += 1,
                PutOnce::Exists { found } if *found == there && there != body(creator) => report.losers += 1,
                _ => {
                    let told = summary(outcome);
                    let found =
                        format!("creator {creator} of {path} was told {told}, which is not the truth");
                    return Err(violation(check, found));
                }
            }
        }
        expect(check, winners == 1, || format!("{winners} creators of {path} were told they won"))?;
        report.winners += winners;
        report.rounds += 1;
    }
    Ok(report)
}

fn summary(outcome: &PutOnce) -> String {
    match outcome {
        PutOnce::Created => "created".to_owned(),
        PutOnce::Exists { found } => {
            let head: Vec<_> = found.iter().take(8).collect();
            format!("exists with {} bytes, beginning {head:?}", found.len())
        }
        PutOnce::Unknown { source } => format!("unknown: {source}"),
    }
}

pub(super) async fn creators_of_the_same_bytes_all_win(bench: &Bench) -> Result<CheckReport, Nonconforming> {
    const CHECK: &str = "creators_of_the_same_bytes_all_win";
    let mut report = CheckReport { name: CHECK, ..CheckReport::default() };
    for round in 0..bench.options.rounds.div_ceil(4) {
        let path = format!("same/{round}");
        let outcomes = put_together(CHECK, bench, &bench.store, &path, |_| body(round)).await?;
        let created = outcomes.iter().filter(|outcome| matches!(outcome, PutOnce::Created)).count();
        expect(CHECK, created == outcomes.len(), || format!("{created} of {} were created", outcomes.len()))?;
        report.winners += created as u64;
        report.rounds += 1;
    }
    Ok(report)
}

/// All creators put to `path` at the same time; their outcomes in order.
async fn put_together(
    check: &'static str,
    bench: &Bench,
    store: &Store,
    path: &str,
    bytes: impl Fn(u64) -> Bytes,
) -> Result<Vec<PutOnce>, Nonconforming> {
    let creators = bench.options.creators;
    let start = Arc::new(Barrier::new(usize::try_from(creators).unwrap_or(1)));
    let creator = |number| {
        let (store, path, bytes, start) = (store.clone(), path.to_owned(), bytes(number), Arc::clone(&start));
        async move {
            start.wait().await;
            store.put_once(&path, bytes).await.map_err(storage(check))
        }
        .boxed()
    };
    bench.together(check, (0..creators).map(creator).collect()).await
}

pub(super) async fn no_record_of_a_register_is_lost_or_doubled(
    bench: &Bench,
) -> Result<CheckReport, Nonconforming> {
    const CHECK: &str = "no_record_of_a_register_is_lost_or_doubled";
    race_writers(CHECK, bench, &bench.store).await
}

pub(super) async fn no_record_of_a_register_is_lost_or_doubled_while_answers_are_lost(
    bench: &Bench,
) -> Result<CheckReport, Nonconforming> {
    const CHECK: &str = "no_record_of_a_register_is_lost_or_doubled_while_answers_are_lost";
    let (store, lossy) = bench.lossy();
    let report = race_writers(CHECK, bench, &store).await?;
    with_faults(report, lossy.injected())
}

/// All writers add records to one register: a read, then a write of the next version, again after a lost
/// race. Each record names its writer and counts on from the record before; so what is lost or doubled shows.
async fn race_writers(
    check: &'static str,
    bench: &Bench,
    store: &Store,
) -> Result<CheckReport, Nonconforming> {
    let shard = ShardId::new(store.env().uuid());
    let (creators, records) = (bench.options.creators, bench.options.records);
    let writer = |number: u64| {
        let register = Register::for_shard(store.clone(), shard);
        let id = u32::try_from(number).unwrap_or(u32::MAX);
        write_records(check, register, id, records).boxed()
    };
    let losses = bench.together(check, (0..creators).map(writer).collect()).await?;

    let register = Register::for_shard(bench.store.clone(), shard);
    let last = register.load().await.map_err(storage(check))?;
    let last = last.ok_or_else(|| violation(check, "the register is empty"))?;
    let total = creators * records;
    expect(check, last.version.get() == total && last.last_seen.get() == total, || {
        format!("{total} records were written, the newest is {last:?}")
    })?;
    let mut by_writer: BTreeMap<u32, u64> = BTreeMap::new();
    for version in (1..=total).map(ManifestVersion::new) {
        let record = register.read(version).await.map_err(storage(check))?;
        let record = record.ok_or_else(|| violation(check, format!("version {version} is missing")))?;
        expect(check, record.last_seen.get() == version.get(), || format!("{record:?} was counted wrongly"))?;
        *by_writer.entry(record.shard_spec_id).or_default() += 1;
    }
    let even = by_writer.len() as u64 == creators && by_writer.values().all(|count| *count == records);
    expect(check, even, || format!("each writer wrote {records} records, found by writer: {by_writer:?}"))?;
    let objects = bench.store.list(&path::manifest_dir(shard)).await.map_err(storage(check))?;
    let versions = objects.iter().filter(|object| object.path.ends_with(path::MANIFEST_EXTENSION)).count();
    expect(check, versions as u64 == total, || format!("{versions} versions are listed, not {total}"))?;
    let losers = losses.iter().sum();
    Ok(CheckReport { name: check, rounds: total, winners: total, losers, faults: 0 })
}

/// Adds `count` records; hands back how many races were lost.
async fn write_records(
    check: &'static str,
    register: Register<ShardManifest>,
    writer: u32,
    count: u64,
) -> Result<u64, Nonconforming> {
    let env = Arc::clone(register.store().env());
    let mut losses = 0;
    let mut latest = register.load().await.map_err(storage(check))?;
    for _ in 0..count {
        loop {
            let fresh = || ShardManifest::fresh(register.shard(), 0, BTreeMap::new(), None);
            let mut next = latest.as_deref().map_or_else(fresh, |record| ShardManifest {
                version: record.version.next(),
                ..record.clone()
            });
            next.shard_spec_id = writer;
            next.last_seen = WalPosition::new(next.version.get());
            next.write_id = Some(env.uuid());
            match register.write(&next).await.map_err(storage(check))? {
                RegisterWrite::Written => {
                    latest = Some(Arc::new(next));
                    break;
                }
                RegisterWrite::Lost { latest: newer } => {
                    let passed = newer.version >= next.version;
                    expect(check, passed, || format!("lost version {} to {}", next.version, newer.version))?;
                    losses += 1;
                    latest = Some(newer);
                }
                RegisterWrite::Unknown { source } => {
                    return Err(violation(check, format!("the fate of a record is unknown: {source}")));
                }
            }
        }
    }
    Ok(losses)
}
