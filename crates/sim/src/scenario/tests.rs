//! The checker of counters is shown to fail.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Duration;

use headwater_format::coord::{Seq, WalPosition};

use super::check_counters;
use crate::history::{History, Level, OpKind, Outcome, ReadRecord, Told};
use crate::rows::{Row, Written};

const CONFIRM: Duration = Duration::from_secs(5);

fn put(history: &mut History) -> u64 {
    let number = history.invoke(0, OpKind::Put(vec![1]));
    let told = Told { first: Seq::new(1), end: Seq::new(2), position: WalPosition::new(1) };
    history.resolve(number, Outcome::Acked(told), Duration::ZERO);
    number
}

fn read(history: &mut History, value: Option<u64>) {
    let (invoked, returned) = (history.tick(), history.tick());
    let rows = value.map(|op| Row { key: 1, written: Some(Written { op, part: 0 }) });
    history.reads.push(ReadRecord {
        session: 0,
        level: Level::Durable,
        invoked,
        invoked_at: Duration::ZERO,
        returned,
        tip: WalPosition::new(1),
        rows: rows.into_iter().collect(),
        fresh: false,
        last: false,
    });
}

fn invariants(history: &History) -> Vec<&'static str> {
    check_counters(history, CONFIRM).iter().map(|violation| violation.invariant).collect()
}

fn history() -> History {
    let mut history = History::new(Vec::new());
    history.session("writer", 0);
    history
}

#[test]
fn a_counter_that_only_rises_passes() {
    let mut history = history();
    read(&mut history, None);
    for _ in 0..3 {
        let number = put(&mut history);
        read(&mut history, Some(number));
    }
    assert_eq!(invariants(&history), [""; 0]);
}

#[test]
fn a_counter_below_what_was_acknowledged_breaks_p1() {
    let mut history = history();
    let first = put(&mut history);
    put(&mut history);
    read(&mut history, Some(first));
    assert_eq!(invariants(&history), ["P1"]);
}

#[test]
fn a_counter_nobody_sent_breaks_p2() {
    let mut history = history();
    put(&mut history);
    read(&mut history, Some(99));
    assert_eq!(invariants(&history), ["P2"]);
}

#[test]
fn a_counter_that_falls_breaks_p6() {
    let mut history = history();
    let acked = put(&mut history);
    let unknown = history.invoke(0, OpKind::Put(vec![1]));
    history.resolve(unknown, Outcome::Unknown, Duration::ZERO);
    read(&mut history, Some(unknown));
    read(&mut history, Some(acked));
    assert_eq!(invariants(&history), ["P6"]);
}
