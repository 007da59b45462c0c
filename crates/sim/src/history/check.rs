//! Was everything clients were told true, given the WAL as it lies on storage?

use std::collections::BTreeMap;
use std::time::Duration;

use headwater_format::coord::WalPosition;

use super::fold::Fold;
use super::promises::{check_conditions, check_retries};
use super::record::{History, Level, OpKind, OpRecord, Outcome, ReadRecord, SessionId, Told};
use crate::audit::Entry;
use crate::rows::{Row, Written};
use crate::violation::Violation;

/// What the checker must know about the shard.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether newer rows of a key replace older ones.
    pub keyed: bool,
    /// How long a writer may serve reads after it was fenced without noticing.
    pub confirm: Duration,
}

/// Everything in `history` that is not true of the WAL `entries` (in order of their positions).
pub fn check(history: &History, entries: &[Entry], rules: &Rules) -> Vec<Violation> {
    let log = Log::new(entries);
    let mut found = log.check_puts(history);
    found.extend(log.check_acks(history));
    found.extend(check_positions(history));
    found.extend(check_conditions(history, entries));
    found.extend(check_retries(history, entries));
    found.extend(Reads { history, entries, rules, log: &log }.check());
    found
}

/// The rows of the WAL, numbered through from 0.
struct Log {
    rows: Vec<(WalPosition, Row)>,
    /// Places of the rows of each put.
    puts: BTreeMap<u64, Vec<usize>>,
    /// Place of the first row of each entry with rows, and of the row after its last.
    spans: BTreeMap<WalPosition, (usize, usize)>,
}

impl Log {
    fn new(entries: &[Entry]) -> Self {
        let (mut rows, mut puts, mut spans) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for entry in entries {
            let first = rows.len();
            for row in entry.rows.iter().flatten() {
                if let Some(written) = row.written {
                    puts.entry(written.op).or_insert_with(Vec::new).push(rows.len());
                }
                rows.push((entry.position, *row));
            }
            if !entry.is_sentinel() {
                spans.insert(entry.position, (first, rows.len()));
            }
        }
        Self { rows, puts, spans }
    }

    /// P2, P3, P12: what is in the WAL was put by somebody, not refused, whole, in one entry and once.
    fn check_puts(&self, history: &History) -> Vec<Violation> {
        let mut found = Vec::new();
        for (number, places) in &self.puts {
            let Some(op) = history.ops.get(number) else {
                found.push(Violation::new("P2", format!("put {number} is in the WAL, nobody sent it")));
                continue;
            };
            if op.outcome == Outcome::Refused {
                found.push(Violation::new("P2", format!("put {number} was refused and is in the WAL")));
            }
            let keys = op.kind.keys();
            if places.len() > keys.len() {
                let what = format!("put {number} has {} rows in the WAL, not {}", places.len(), keys.len());
                found.push(Violation::new("P12", what));
            } else if !self.is_whole(*number, places, keys) {
                let what =
                    format!("put {number}: {} of {} rows in a row in one entry", places.len(), keys.len());
                found.push(Violation::new("P3", what));
            }
        }
        found
    }

    fn is_whole(&self, number: u64, places: &[usize], keys: &[u32]) -> bool {
        let Some(first) = places.first() else { return keys.is_empty() };
        let position = self.rows.get(*first).map(|(position, _)| *position);
        places.len() == keys.len()
            && keys.iter().zip(0_u32..).zip(*first..).all(|((key, part), place)| {
                let row = Row { key: *key, written: Some(Written { op: number, part }) };
                self.rows.get(place).is_some_and(|(at, found)| Some(*at) == position && *found == row)
            })
    }

    /// P1, P3, P7, P8: acknowledged writes are where their acknowledgement says, and Seqs of one session
    /// follow the order of the WAL.
    fn check_acks(&self, history: &History) -> Vec<Violation> {
        let mut found = Vec::new();
        // How far the Seqs of a session run ahead of the places in the WAL.
        let mut ahead: BTreeMap<SessionId, i128> = BTreeMap::new();
        for (number, op, told) in acked(history) {
            let OpKind::Put(_) = op.kind else { continue };
            let Some(place) = self.puts.get(&number).and_then(|places| places.first()) else {
                let what =
                    format!("put {number} was acknowledged at {} and is not in the WAL", told.position);
                found.push(Violation::new("P1", what));
                continue;
            };
            let at = self.rows.get(*place).map(|(at, _)| *at);
            if at != Some(told.position) {
                let what = format!("put {number} was acknowledged at {}, it is at {at:?}", told.position);
                found.push(Violation::new("P7", what));
            }
            let offset = i128::from(told.first.get()) - *place as i128;
            let known = *ahead.entry(op.session).or_insert(offset);
            if known != offset {
                let what =
                    format!("put {number}: Seq {} is {offset} ahead of the WAL, others {known}", told.first);
                found.push(Violation::new("P8", what));
            }
        }
        for (number, op, told) in acked(history) {
            let keys = op.kind.keys();
            if told.end.get() - told.first.get() != keys.len() as u64 {
                let what =
                    format!("write {number} of {} rows has Seqs {} to {}", keys.len(), told.first, told.end);
                found.push(Violation::new("P3", what));
            }
            if matches!(op.kind, OpKind::Delete(_)) && !self.has_delete(op, told, ahead.get(&op.session)) {
                let what = format!("delete {number} was acknowledged at {} and is not there", told.position);
                found.push(Violation::new("P1", what));
            }
        }
        found
    }

    /// Whether the tombstones of `op` are in the entry it was acknowledged at, at their Seqs when these are
    /// known.
    fn has_delete(&self, op: &OpRecord, told: Told, ahead: Option<&i128>) -> bool {
        let Some((first, end)) = self.spans.get(&told.position).copied() else { return false };
        let keys = op.kind.keys();
        let matches_at = |place: usize| {
            place + keys.len() <= end
                && keys.iter().zip(place..).all(|(key, place)| {
                    self.rows.get(place).is_some_and(|(_, row)| *row == Row { key: *key, written: None })
                })
        };
        match ahead {
            Some(ahead) => usize::try_from(i128::from(told.first.get()) - ahead)
                .is_ok_and(|place| place >= first && matches_at(place)),
            None => (first..end).any(matches_at),
        }
    }
}

fn acked(history: &History) -> impl Iterator<Item = (u64, &OpRecord, Told)> {
    history.ops.iter().filter_map(|(number, op)| match op.outcome {
        Outcome::Acked(told) => Some((*number, op, told)),
        _ => None,
    })
}

/// P7: no position is acknowledged by two writers.
fn check_positions(history: &History) -> Vec<Violation> {
    let mut owners: BTreeMap<WalPosition, SessionId> = BTreeMap::new();
    let mut found = Vec::new();
    for (number, op, told) in acked(history) {
        let owner = *owners.entry(told.position).or_insert(op.session);
        if owner != op.session {
            let what = format!("write {number}: position {} was acknowledged by two writers", told.position);
            found.push(Violation::new("P7", what));
        }
    }
    found
}

/// Judges the reads.
struct Reads<'a> {
    history: &'a History,
    entries: &'a [Entry],
    rules: &'a Rules,
    log: &'a Log,
}

impl Reads<'_> {
    fn check(&self) -> Vec<Violation> {
        let prefixes = Fold::prefixes(self.rules.keyed, &self.history.base, self.entries);
        let mut found = Vec::new();
        let mut seen: BTreeMap<SessionId, usize> = BTreeMap::new();
        // In the order of the moments they show, not of when their rows had been fetched.
        let mut reads: Vec<&ReadRecord> = self.history.reads.iter().collect();
        reads.sort_by_key(|read| read.returned);
        for read in reads {
            if read.level == Level::Pending {
                found.extend(self.check_pending(read));
                continue;
            }
            let before = seen.get(&read.session).copied().unwrap_or_default();
            let end = prefixes.len() - 1;
            let least = if read.last { end } else { self.least(read) };
            let most = (read.tip.get() as usize).min(end);
            let digest = Fold::digest_of(&read.rows);
            let fits = |at: &usize| prefixes.get(*at) == Some(&digest);
            match (least.max(before)..=most).find(fits) {
                Some(at) => {
                    seen.insert(read.session, at);
                }
                None => found.push(self.explain(read, (least..=most).find(fits), least, before, most)),
            }
        }
        found
    }

    /// The shortest prefix `read` may show: everything acknowledged to its own session before, to anybody
    /// before the session was opened, and to anybody longer ago than a fenced writer may serve reads; a fresh
    /// read, everything acknowledged to anybody before.
    fn least(&self, read: &ReadRecord) -> usize {
        let opened = self.history.sessions.get(read.session).map_or(0, |session| session.opened);
        let counts = |session: SessionId, resolved: u64, resolved_at: Duration| {
            let own = (read.fresh || session == read.session) && resolved < read.invoked;
            own || resolved < opened || resolved_at + self.rules.confirm < read.invoked_at
        };
        let first = acked(self.history)
            .filter(|(_, op, _)| {
                op.resolved.zip(op.resolved_at).is_some_and(|(event, at)| counts(op.session, event, at))
            })
            .map(|(_, _, told)| told.position);
        let repeated = self.history.retries.iter();
        let repeated = repeated.filter(|retry| counts(retry.session, retry.resolved, retry.resolved_at));
        let positions = first.chain(repeated.map(|retry| retry.told.position));
        positions.max().map_or(0, |position| position.get() as usize)
    }

    /// Says what is wrong with a read that equals no prefix it may show.
    fn explain(
        &self,
        read: &ReadRecord,
        older: Option<usize>,
        least: usize,
        before: usize,
        most: usize,
    ) -> Violation {
        let name = self.history.sessions.get(read.session).map_or("?", |session| session.name.as_str());
        let who = format!("read of {name} at event {}", read.returned);
        if let Some(at) = older {
            let what = format!("{who} shows the WAL up to {at}, the session had seen it up to {before}");
            return Violation::new("P6", what);
        }
        let ghosts: Vec<&Row> = read.rows.iter().filter(|row| !self.is_logged(row)).collect();
        if !ghosts.is_empty() {
            return Violation::new("P2", format!("{who} shows rows that are not durable: {ghosts:?}"));
        }
        let (missing, extra) = self.difference(read, most);
        let what = format!(
            "{who} equals no state of the WAL between {least} and {most}; \
             against the state at {most} it lacks {missing:?} and shows {extra:?}"
        );
        Violation::new(if extra.is_empty() { "P1" } else { "P4" }, what)
    }

    fn is_logged(&self, row: &Row) -> bool {
        let logged = row.written.is_some_and(|written| self.log.puts.contains_key(&written.op));
        logged || self.history.base.contains(row)
    }

    fn difference(&self, read: &ReadRecord, most: usize) -> (Vec<Row>, Vec<Row>) {
        let covered = self.entries.iter().take_while(|entry| entry.position.get() as usize <= most);
        let rows: Vec<Row> = covered.flat_map(|entry| entry.rows.iter().flatten()).copied().collect();
        let expected: Vec<Row> = if self.rules.keyed {
            let mut fold = Fold::new(true, &self.history.base);
            rows.iter().for_each(|row| fold.apply(*row));
            fold.live().iter().map(|(key, written)| Row { key: *key, written: Some(*written) }).collect()
        } else {
            self.history.base.iter().chain(&rows).copied().collect()
        };
        let missing = expected.iter().filter(|row| !read.rows.contains(row)).copied().collect();
        let extra = read.rows.iter().filter(|row| !expected.contains(row)).copied().collect();
        (missing, extra)
    }

    /// A read of accepted rows: each is durable or its own session's, and none is older than what was
    /// acknowledged to the session before.
    fn check_pending(&self, read: &ReadRecord) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut newest: BTreeMap<u32, usize> = BTreeMap::new();
        if self.rules.keyed {
            let least = self.least(read) as u64;
            for (place, (position, row)) in self.log.rows.iter().enumerate() {
                if position.get() <= least {
                    newest.insert(row.key, place);
                }
            }
        }
        for row in &read.rows {
            let Some(written) = row.written else { continue };
            let own = self.history.ops.get(&written.op).is_some_and(|op| {
                op.session == read.session && op.invoked < read.returned && op.outcome != Outcome::Refused
            });
            if !own && !self.is_logged(row) {
                found.push(Violation::new("P2", format!("a pending read shows {row:?}, which nobody put")));
            }
            let places = self.log.puts.get(&written.op);
            let place = places.and_then(|places| places.get(written.part as usize));
            let base = self.history.base.contains(row);
            if let (Some(newest), true) = (newest.get(&row.key), place.is_some() || base)
                && place.is_none_or(|place| place < newest)
            {
                let what = format!("a pending read shows {row:?}, older than what was acknowledged before");
                found.push(Violation::new("P4", what));
            }
        }
        found
    }
}
