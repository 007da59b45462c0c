//! What writes with options were promised: that a condition held when the write was ordered, and that a
//! repeated token is answered with the first write. Judged by the order of the WAL alone.

use std::collections::BTreeMap;

use headwater_format::coord::WalPosition;

use super::record::{History, RetryRecord};
use crate::audit::Entry;
use crate::rows::Written;
use crate::violation::Violation;

/// P3: the row of each key right before a conditional put is the one it was decided on. So of increments
/// decided on one row only one is there: the last number is the number of those that are.
pub(super) fn check_conditions(history: &History, entries: &[Entry]) -> Vec<Violation> {
    let base = history.base.iter().map(|row| (row.key, row.written));
    let mut newest: BTreeMap<u32, Option<Written>> = base.collect();
    let mut found = Vec::new();
    for row in entries.iter().flat_map(|entry| entry.rows.iter().flatten()) {
        let before = newest.insert(row.key, row.written).flatten();
        let Some(written) = row.written else { continue };
        let decided_on = history.ops.get(&written.op).and_then(|op| op.decided_on.as_ref());
        let Some(seen) = decided_on.and_then(|seen| seen.get(&row.key)) else { continue };
        let own = before.is_some_and(|before| before.op == written.op);
        if *seen != before && !own {
            let what = format!(
                "put {} of key {} was decided on {seen:?}, in the WAL it follows {before:?}",
                written.op, row.key
            );
            found.push(Violation::new("P3", what));
        }
    }
    found
}

/// P1, P12: a repeated write that was acknowledged is in the WAL, where the acknowledgement says, and that
/// spans its rows or, when they were flushed by an earlier writer, nothing. Once is checked for every put.
pub(super) fn check_retries(history: &History, entries: &[Entry]) -> Vec<Violation> {
    let mut places: BTreeMap<u64, WalPosition> = BTreeMap::new();
    for entry in entries {
        for written in entry.rows.iter().flatten().filter_map(|row| row.written) {
            places.entry(written.op).or_insert(entry.position);
        }
    }
    let mut found = Vec::new();
    for RetryRecord { op, told, .. } in &history.retries {
        let rows = history.ops.get(op).map_or(0, |op| op.kind.keys().len() as u64);
        match places.get(op) {
            None => {
                let what =
                    format!("put {op}, repeated, was acknowledged at {} and is nowhere", told.position);
                found.push(Violation::new("P1", what));
            }
            Some(at) if *at != told.position => {
                let what =
                    format!("put {op}, repeated, was acknowledged at {}, it is at {at}", told.position);
                found.push(Violation::new("P12", what));
            }
            Some(_) => {}
        }
        let span = told.end.get().checked_sub(told.first.get());
        if span != Some(rows) && span != Some(0) {
            let what = format!("put {op} of {rows} rows, repeated, has Seqs {} to {}", told.first, told.end);
            found.push(Violation::new("P3", what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headwater_format::coord::{Epoch, Generation, Seq};

    use super::*;
    use crate::history::{OpKind, Told};
    use crate::rows::Row;

    fn entry(position: u64, op: u64) -> Entry {
        let row = Row { key: 1, written: Some(Written { op, part: 0 }) };
        Entry {
            position: WalPosition::new(position),
            epoch: Epoch::new(1),
            generation: Some(Generation::new(1)),
            rows: Some(vec![row]),
        }
    }

    fn decided(history: &mut History, on: Option<u64>) -> u64 {
        let seen = on.map(|op| Written { op, part: 0 });
        history.invoke_if(0, OpKind::Put(vec![1]), BTreeMap::from([(1, seen)]))
    }

    #[test]
    fn a_lost_update_breaks_p3() {
        let mut history = History::new(Vec::new());
        let first = decided(&mut history, None);
        let second = decided(&mut history, Some(first));
        let lost = decided(&mut history, Some(first));
        let entries = [entry(1, first), entry(2, second)];
        assert!(check_conditions(&history, &entries).is_empty());
        let entries = [entry(1, first), entry(2, second), entry(3, lost)];
        assert_eq!(check_conditions(&history, &entries)[0].invariant, "P3");
    }

    #[test]
    fn a_repeated_put_acknowledged_elsewhere_breaks_p12_and_nowhere_p1() {
        let told = |position: u64| Told {
            first: Seq::new(1),
            end: Seq::new(1),
            position: WalPosition::new(position),
        };
        for (position, there, invariant) in [(2, true, None), (3, true, Some("P12")), (2, false, Some("P1"))]
        {
            let mut history = History::new(Vec::new());
            let op = history.invoke(0, OpKind::Put(vec![1]));
            history.retried(op, 0, told(position), Duration::ZERO);
            let entries = if there { vec![entry(2, op)] } else { Vec::new() };
            let found = check_retries(&history, &entries);
            assert_eq!(found.first().map(|violation| violation.invariant), invariant);
        }
    }
}
