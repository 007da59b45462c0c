//! Acknowledgements of a write that may span several shards.
//!
//! Owns: [`TableAck`], [`TableTicket`] and how the answers of several shards become one. Does not own: what
//! makes a part durable (the engine). A write is visible whole or not at all per shard (P3); there is no
//! atomicity across shards, and the error says which of them failed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use headwater_engine::error::ShardError;
use headwater_engine::shard::{Ack, Ticket};
use headwater_format::coord::ShardId;

use crate::error::{Error, PutFailure};

/// The whole write is durable: every successor will replay it (P1).
#[derive(Clone, Debug)]
pub struct TableAck {
    /// What each shard acknowledged, by shard.
    pub shards: Vec<(ShardId, Ack)>,
    /// Rows of the write.
    pub rows: usize,
}

/// A write on its way. Await it for the acknowledgement; dropping it does not take the write back.
#[must_use = "the write is durable only once its ticket says so"]
pub struct TableTicket {
    answer: BoxFuture<'static, Result<TableAck, Error>>,
}

impl Future for TableTicket {
    type Output = Result<TableAck, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.poll_unpin(cx)
    }
}

impl std::fmt::Debug for TableTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableTicket").finish_non_exhaustive()
    }
}

/// One shard's part of a write, after the shard was asked to take it.
#[derive(Debug)]
pub(crate) struct SentPart {
    pub shard: ShardId,
    pub rows: usize,
    pub sent: Result<Ticket, ShardError>,
}

/// The ticket of a write every shard has taken; what came of it when one refused. In the latter case the
/// parts that were taken are awaited first, so that the error says how many rows are durable.
pub(crate) async fn ticket_of(table: &str, parts: Vec<SentPart>) -> Result<TableTicket, Error> {
    let refused = parts.iter().any(|part| part.sent.is_err());
    let answer = settle(table.to_owned(), parts);
    if refused {
        let ack = answer.await?;
        return Ok(TableTicket { answer: futures::future::ready(Ok(ack)).boxed() });
    }
    Ok(TableTicket { answer: answer.boxed() })
}

async fn settle(table: String, parts: Vec<SentPart>) -> Result<TableAck, Error> {
    let shards = parts.len();
    // One shard's answer may come long before the whole write is told of.
    let untold: Vec<_> =
        parts.iter().filter_map(|part| part.sent.as_ref().ok()).map(Ticket::untold).collect();
    let answers = join_all(parts.into_iter().map(|part| async move {
        let answer = match part.sent {
            Ok(ticket) => ticket.await,
            Err(refused) => Err(refused),
        };
        (part.shard, part.rows, answer)
    }))
    .await;
    let mut ack = TableAck { shards: Vec::with_capacity(shards), rows: 0 };
    let mut failures = Vec::new();
    for (shard, rows, answer) in answers {
        match answer {
            Ok(part) => {
                ack.shards.push((shard, part));
                ack.rows += rows;
            }
            Err(error) => failures.push(PutFailure { shard, rows, error }),
        }
    }
    drop(untold);
    outcome(&table, shards, ack, failures)
}

fn outcome(table: &str, shards: usize, ack: TableAck, failures: Vec<PutFailure>) -> Result<TableAck, Error> {
    let Some(first) = failures.first() else { return Ok(ack) };
    let first = Error::shard(table, first.shard, first.error.clone());
    if shards == 1 {
        return Err(first);
    }
    Err(Error::Put { shards, rows_acknowledged: ack.rows, failures, first: Box::new(first) })
}
