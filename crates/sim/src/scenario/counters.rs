//! The append register, judged from what clients were told alone: storage is not looked at.
//!
//! Each key is written by one client after the other, so its numbers increase. A read never shows less than
//! what was acknowledged before (P1), never a number nobody sent before (P2), and never less than the session
//! saw (P6).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{History, Level, OpRecord, Outcome, ReadRecord, SessionId};
use crate::violation::Violation;

/// Everything a history of counters shows that cannot be.
pub fn check_counters(history: &History, confirm: Duration) -> Vec<Violation> {
    let mut writes: BTreeMap<u32, Vec<(u64, &OpRecord)>> = BTreeMap::new();
    for (number, op) in &history.ops {
        for key in op.kind.keys() {
            writes.entry(*key).or_default().push((*number, op));
        }
    }
    let mut reads: Vec<&ReadRecord> =
        history.reads.iter().filter(|read| read.level == Level::Durable).collect();
    reads.sort_by_key(|read| read.returned);
    let mut seen: BTreeMap<(SessionId, u32), u64> = BTreeMap::new();
    let mut found = Vec::new();
    for read in reads {
        let shown = shown(history, read);
        for (key, ops) in &writes {
            let value = shown.get(key).copied().unwrap_or_default();
            let acked = ops.iter().filter(|(_, op)| counts(history, op, read, confirm));
            let least = acked.map(|(number, _)| *number).max().unwrap_or_default();
            let who = format!("key {key} shows {value} at event {}", read.returned);
            if value < least {
                found.push(Violation::new("P1", format!("{who}, {least} was acknowledged before")));
            }
            let sent = ops.iter().any(|(number, op)| *number == value && op.invoked < read.returned);
            if value > 0 && !sent {
                found.push(Violation::new("P2", format!("{who}, which nobody sent before")));
            }
            let before = seen.entry((read.session, *key)).or_default();
            if value < *before {
                found.push(Violation::new("P6", format!("{who}, the session saw {before} before")));
            }
            *before = (*before).max(value);
        }
    }
    found
}

/// The numbers of a read by key; rows of the base count as 0.
fn shown(history: &History, read: &ReadRecord) -> BTreeMap<u32, u64> {
    let rows = read.rows.iter().filter(|row| !history.base.contains(row));
    rows.filter_map(|row| row.written.map(|written| (row.key, written.op))).collect()
}

fn counts(history: &History, op: &OpRecord, read: &ReadRecord, confirm: Duration) -> bool {
    let (Outcome::Acked(_), Some(resolved), Some(at)) = (op.outcome, op.resolved, op.resolved_at) else {
        return false;
    };
    let opened = history.sessions.get(read.session).map_or(0, |session| session.opened);
    let own = op.session == read.session && resolved < read.invoked;
    own || resolved < opened || at + confirm < read.invoked_at
}
