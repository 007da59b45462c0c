//! What to flush next: a pure decision over values.

use headwater_format::coord::Generation;

/// The oldest frozen memtable, as far as the decision needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// Its generation.
    pub generation: Generation,
    /// Whether every row of it is durable.
    pub durable: bool,
    /// Whether every index it carries, the key index included, has applied every row (lance#9035).
    pub indexed: bool,
}

/// What the flush machinery is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushState {
    /// Nothing; a flush may start.
    Idle,
    /// An attempt runs.
    Running,
    /// The last attempt failed; the next one waits for its timer. Later generations wait behind it
    /// (lance#8293).
    BackingOff,
}

/// The generation to flush now, if any. Only ever the oldest: generations publish in order (P11).
pub fn choose_flush(oldest: Option<Oldest>, state: FlushState) -> Option<Generation> {
    match (oldest, state) {
        (Some(Oldest { generation, durable: true, indexed: true }), FlushState::Idle) => Some(generation),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oldest(durable: bool, indexed: bool) -> Option<Oldest> {
        Some(Oldest { generation: Generation::new(3), durable, indexed })
    }

    #[test]
    fn a_flush_starts_only_when_every_row_is_durable_and_indexed_lance_9035() {
        assert_eq!(choose_flush(oldest(true, true), FlushState::Idle), Some(Generation::new(3)));
        assert_eq!(choose_flush(oldest(true, false), FlushState::Idle), None);
        assert_eq!(choose_flush(oldest(false, true), FlushState::Idle), None);
    }

    #[test]
    fn one_attempt_at_a_time_and_none_while_backing_off() {
        assert_eq!(choose_flush(oldest(true, true), FlushState::Running), None);
        assert_eq!(choose_flush(oldest(true, true), FlushState::BackingOff), None);
        assert_eq!(choose_flush(None, FlushState::Idle), None);
    }
}
