//! Every rule of the checker is shown to fail on a history that breaks it, and to pass on the history it came
//! from.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Duration;

use headwater_format::coord::{Epoch, Generation, Seq, WalPosition};

use super::*;
use crate::audit::Entry;
use crate::rows::{Row, Written};
use crate::violation::Violation;

const RULES: Rules = Rules { keyed: true, confirm: Duration::from_secs(5) };

fn live(key: u32, op: u64, part: u32) -> Row {
    Row { key, written: Some(Written { op, part }) }
}

fn dead(key: u32) -> Row {
    Row { key, written: None }
}

fn rows(position: u64, rows: Vec<Row>) -> Entry {
    let generation = Some(Generation::new(1));
    Entry { position: WalPosition::new(position), epoch: Epoch::new(1), generation, rows: Some(rows) }
}

fn sentinel(position: u64) -> Entry {
    Entry { position: WalPosition::new(position), epoch: Epoch::new(1), generation: None, rows: None }
}

fn told(first: u64, rows: u64, position: u64) -> Outcome {
    let (first, position) = (Seq::new(first), WalPosition::new(position));
    Outcome::Acked(Told { first, end: first.plus(rows), position })
}

fn read(history: &mut History, tip: u64, rows: Vec<Row>) {
    let (invoked, returned) = (history.tick(), history.tick());
    history.reads.push(ReadRecord {
        session: 0,
        level: Level::Durable,
        invoked,
        invoked_at: Duration::from_secs(1),
        returned,
        tip: WalPosition::new(tip),
        rows,
        fresh: false,
        last: false,
    });
}

/// Session 0: put 1 of keys 1, 2 at position 2 · put 2 of key 1 at 3 · delete of key 2 at 3 · put 4 lost.
fn good() -> (History, Vec<Entry>) {
    let mut history = History::new(vec![live(9, 900, 0)]);
    let opened = history.tick();
    history.session("writer", opened);
    let second = Duration::from_secs(1);
    let first = history.invoke(0, OpKind::Put(vec![1, 2]));
    history.resolve(first, told(1, 2, 2), second);
    read(&mut history, 2, vec![live(9, 900, 0), live(1, 1, 0), live(2, 1, 1)]);
    let second_put = history.invoke(0, OpKind::Put(vec![1]));
    let delete = history.invoke(0, OpKind::Delete(vec![2]));
    history.resolve(second_put, told(3, 1, 3), second);
    history.resolve(delete, told(4, 1, 3), second);
    let lost = history.invoke(0, OpKind::Put(vec![5]));
    history.resolve(lost, Outcome::Unknown, second);
    read(&mut history, 3, vec![live(9, 900, 0), live(1, 2, 0)]);
    let entries =
        vec![sentinel(1), rows(2, vec![live(1, 1, 0), live(2, 1, 1)]), rows(3, vec![live(1, 2, 0), dead(2)])];
    (history, entries)
}

fn invariants(history: &History, entries: &[Entry]) -> Vec<&'static str> {
    let mut ids: Vec<_> =
        check(history, entries, &RULES).iter().map(|violation: &Violation| violation.invariant).collect();
    ids.dedup();
    ids
}

#[test]
fn a_true_history_passes() {
    let (history, entries) = good();
    assert_eq!(check(&history, &entries, &RULES), []);
}

#[test]
fn an_unknown_write_may_be_there_or_not() {
    let (mut history, mut entries) = good();
    entries.push(rows(4, vec![live(5, 4, 0)]));
    read(&mut history, 4, vec![live(9, 900, 0), live(1, 2, 0), live(5, 4, 0)]);
    assert_eq!(check(&history, &entries, &RULES), []);
}

#[test]
fn an_unknown_write_that_vanishes_again_breaks_p6() {
    let (mut history, mut entries) = good();
    entries.push(rows(4, vec![live(5, 4, 0)]));
    read(&mut history, 4, vec![live(9, 900, 0), live(1, 2, 0), live(5, 4, 0)]);
    read(&mut history, 4, vec![live(9, 900, 0), live(1, 2, 0)]);
    assert_eq!(invariants(&history, &entries), ["P6"]);
}

#[test]
fn an_acknowledged_put_that_is_not_in_the_wal_breaks_p1() {
    let (history, mut entries) = good();
    entries[1] = sentinel(2);
    assert!(invariants(&history, &entries).contains(&"P1"));
}

#[test]
fn an_acknowledged_delete_that_is_not_in_the_wal_breaks_p1() {
    let (history, mut entries) = good();
    entries[2] = rows(3, vec![live(1, 2, 0)]);
    assert!(invariants(&history, &entries).contains(&"P1"));
}

#[test]
fn a_delete_at_another_seq_than_it_was_told_breaks_p1() {
    let (history, mut entries) = good();
    entries[2] = rows(3, vec![live(1, 2, 0), dead(7), dead(2)]);
    assert!(invariants(&history, &entries).contains(&"P1"));
}

#[test]
fn a_read_without_an_acknowledged_row_breaks_p1() {
    let (mut history, entries) = good();
    read(&mut history, 3, vec![live(9, 900, 0)]);
    assert_eq!(invariants(&history, &entries), ["P1"]);
}

#[test]
fn a_read_of_a_row_that_is_not_durable_breaks_p2() {
    let (mut history, entries) = good();
    read(&mut history, 3, vec![live(9, 900, 0), live(1, 2, 0), live(5, 4, 0)]);
    assert_eq!(invariants(&history, &entries), ["P2"]);
}

#[test]
fn a_refused_put_in_the_wal_breaks_p2() {
    let (mut history, mut entries) = good();
    history.ops.get_mut(&4).unwrap().outcome = Outcome::Refused;
    entries.push(rows(4, vec![live(5, 4, 0)]));
    assert_eq!(invariants(&history, &entries), ["P2"]);
}

#[test]
fn a_put_nobody_sent_breaks_p2() {
    let (history, mut entries) = good();
    entries.push(rows(4, vec![live(5, 77, 0)]));
    assert_eq!(invariants(&history, &entries), ["P2"]);
}

#[test]
fn half_a_put_breaks_p3() {
    let (history, mut entries) = good();
    entries[1] = rows(2, vec![live(1, 1, 0)]);
    assert!(invariants(&history, &entries).contains(&"P3"));
}

#[test]
fn a_put_over_two_entries_breaks_p3() {
    let (history, mut entries) = good();
    entries[1] = rows(2, vec![live(1, 1, 0)]);
    entries[2] = rows(3, vec![live(2, 1, 1), live(1, 2, 0), dead(2)]);
    assert!(invariants(&history, &entries).contains(&"P3"));
}

#[test]
fn an_older_row_of_a_key_breaks_p4() {
    let (mut history, entries) = good();
    read(&mut history, 3, vec![live(9, 900, 0), live(1, 1, 0)]);
    assert_eq!(invariants(&history, &entries), ["P4"]);
}

#[test]
fn a_deleted_row_that_comes_back_breaks_p4() {
    let (mut history, entries) = good();
    read(&mut history, 3, vec![live(9, 900, 0), live(1, 2, 0), live(2, 1, 1)]);
    assert_eq!(invariants(&history, &entries), ["P4"]);
}

#[test]
fn a_session_that_goes_back_in_time_breaks_p6() {
    let (mut history, mut entries) = good();
    let now = Duration::from_secs(1);
    let other = history.session("other", 0);
    let put = history.invoke(other, OpKind::Put(vec![6]));
    history.resolve(put, told(50, 1, 4), now);
    entries.push(rows(4, vec![live(6, 5, 0)]));
    let newest = vec![live(9, 900, 0), live(1, 2, 0), live(6, 5, 0)];
    read(&mut history, 4, newest);
    read(&mut history, 4, vec![live(9, 900, 0), live(1, 2, 0)]);
    assert_eq!(invariants(&history, &entries), ["P6"]);
}

#[test]
fn a_writer_that_serves_reads_long_after_it_was_fenced_breaks_p1() {
    let (mut history, mut entries) = good();
    let other = history.session("other", 0);
    let put = history.invoke(other, OpKind::Put(vec![6]));
    history.resolve(put, told(50, 1, 4), Duration::from_secs(1));
    entries.push(rows(4, vec![live(6, 5, 0)]));
    read(&mut history, 4, vec![live(9, 900, 0), live(1, 2, 0)]);
    assert_eq!(check(&history, &entries, &RULES), [], "a moment after the other writer's put it may");
    history.reads.last_mut().unwrap().invoked_at = Duration::from_secs(7);
    assert_eq!(invariants(&history, &entries), ["P1"]);
}

#[test]
fn a_new_session_must_see_what_was_acknowledged_before_it_was_opened() {
    let (mut history, entries) = good();
    let opened = history.tick();
    let late = history.session("late", opened);
    read(&mut history, 3, vec![live(9, 900, 0), live(1, 1, 0), live(2, 1, 1)]);
    history.reads.last_mut().unwrap().session = late;
    assert_eq!(invariants(&history, &entries), ["P4"]);
}

#[test]
fn one_position_acknowledged_by_two_writers_breaks_p7() {
    let (mut history, mut entries) = good();
    let other = history.session("other", 0);
    let put = history.invoke(other, OpKind::Put(vec![6]));
    history.resolve(put, told(50, 1, 3), Duration::from_secs(1));
    entries[2].rows.as_mut().unwrap().push(live(6, 5, 0));
    assert!(invariants(&history, &entries).contains(&"P7"));
}

#[test]
fn a_put_at_another_position_than_it_was_told_breaks_p7() {
    let (mut history, entries) = good();
    history.ops.get_mut(&1).unwrap().outcome = told(1, 2, 3);
    assert!(invariants(&history, &entries).contains(&"P7"));
}

#[test]
fn seqs_out_of_the_order_of_the_wal_break_p8() {
    let (mut history, entries) = good();
    history.ops.get_mut(&2).unwrap().outcome = told(30, 1, 3);
    assert!(invariants(&history, &entries).contains(&"P8"));
}

#[test]
fn a_put_that_is_in_the_wal_twice_breaks_p12() {
    let (history, mut entries) = good();
    entries.push(rows(4, vec![live(1, 2, 0)]));
    assert!(invariants(&history, &entries).contains(&"P12"));
}

#[test]
fn without_a_key_a_row_read_twice_breaks_p4() {
    let rules = Rules { keyed: false, ..RULES };
    let mut history = History::new(Vec::new());
    history.session("writer", 0);
    let put = history.invoke(0, OpKind::Put(vec![1, 1]));
    history.resolve(put, told(1, 2, 1), Duration::from_secs(1));
    let entries = [rows(1, vec![live(1, 1, 0), live(1, 1, 1)])];
    read(&mut history, 1, vec![live(1, 1, 0), live(1, 1, 1)]);
    assert_eq!(check(&history, &entries, &rules), []);
    read(&mut history, 1, vec![live(1, 1, 0), live(1, 1, 1), live(1, 1, 1)]);
    assert_eq!(check(&history, &entries, &rules).len(), 1);
}

#[test]
fn a_fresh_read_must_show_what_anybody_was_told_before() {
    let (mut history, mut entries) = good();
    let other = history.session("other", 0);
    let put = history.invoke(other, OpKind::Put(vec![6]));
    history.resolve(put, told(50, 1, 4), Duration::from_secs(1));
    entries.push(rows(4, vec![live(6, 5, 0)]));
    read(&mut history, 4, vec![live(9, 900, 0), live(1, 2, 0)]);
    history.reads.last_mut().unwrap().fresh = true;
    assert_eq!(invariants(&history, &entries), ["P1"]);
}

#[test]
fn a_last_read_must_show_the_whole_wal() {
    let (mut history, mut entries) = good();
    entries.push(rows(4, vec![live(5, 4, 0)]));
    read(&mut history, 4, vec![live(9, 900, 0), live(1, 2, 0)]);
    assert_eq!(check(&history, &entries, &RULES), []);
    history.reads.last_mut().unwrap().last = true;
    assert_eq!(invariants(&history, &entries), ["P1"]);
}

#[test]
fn a_pending_read_may_show_its_own_undurable_rows_and_nobody_elses() {
    let (mut history, entries) = good();
    read(&mut history, 3, vec![live(9, 900, 0), live(1, 2, 0), live(5, 4, 0)]);
    history.reads.last_mut().unwrap().level = Level::Pending;
    assert_eq!(check(&history, &entries, &RULES), []);
    history.reads.last_mut().unwrap().rows.push(live(8, 66, 0));
    assert_eq!(invariants(&history, &entries), ["P2"]);
}

#[test]
fn a_pending_read_that_shows_an_older_row_breaks_p4() {
    let (mut history, entries) = good();
    read(&mut history, 3, vec![live(9, 900, 0), live(1, 1, 0)]);
    history.reads.last_mut().unwrap().level = Level::Pending;
    assert_eq!(invariants(&history, &entries), ["P4"]);
}
