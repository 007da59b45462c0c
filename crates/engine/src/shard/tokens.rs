//! The client tokens a shard remembers, so that a repeated write is answered and not written again (P12).
//!
//! Owns: [`Tokens`]: each token with what became of its write, for as long as the window lasts; who waits for
//! one that is on its way; which covered entries still tell of one ([`Tokens::floor`]). Does not own: the
//! entries that make it last (`format::token`, `wal::recover`). Called by the open and by the conductor.
//!
//! Within a process age is measured by the monotone clock; what an entry says of its age by the wall clock
//! is believed once, at open, and an entry of the future is taken for new.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use headwater_format::coord::{Seq, WalPosition};
use headwater_format::shard_manifest::TokenFloor;
use headwater_format::token::{ClientToken, EntryToken, MAX_TOKEN_BYTES};
use tokio::sync::oneshot;

use crate::budget::Charge;
use crate::error::ShardError;
use crate::settings::TokenSettings;
use crate::shard::ticket::Ack;
use crate::wal::queue::AckSender;

/// What one token is charged: its bytes, and its places in the map and in the queue of those to expire.
const TOKEN_COST: u64 = 192 + MAX_TOKEN_BYTES as u64;

/// See the module.
#[derive(Debug)]
pub(super) struct Tokens {
    window: Duration,
    max: usize,
    /// Ordered, for a client chooses the bytes: no choice of them makes it slow.
    known: BTreeMap<ClientToken, Known>,
    /// When each token expires; ascending but for what was replayed from entries of different clocks.
    order: VecDeque<(Duration, ClientToken)>,
    /// Covered entries that should tell of tokens and could not be read, with when the last of these tokens
    /// expires, and was accepted: another open may read them, so they stay listed.
    unread: BTreeMap<WalPosition, (Duration, u64)>,
    charge: Charge,
}

#[derive(Debug)]
struct Known {
    expires: Duration,
    at_ms: u64,
    fate: Fate,
}

#[derive(Debug)]
enum Fate {
    /// Accepted; these wait for it too.
    Underway(Vec<AckSender>),
    /// Durable.
    Written(Ack),
}

/// What is known of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing, or nothing any more.
    Never,
    /// Its write is on its way to storage.
    Underway,
    /// Its write is durable.
    Written(Ack),
}

/// A token that is known.
#[derive(Debug)]
pub(super) struct Listed {
    pub token: ClientToken,
    /// Told what becomes of its write; none when that is durable.
    pub underway: Option<oneshot::Receiver<Result<Ack, ShardError>>>,
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// The monotone one.
    pub now: Duration,
    /// The one on the wall, in milliseconds since 1970.
    pub wall_ms: u64,
}

impl Tokens {
    /// Nothing remembered. `charge` follows the memory.
    pub fn new(settings: &TokenSettings, charge: Charge) -> Self {
        let window = Duration::from_millis(settings.window_ms);
        let (known, order, unread) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        Self { window, max: settings.max, known, order, unread, charge }
    }

    /// What is known of `token`.
    pub fn seen(&mut self, token: &ClientToken, now: Duration) -> Seen {
        self.expire(now);
        match self.known.get(token) {
            Some(Known { fate: Fate::Underway(_), .. }) => Seen::Underway,
            Some(Known { fate: Fate::Written(ack), expires, .. }) if *expires > now => Seen::Written(*ack),
            _ => Seen::Never,
        }
    }

    /// The tokens that begin with the bytes of `beginning`, in their order.
    pub fn beginning_with(&mut self, beginning: &ClientToken, now: Duration) -> Vec<Listed> {
        let all = self.known.range_mut(beginning.clone()..);
        let these = all.take_while(|(token, _)| token.bytes().starts_with(beginning.bytes()));
        let listed = these.filter_map(|(token, known)| {
            let underway = match &mut known.fate {
                Fate::Underway(waiters) => {
                    let (waiter, told) = oneshot::channel();
                    waiters.push(waiter);
                    Some(told)
                }
                Fate::Written(_) if known.expires > now => None,
                Fate::Written(_) => return None,
            };
            Some(Listed { token: token.clone(), underway })
        });
        listed.collect()
    }

    /// Whether one more would be one too many: a token is never given up for a younger one.
    pub fn full(&self) -> bool {
        self.known.len() >= self.max
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// The write of `token` was accepted.
    pub fn accept(&mut self, token: ClientToken, clocks: Clocks) {
        let expires = clocks.now + self.window;
        self.insert(token, Known { expires, at_ms: clocks.wall_ms, fate: Fate::Underway(Vec::new()) });
    }

    /// `waiter` is told what the write under way is told.
    pub fn wait(&mut self, token: &ClientToken, waiter: AckSender) {
        if let Some(Known { fate: Fate::Underway(waiters), .. }) = self.known.get_mut(token) {
            waiters.push(waiter);
        }
    }

    /// The write of `token` is durable.
    pub fn written(&mut self, token: &ClientToken, ack: Ack) {
        let Some(known) = self.known.get_mut(token) else { return };
        if let Fate::Underway(waiters) = std::mem::replace(&mut known.fate, Fate::Written(ack)) {
            for waiter in waiters {
                let _ = waiter.send(Ok(ack));
            }
        }
    }

    /// The entry at `position` lists `tokens`. `first` is the `Seq` of its first row; none when its rows are
    /// in SSTables, where they have no `Seq` of this process: every snapshot sees them, so the
    /// acknowledgement then spans nothing, at the very beginning.
    pub fn replayed(
        &mut self,
        tokens: Vec<EntryToken>,
        position: WalPosition,
        first: Option<Seq>,
        at: Clocks,
    ) {
        for EntryToken { token, first: row, rows, at_ms } in tokens {
            let age = Duration::from_millis(at.wall_ms.saturating_sub(at_ms));
            let Some(left) = self.window.checked_sub(age).filter(|left| !left.is_zero()) else { continue };
            let (first, end) = match first {
                Some(first) => (first.plus(row), first.plus(row).plus(rows)),
                None => (Seq::new(1), Seq::new(1)),
            };
            let fate = Fate::Written(Ack { first, end, position });
            self.insert(token, Known { expires: at.now + left, at_ms, fate });
        }
    }

    /// The entry at `position`, which tells of tokens accepted until `newest_ms`, could not be read.
    pub fn unread(&mut self, position: WalPosition, newest_ms: u64, at: Clocks) {
        let age = Duration::from_millis(at.wall_ms.saturating_sub(newest_ms));
        self.unread.insert(position, (at.now + self.window.saturating_sub(age), newest_ms));
    }

    /// Where entries up to `covered` tell of tokens that are alive, for the manifest that covers them.
    pub fn floor(&self, covered: WalPosition, now: Duration) -> Option<TokenFloor> {
        let alive = self.known.values().filter(|known| known.expires > now);
        let (mut entries, mut newest_ms) = (BTreeSet::new(), 0);
        for known in alive {
            if let Fate::Written(ack) = &known.fate
                && ack.position <= covered
            {
                entries.insert(ack.position);
                newest_ms = newest_ms.max(known.at_ms);
            }
        }
        for (position, (expires, at_ms)) in &self.unread {
            if *expires > now && *position <= covered {
                entries.insert(*position);
                newest_ms = newest_ms.max(*at_ms);
            }
        }
        TokenFloor::of(entries, newest_ms)
    }

    /// The writer is over: who waits is told, nothing is remembered, and the memory is free.
    pub fn stop(&mut self, error: &ShardError) {
        self.order.clear();
        self.charge.set(0);
        for (_, known) in std::mem::take(&mut self.known) {
            let Fate::Underway(waiters) = known.fate else { continue };
            for waiter in waiters {
                let _ = waiter.send(Err(error.clone()));
            }
        }
    }

    fn insert(&mut self, token: ClientToken, known: Known) {
        self.order.push_back((known.expires, token.clone()));
        self.known.insert(token, known);
        self.recharge();
    }

    /// Forgets what has expired. A write under way is never forgotten.
    fn expire(&mut self, now: Duration) {
        let before = self.order.len();
        while let Some((expires, token)) = self.order.front().filter(|(expires, _)| *expires <= now) {
            match self.known.get(token) {
                Some(Known { fate: Fate::Underway(_), .. }) => break,
                // A later write may have taken the same token anew.
                Some(known) if known.expires == *expires => drop(self.known.remove(token)),
                _ => {}
            }
            self.order.pop_front();
        }
        if self.order.len() < before {
            self.recharge();
        }
    }

    fn recharge(&self) {
        self.charge.set(self.order.len() as u64 * TOKEN_COST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MemoryBudget;

    const WINDOW: u64 = 1_000;

    fn tokens(max: usize) -> Tokens {
        Tokens::new(&TokenSettings { window_ms: WINDOW, max }, MemoryBudget::new(1 << 20).charge(0))
    }

    fn token(name: &str) -> ClientToken {
        ClientToken::new(name.as_bytes()).unwrap()
    }

    fn at(ms: u64) -> Clocks {
        Clocks { now: Duration::from_millis(ms), wall_ms: 50_000 + ms }
    }

    fn ack(position: u64) -> Ack {
        Ack { first: Seq::new(position), end: Seq::new(position + 1), position: WalPosition::new(position) }
    }

    fn listed(name: &str, at_ms: u64) -> Vec<EntryToken> {
        vec![EntryToken { token: token(name), first: 2, rows: 3, at_ms }]
    }

    #[test]
    fn a_token_is_remembered_for_its_window_and_its_memory_is_given_back() {
        let mut tokens = tokens(9);
        assert_eq!(tokens.seen(&token("a"), at(0).now), Seen::Never);
        tokens.accept(token("a"), at(0));
        assert_eq!(tokens.seen(&token("a"), at(5_000).now), Seen::Underway, "not forgotten on its way");
        tokens.written(&token("a"), ack(4));
        assert_eq!(tokens.seen(&token("a"), at(999).now), Seen::Written(ack(4)));
        assert!(tokens.charge.bytes() > 0);
        assert_eq!(tokens.seen(&token("a"), at(1_000).now), Seen::Never);
        assert_eq!((tokens.len(), tokens.charge.bytes()), (0, 0));
    }

    #[test]
    fn who_waits_is_told_what_the_first_is_told() {
        for stops in [false, true] {
            let mut tokens = tokens(9);
            tokens.accept(token("a"), at(0));
            let (waiter, mut told) = oneshot::channel();
            tokens.wait(&token("a"), waiter);
            if stops {
                tokens.stop(&ShardError::invalid("over"));
                assert!(told.try_recv().unwrap().is_err());
                assert_eq!(tokens.seen(&token("a"), at(1).now), Seen::Never);
            } else {
                tokens.written(&token("a"), ack(4));
                assert_eq!(told.try_recv().unwrap().unwrap(), ack(4));
            }
        }
    }

    #[test]
    fn a_replayed_token_is_as_old_as_its_entry_says_and_new_when_that_lies_ahead() {
        let mut tokens = tokens(1);
        let position = WalPosition::new(7);
        tokens.replayed(listed("old", 50_000 - WINDOW), position, None, at(0));
        tokens.replayed(listed("half", 50_000 - WINDOW / 2), position, Some(Seq::new(10)), at(0));
        tokens.replayed(listed("ahead", 99_000), position, None, at(0));
        assert_eq!(tokens.seen(&token("old"), at(0).now), Seen::Never);
        let half = Ack { first: Seq::new(12), end: Seq::new(15), position };
        assert_eq!(tokens.seen(&token("half"), at(499).now), Seen::Written(half));
        assert_eq!(tokens.seen(&token("half"), at(500).now), Seen::Never);
        let covered = Ack { first: Seq::new(1), end: Seq::new(1), position };
        assert_eq!(tokens.seen(&token("ahead"), at(999).now), Seen::Written(covered));
        assert_eq!(tokens.seen(&token("ahead"), at(1_000).now), Seen::Never);
        assert!(!tokens.full() && tokens.charge.bytes() == 0, "replay is not limited, and all is forgotten");
    }

    #[test]
    fn the_floor_is_the_first_covered_entry_with_a_token_that_is_alive() {
        let mut tokens = tokens(9);
        for (name, position, ms) in [("a", 3, 0), ("b", 5, 400), ("c", 9, 500)] {
            tokens.accept(token(name), at(ms));
            tokens.written(&token(name), ack(position));
        }
        tokens.accept(token("d"), at(500));
        let floor = |covered, now| tokens.floor(WalPosition::new(covered), at(now).now);
        let floor_of = |entries: &[u64], newest_ms| {
            TokenFloor::of(entries.iter().map(|entry| WalPosition::new(*entry)).collect(), newest_ms)
        };
        assert_eq!(floor(2, 600), None);
        assert_eq!(floor(3, 600), floor_of(&[3], 50_000));
        assert_eq!(floor(8, 600), floor_of(&[3, 5], 50_400));
        assert_eq!(floor(8, 1_000), floor_of(&[5], 50_400), "a has expired");
        assert_eq!(floor(20, 1_499), floor_of(&[9], 50_500));
        assert_eq!(floor(20, 1_500), None);
        // One that could not be read stays listed as long as its tokens may live.
        tokens.unread(WalPosition::new(4), 50_600, at(700));
        let floor = |covered, now| tokens.floor(WalPosition::new(covered), at(now).now);
        assert_eq!(floor(8, 1_000), floor_of(&[4, 5], 50_600));
        assert_eq!(floor(20, 1_599), floor_of(&[4], 50_600));
        assert_eq!(floor(20, 1_600), None);
    }

    #[test]
    fn a_token_taken_anew_outlives_its_first_life() {
        let mut tokens = tokens(2);
        tokens.replayed(listed("new", 50_000), WalPosition::new(1), None, at(0));
        tokens.replayed(listed("old", 50_000 - WINDOW + 10), WalPosition::new(2), None, at(0));
        assert!(tokens.full());
        assert_eq!(tokens.seen(&token("old"), at(20).now), Seen::Never, "behind one that lives");
        tokens.accept(token("old"), at(20));
        tokens.written(&token("old"), ack(9));
        assert_eq!(tokens.seen(&token("old"), at(1_010).now), Seen::Written(ack(9)));
        assert_eq!(tokens.seen(&token("old"), at(1_020).now), Seen::Never);
        assert_eq!(tokens.charge.bytes(), 0);
    }

    #[test]
    fn tokens_are_listed_by_how_they_begin_and_those_on_their_way_can_be_waited_for() {
        let mut tokens = tokens(9);
        for name in ["a1", "b", "b1", "b2", "b3", "c"] {
            tokens.accept(token(name), at(0));
        }
        tokens.written(&token("b2"), ack(4));
        tokens.accept(token("b4"), at(900));
        tokens.written(&token("b4"), ack(5));
        let listed = |tokens: &mut Tokens, ms| tokens.beginning_with(&token("b"), at(ms).now);
        let names = |listed: &[Listed]| {
            listed.iter().map(|listed| (listed.token.clone(), listed.underway.is_some())).collect::<Vec<_>>()
        };
        let now = listed(&mut tokens, 950);
        let all = [("b", true), ("b1", true), ("b2", false), ("b3", true), ("b4", false)];
        assert_eq!(names(&now), all.map(|(name, underway)| (token(name), underway)));
        tokens.written(&token("b1"), ack(7));
        let told = now.into_iter().find(|listed| listed.token == token("b1")).unwrap().underway;
        assert_eq!(told.unwrap().try_recv().unwrap().unwrap(), ack(7));
        assert!(!names(&listed(&mut tokens, 1_000)).contains(&(token("b2"), false)), "it has expired");
    }
}
