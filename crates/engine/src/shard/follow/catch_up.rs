//! One refresh: what WAL and manifest have that the tail has not.
//!
//! Owns: which requests a refresh makes, in which order, and when it has read enough: everything that was
//! there when it began, and no more than about twice as much, however fast the WAL grows (L6). Does not own:
//! what entries mean (`tail`).

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, join_all, select, try_join, try_join_all};
use headwater_format::coord::WalPosition;
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::WalBody;

use crate::error::ShardError;
use crate::shard::follow::start::Source;
use crate::shard::follow::tail::Tail;
use crate::wal::recover::{Fetched, Recovery};

/// Entries the cursor may have passed over that are read all the same, so that the lineage goes on. Starting
/// again costs the shadows kept by lineage.
const PASSED_OVER: u64 = 256;
/// Entries after which a refresh asks where the WAL ends.
const MANY: u64 = 64;
/// Bytes of entries on their way at once, about.
const IN_FLIGHT: u64 = 64 << 20;
/// How often it is made sure that the shard is the one it was, and that nothing lies behind the end of its
/// WAL.
const CHECK: Duration = Duration::from_secs(60);
/// Positions behind the end that are looked at then.
const AHEAD: u64 = 2;
/// Wait between two looks for room in memory.
const ROOM_PAUSE: Duration = Duration::from_millis(100);

/// How a step of a refresh ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// It goes on from here.
    On,
    /// All that had to be read is read.
    Enough,
    /// What follows is gone, or does not follow: the newest manifest known is where to start.
    Passed,
    /// The shard is not the one it was; nothing that is known of it holds.
    Replaced,
}

/// A refresh under way.
pub(super) struct CatchUp<'a> {
    source: &'a Source,
    tail: &'a mut Tail,
    /// Lets go of what is kept besides the tail, and could be in the way of more rows.
    make_room: &'a (dyn Fn() + Send + Sync),
    wal: Recovery,
    /// Entries asked for at once.
    window: u64,
    /// Where this refresh may end, once it has found many entries.
    bound: Option<WalPosition>,
    /// Entries after which the end is looked for.
    many: WalPosition,
    began: Duration,
    /// Whether the time for a check has come.
    checks: bool,
    /// Whether what lies behind the end is still to be looked at.
    looks_ahead: bool,
}

impl<'a> CatchUp<'a> {
    pub fn new(source: &'a Source, tail: &'a mut Tail, make_room: &'a (dyn Fn() + Send + Sync)) -> Self {
        let many = tail.next.plus(MANY);
        let began = source.now();
        let checks = tail.checked.is_none_or(|checked| began.saturating_sub(checked) >= CHECK);
        let (wal, looks_ahead) = (source.wal(), checks);
        Self { source, tail, make_room, wal, window: 1, bound: None, many, began, checks, looks_ahead }
    }

    /// Reads what is new, and hands over what is published. [`Read::Enough`], or why the reading has to start
    /// again.
    pub async fn run(&mut self) -> Result<Read, ShardError> {
        let mut read = self.first().await?;
        while read == Read::On {
            read = self.step().await?;
        }
        if read == Read::Enough && !self.tail.hand_over()? {
            return Ok(Read::Passed);
        }
        if self.checks {
            self.tail.checked = Some(self.began);
        }
        Ok(read)
    }

    /// The position after the last one read and, when the last answer is too old, the manifest, in one round.
    async fn first(&mut self) -> Result<Read, ShardError> {
        let next = self.tail.next;
        let identify = self.checks && self.tail.checked.is_some();
        if self.is_confirmed() && !identify {
            let found = self.wal.fetch(next).await?;
            return self.take(vec![found]).await;
        }
        let (source, wal) = (self.source, &self.wal);
        let asked = source.now();
        let look = look(source, &self.tail.known.manifest, identify);
        let (looked, found) = try_join(look, wal.fetch(next)).await?;
        match self.looked(asked, looked) {
            Read::On => self.take(vec![found]).await,
            end => Ok(end),
        }
    }

    /// The next window of entries.
    async fn step(&mut self) -> Result<Read, ShardError> {
        let next = self.tail.next;
        if self.bound.is_none() && next >= self.many {
            self.bound = Some(self.find_bound().await?);
        }
        let mut window = self.window;
        if let Some(bound) = self.bound {
            window = window.min(bound.get().saturating_sub(next.get()));
        }
        let fetches = (0..window).map(|ahead| self.wal.fetch(next.plus(ahead)));
        let found: Result<Vec<_>, _> = join_all(fetches).await.into_iter().collect();
        self.take(found?).await
    }

    /// Applies what was found from the next position on.
    async fn take(&mut self, found: Vec<Option<Fetched>>) -> Result<Read, ShardError> {
        let (asked, mut bytes) = (found.len() as u64, 0);
        let first = self.tail.next;
        let last = found.iter().rposition(Option::is_some).map(|last| first.plus(last as u64));
        for fetched in found {
            let Some(fetched) = fetched else {
                let ahead = self.look_ahead().await?;
                return self.at_gap(last.max(ahead)).await;
            };
            bytes += fetched.bytes;
            match self.apply(fetched).await? {
                Read::On => {}
                end => return Ok(end),
            }
        }
        let most = (IN_FLIGHT / (bytes / asked.max(1)).max(1)).min(self.wal.parallel as u64);
        self.window = (self.window * 2).min(most).max(1);
        if self.bound.is_some_and(|bound| self.tail.next >= bound) {
            return self.at_gap(None).await;
        }
        Ok(Read::On)
    }

    async fn apply(&mut self, fetched: Fetched) -> Result<Read, ShardError> {
        let has_rows = matches!(fetched.entry.body, WalBody::Rows { .. });
        let room = if has_rows { self.wait_for_room().await? } else { Read::On };
        match room {
            Read::On => self.tail.apply(fetched.entry, fetched.bytes).map(|()| Read::On),
            end => Ok(end),
        }
    }

    /// Nothing was found at the next position, or nothing has to be read from there on. It is enough unless
    /// the cursor has come this far, or `beyond` shows that the WAL goes on.
    async fn at_gap(&mut self, beyond: Option<WalPosition>) -> Result<Read, ShardError> {
        let beyond = beyond.filter(|beyond| *beyond > self.tail.next);
        if beyond.is_some() || !self.is_confirmed() {
            match self.look_again().await? {
                Read::On => {}
                end => return Ok(end),
            }
        }
        let next = self.tail.next;
        let cursor = self.tail.known.manifest.replay_after;
        let again = if cursor >= next {
            // Written since, or collected.
            self.wal.fetch(next).await?
        } else if let Some(beyond) = beyond {
            // Written since, or a hole (P8).
            Some(self.wal.fetch_known(next, beyond).await?)
        } else {
            return Ok(Read::Enough);
        };
        let Some(fetched) = again else { return Ok(Read::Passed) };
        self.bound = self.bound.map(|bound| bound.max(cursor.next()));
        self.apply(fetched).await
    }

    /// The last of a few positions behind the next one that is written, once in a refresh that checks.
    async fn look_ahead(&mut self) -> Result<Option<WalPosition>, ShardError> {
        if !std::mem::take(&mut self.looks_ahead) {
            return Ok(None);
        }
        let (source, next) = (self.source, self.tail.next);
        let ahead = (1..=AHEAD).map(|step| next.plus(step)).map(|position| async move {
            let written = source.parts.store.exists(&path::wal_path(source.shard, position)).await?;
            Ok::<_, ShardError>(written.then_some(position))
        });
        Ok(try_join_all(ahead).await?.into_iter().flatten().next_back())
    }

    /// A position that was not written when this was asked.
    async fn find_bound(&self) -> Result<WalPosition, ShardError> {
        let mut ahead = MANY;
        loop {
            let position = self.tail.next.plus(ahead);
            if !self.source.parts.store.exists(&path::wal_path(self.source.shard, position)).await? {
                return Ok(position);
            }
            ahead = ahead.saturating_mul(2);
        }
    }

    /// Whether nothing above the cursor that is known can have been collected until now.
    fn is_confirmed(&self) -> bool {
        let lasts = Duration::from_millis(self.source.settings.reads.epoch_confirm_ms);
        let asked = self.tail.known.asked;
        asked.is_some_and(|asked| self.source.now().saturating_sub(asked) <= lasts)
    }

    async fn look_again(&mut self) -> Result<Read, ShardError> {
        let asked = self.source.now();
        let looked = look(self.source, &self.tail.known.manifest, false).await?;
        Ok(self.looked(asked, looked))
    }

    /// Takes note of the answer to a look at the manifest.
    fn looked(&mut self, asked: Duration, looked: Look) -> Read {
        let known = &mut self.tail.known;
        match looked {
            Look::Other => return Read::Replaced,
            Look::Same => {}
            Look::Newer(newer) => {
                let before = &known.manifest;
                let goes_on = newer.writer_epoch >= before.writer_epoch
                    && newer.replay_after >= before.replay_after
                    && newer.current_generation >= before.current_generation;
                if !goes_on {
                    return Read::Replaced;
                }
                known.manifest = newer;
            }
        }
        known.asked = Some(asked);
        let passed = known.manifest.replay_after.get().saturating_sub(self.tail.next.get());
        if passed > PASSED_OVER { Read::Passed } else { Read::On }
    }

    /// Waits until there is memory for more rows (B2). What the writer has flushed meanwhile makes room here,
    /// too.
    async fn wait_for_room(&mut self) -> Result<Read, ShardError> {
        let budget = Arc::clone(&self.source.parts.budget);
        let began = self.source.now();
        let limit = self.source.settings.backpressure.timeout_ms;
        while budget.over() {
            (self.make_room)();
            match self.look_again().await? {
                Read::On if self.tail.known.manifest.replay_after >= self.tail.next => {
                    return Ok(Read::Passed);
                }
                Read::On if !self.tail.hand_over()? => return Ok(Read::Passed),
                Read::On => {}
                end => return Ok(end),
            }
            if !budget.over() {
                break;
            }
            let waited = self.source.now().saturating_sub(began);
            if waited >= Duration::from_millis(limit) {
                let (used, limit) = (budget.used(), budget.limit());
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                return Err(ShardError::Backpressure {
                    shard: self.source.shard,
                    what: "bytes",
                    used,
                    limit,
                    waited_ms,
                });
            }
            budget.press();
            let below = std::pin::pin!(budget.below());
            let (Either::Left(_) | Either::Right(_)) =
                select(below, self.source.parts.env.sleep(ROOM_PAUSE)).await;
        }
        Ok(Read::On)
    }
}

/// What a look at the manifest showed.
enum Look {
    Same,
    Newer(Arc<ShardManifest>),
    /// The version that was known is gone, or says something else.
    Other,
}

/// The newest manifest, if it is newer than `known`; with `identify`, `known` is compared with what is there,
/// too: a shard that was deleted and made again begins at version 1.
async fn look(source: &Source, known: &Arc<ShardManifest>, identify: bool) -> Result<Look, ShardError> {
    let same = async {
        if !identify {
            return Ok(true);
        }
        Ok::<_, ShardError>(source.register.read(known.version).await?.is_some_and(|now| now == *known))
    };
    let newer = async { Ok::<_, ShardError>(source.register.refresh(known.version).await?) };
    Ok(match try_join(same, newer).await? {
        (false, _) => Look::Other,
        (true, None) => Look::Same,
        (true, Some(newer)) => Look::Newer(newer),
    })
}
