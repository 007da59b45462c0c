//! Tables that nobody uses are closed.
//!
//! Owns: [`Keep`], and [`choose`], which says which of the open tables are to be closed. Does not own:
//! whether one is in use, and closing it (`service`). A table is in use while a request or its reply
//! holds it.

use std::time::Duration;

/// How long and how many tables are kept open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// How long without a request.
    pub idle: Duration,
    /// How many. More are open while more are in use.
    pub most: usize,
}

impl Keep {
    /// The pause between two looks: a table is closed a little later than it could be.
    pub fn pause(&self) -> Duration {
        (self.idle / 4).clamp(Duration::from_millis(1), Duration::from_secs(60))
    }
}

/// An open table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Open<T> {
    /// When it was used last; none while it is in use.
    pub used: Option<Duration>,
    /// Which.
    pub table: T,
}

/// Which of the `open` tables are to be closed: those not used for too long, and of the others those not used
/// for longest, as long as too many are open.
pub fn choose<T: Ord>(mut open: Vec<Open<T>>, keep: &Keep, now: Duration) -> Vec<T> {
    let excess = open.len().saturating_sub(keep.most);
    // Those in use come first.
    open.sort_unstable();
    let unused = open.into_iter().filter_map(|open| Some((open.used?, open.table))).enumerate();
    let is_chosen = |place: usize, used: Duration| place < excess || now.saturating_sub(used) >= keep.idle;
    unused.filter(|(place, (used, _))| is_chosen(*place, *used)).map(|(_, (_, table))| table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(most: usize, now: u64, open: &[(&'static str, Option<u64>)]) -> Vec<&'static str> {
        let keep = Keep { idle: Duration::from_secs(10), most };
        let open =
            open.iter().map(|(table, used)| Open { used: used.map(Duration::from_secs), table: *table });
        choose(open.collect(), &keep, Duration::from_secs(now))
    }

    #[test]
    fn tables_not_used_for_long_are_closed_and_those_in_use_never() {
        let open = [("a", Some(5)), ("b", None), ("c", Some(6)), ("d", Some(0))];
        assert_eq!(chosen(9, 9, &open), [""; 0]);
        assert_eq!(chosen(9, 15, &open), ["d", "a"]);
        assert_eq!(chosen(9, 1000, &open), ["d", "a", "c"]);
    }

    #[test]
    fn of_too_many_those_are_closed_that_nobody_has_used_for_longest() {
        let open = [("a", Some(5)), ("b", None), ("c", Some(6)), ("d", Some(7))];
        assert_eq!(chosen(4, 8, &open), [""; 0]);
        assert_eq!(chosen(3, 8, &open), ["a"]);
        assert_eq!(chosen(2, 8, &open), ["a", "c"]);
        assert_eq!(chosen(0, 8, &open), ["a", "c", "d"], "what is in use stays");
    }
}
