//! What requests are sent to: the server over HTTP, or the engine in this process.
//!
//! Owns: [`Rows`], the batches of a workload with their bodies made beforehand, and the targets. Does not
//! own: when they are sent (`load`).

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use arrow_array::RecordBatch;
use bytes::Bytes;

use crate::data;
use crate::engine::Writer;
use crate::server::client::{Client, chunked};
use crate::server::load::{Kind, Target};
use crate::server::wire;

/// Batches that are sent one after the other, and over again from the first.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Rows of each.
    pub each: usize,
    /// The batches, with Lance's marker on the key.
    pub batches: Arc<[RecordBatch]>,
    bodies: Arc<[Vec<Bytes>]>,
}

impl Rows {
    /// `count` batches of `each` rows, from row number `first` on.
    pub fn new(first: u64, count: usize, each: usize) -> Result<Self> {
        let schema = data::marked_schema();
        let marked = |batch: RecordBatch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec());
        let batches = data::batches(first, count, each)?.into_iter().map(marked);
        let batches: Arc<[RecordBatch]> = batches.collect::<Result<Vec<_>, _>>()?.into();
        let bodies: Vec<_> = batches.iter().map(wire::body).collect::<Result<_>>()?;
        Ok(Self { each, batches, bodies: bodies.into() })
    }

    /// Rows with different keys among the first `requests` batches.
    pub fn distinct(&self, requests: u64) -> u64 {
        requests.min(self.batches.len() as u64) * self.each as u64
    }

    fn body(&self, number: u64) -> Result<&[Bytes]> {
        let index = usize::try_from(number)? % self.bodies.len().max(1);
        Ok(self.bodies.get(index).context("there are no bodies")?)
    }

    fn batch(&self, number: u64) -> Result<&RecordBatch> {
        let index = usize::try_from(number)? % self.batches.len().max(1);
        self.batches.get(index).context("there are no batches")
    }
}

fn of(clients: &[Client], worker: usize) -> Result<&Client> {
    clients.get(worker).context("there are more workers than connections")
}

/// Upserts through the server; each worker has a connection of its own.
pub struct Upserts {
    /// Connections.
    pub clients: Arc<[Client]>,
    /// The table.
    pub table: String,
    /// What is sent.
    pub rows: Rows,
}

impl Target for Upserts {
    async fn send(&self, worker: usize, number: u64) -> Result<()> {
        let body = chunked(self.rows.body(number)?);
        of(&self.clients, worker)?.upsert(&self.table, body).await
    }
}

/// `Table::put` in this process.
pub struct Puts {
    /// The table.
    pub writer: Writer,
    /// What is put.
    pub rows: Rows,
}

impl Target for Puts {
    async fn send(&self, _worker: usize, number: u64) -> Result<()> {
        self.writer.put(self.rows.batch(number)?.clone()).await
    }
}

/// Upserts, and point queries for rows that were there before.
pub struct Mix {
    /// The upserts.
    pub upserts: Upserts,
    /// Of ten requests so many are queries.
    pub queries_of_ten: u64,
    /// The row numbers that are queried.
    pub known: std::ops::Range<u64>,
}

impl Target for Mix {
    fn kind(&self, number: u64) -> Kind {
        let mut state = number;
        if data::mixed(&mut state) % 10 < self.queries_of_ten { Kind::Read } else { Kind::Write }
    }

    async fn send(&self, worker: usize, number: u64) -> Result<()> {
        if self.kind(number) == Kind::Write {
            return self.upserts.send(worker, number).await;
        }
        let (mut state, known) = (!number, self.known.end - self.known.start);
        ensure!(known > 0, "no row is known");
        let row = self.known.start + data::mixed(&mut state) % known;
        of(&self.upserts.clients, worker)?.look_up(&self.upserts.table, data::key(row)).await
    }
}

/// A request that does nothing: what HTTP takes by itself, here and there.
pub struct Ping {
    /// Connections.
    pub clients: Arc<[Client]>,
}

impl Target for Ping {
    async fn send(&self, worker: usize, _number: u64) -> Result<()> {
        of(&self.clients, worker)?.ping().await
    }
}
