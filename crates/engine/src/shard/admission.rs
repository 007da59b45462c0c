//! The conductor's half that decides whether a put is written at all, in the moment it would be ordered.
//!
//! Owns: what a put with a token seen before is answered (P12), and whether a condition holds (P3). Both are
//! decided within one event, together with the insert, so nothing comes between. Looks only at what is in
//! memory and never waits: what has left memory counts as changed, for a wrong refusal costs a read and a
//! wrong acceptance a lost update.

use headwater_format::coord::WalPosition;

use crate::error::ShardError;
use crate::memtable::BatchKeys;
use crate::plants::Plants;
use crate::shard::conductor::Conductor;
use crate::shard::event::PutRequest;
use crate::shard::ticket::Ack;
use crate::shard::tokens::Seen;
use crate::snapshot::Unchanged;
use crate::wal::queue::{Group, Stamp};

/// What becomes of a put.
enum Verdict {
    Write,
    /// Its token came before: the first one's acknowledgement is its own.
    Repeats(Ack),
    /// Its token came before, and the first is on its way.
    Joins,
    Refuse(ShardError),
}

impl Conductor {
    /// The put, when it is to be written; any other has its answer, or waits for another's.
    pub(super) fn admit(&mut self, request: PutRequest) -> Option<PutRequest> {
        let verdict = self.judge(&request);
        let accepted = |request: &mut PutRequest| {
            let _ = request.accepted.take().map(|told| told.send(()));
        };
        let mut request = request;
        match verdict {
            Verdict::Write if request.prepared.is_empty() => {
                let now = self.shared.lock().tiers.next_seq;
                accepted(&mut request);
                let _ = request.ack.send(Ok(Ack { first: now, end: now, position: WalPosition::ZERO }));
            }
            Verdict::Write => return Some(request),
            Verdict::Repeats(ack) => {
                self.shared.lock().counters.repeated_tokens += 1;
                accepted(&mut request);
                let _ = request.ack.send(Ok(ack));
            }
            Verdict::Joins => {
                self.shared.lock().counters.repeated_tokens += 1;
                accepted(&mut request);
                if let Some(token) = &request.options.token {
                    self.tokens.wait(token, request.ack);
                }
            }
            Verdict::Refuse(error) => {
                let _ = request.ack.send(Err(error));
            }
        }
        None
    }

    fn judge(&mut self, request: &PutRequest) -> Verdict {
        if let Err(error) = self.shared.check_writable() {
            return Verdict::Refuse(error);
        }
        if let Some(token) = &request.options.token {
            match self.tokens.seen(token, self.ctx.now()) {
                Seen::Written(ack) => return Verdict::Repeats(ack),
                Seen::Underway => return Verdict::Joins,
                Seen::Never if self.tokens.full() => return Verdict::Refuse(self.too_many_tokens()),
                Seen::Never => {}
            }
        }
        let unmet = request.options.unchanged.map(|unchanged| self.unmet(&request.prepared.keys, unchanged));
        match unmet.flatten() {
            Some(error) => {
                self.shared.lock().counters.failed_conditions += 1;
                Verdict::Refuse(error)
            }
            None => Verdict::Write,
        }
    }

    /// Why the condition of a put with `keys` does not hold; none when it does.
    fn unmet(&self, keys: &BatchKeys, unchanged: Unchanged) -> Option<ShardError> {
        if self.ctx.parts.plants.has(Plants::ConditionIgnored) {
            return None;
        }
        let failed = |reason| Some(ShardError::ConditionFailed { shard: self.ctx.shard, reason });
        let Unchanged::Since { seq: since, epoch } = unchanged else {
            return failed("the snapshot was taken while others wrote the shard".to_owned());
        };
        let state = self.shared.lock();
        let (oldest, next) = (state.tiers.oldest_seq(), state.tiers.next_seq);
        let reason = if epoch != self.ctx.epoch {
            format!("the snapshot is of the writer of epoch {epoch}, epoch {} writes now", self.ctx.epoch)
        } else if since > next {
            return Some(ShardError::invalid(format!(
                "unchanged since Seq {since} cannot be: the next row gets Seq {next}; use a snapshot's Seq"
            )));
        } else if since < oldest {
            format!("rows from Seq {since} to {oldest} have left memory, and any key may be among them")
        } else {
            let row = state.tiers.first_changed(keys, since)?;
            format!("the key in row {row} (counted from 0) was written since Seq {since}")
        };
        failed(reason)
    }

    fn too_many_tokens(&self) -> ShardError {
        ShardError::Backpressure {
            shard: self.ctx.shard,
            what: "client tokens",
            used: self.tokens.len() as u64,
            limit: self.ctx.settings.tokens.max as u64,
            waited_ms: 0,
        }
    }

    /// Remembers the token of an accepted put.
    pub(super) fn stamp(&mut self, request: &mut PutRequest) -> Option<Stamp> {
        let token = request.options.token.take()?;
        let clocks = self.ctx.clocks();
        self.tokens.accept(token.clone(), clocks);
        Some(Stamp { token, at_ms: clocks.wall_ms })
    }

    /// The puts of `group` are durable at `position`: whoever repeated one of them is told with it.
    pub(super) fn remember(&mut self, group: &Group, position: WalPosition) {
        for put in &group.puts {
            if let Some(stamp) = &put.stamp {
                self.tokens.written(&stamp.token, Ack { first: put.first, end: put.end, position });
            }
        }
    }
}
