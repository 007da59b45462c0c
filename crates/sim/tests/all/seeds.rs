//! Many seeds of every scenario, and the proof that everything they are meant to provoke did happen.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use headwater_sim::scenario::{Options, Report, Scenario, run_seed};
use headwater_sim::world::Tally;

/// Runs of one `make test`.
const SEEDS: u64 = 200;
/// Actions of each run at least.
const ACTIONS: u64 = 500;
/// Runs at once; each has a machine of its own.
const THREADS: usize = 2;

/// Scenario and seed of the n-th run: churn twice in seven.
fn nth(number: u64) -> (Scenario, u64) {
    let scenario = match number % 7 {
        0 | 3 => Scenario::Churn,
        1 => Scenario::Fencing,
        2 => Scenario::Counter,
        4 => Scenario::Increment,
        5 => Scenario::Following,
        _ => Scenario::Retry,
    };
    (scenario, 1_000 + number)
}

fn run_all() -> Vec<Report> {
    let next = AtomicU64::new(0);
    let reports = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= SEEDS {
                        return;
                    }
                    let (scenario, seed) = nth(number);
                    let mut report =
                        run_seed(scenario, seed, Options { actions: ACTIONS, ..Options::default() });
                    if !report.failed() {
                        report.events.clear();
                    }
                    reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                }
            });
        }
    });
    let mut reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.sort_by_key(|report| report.seed);
    reports
}

fn check_coverage(tally: &Tally) {
    assert_eq!(tally.faults.missing(), [], "faults that never took effect");
    for reason in ["rows", "bytes", "entries", "wal bytes", "age", "asked", "memory"] {
        assert!(tally.engine(&format!("freeze: {reason}")) > 0, "no memtable was frozen because of {reason}");
    }
    for event in [
        "rotations",
        "flushes",
        "flush failures",
        "replayed entries",
        "replay rotations",
        "backpressure waits",
        "failed conditions",
        "repeated tokens",
    ] {
        assert!(tally.engine(event) > 0, "no {event}");
    }
    for kind in [
        "fenced",
        "poisoned",
        "unknown outcome",
        "unavailable",
        "backpressure",
        "corrupt",
        "conflict",
        "closed",
        "snapshot expired",
        "condition failed",
    ] {
        assert!(tally.errors(kind) > 0, "nobody saw the error {kind}");
    }
    assert!(tally.follows > 500, "hardly any read of a follower");
    assert!(tally.retries > 0 && tally.rereads > 0 && tally.opens > SEEDS, "no retries, rereads or reopens");
    assert!(tally.acked * 4 > tally.writes, "hardly any write is acknowledged, so hardly anything is tested");
}

#[test]
fn two_hundred_seeds_keep_every_promise_and_everything_happens() {
    let reports = run_all();
    let mut tally = Tally::default();
    for report in &reports {
        assert!(report.tally.actions >= ACTIONS || report.failed());
        tally.merge(&report.tally);
    }
    let failed: Vec<&Report> = reports.iter().filter(|report| report.failed()).collect();
    if let Some(first) = failed.first() {
        println!("{first}");
        failed.iter().for_each(|report| println!("{}", report.replay()));
        panic!("{} of {} seeds failed", failed.len(), reports.len());
    }
    println!("{} seeds, {ACTIONS} actions each\n{tally}", reports.len());
    check_coverage(&tally);
}
