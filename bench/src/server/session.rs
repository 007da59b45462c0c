//! A server and its tables, run by run.
//!
//! Owns: [`Session`]: each run has a new table with a write tier and connections that are open already, and
//! what was acknowledged is counted after it. The same for the engine in this process. Does not own: which
//! runs there are (the workloads).

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use bytes::Bytes;
use reqwest::Body;
use serde_json::json;

use crate::bench::Bench;
use crate::data;
use crate::engine::{Limits, OURS};
use crate::place::Place;
use crate::server::client::{Client, chunked};
use crate::server::load::{self, Outcome, Plan};
use crate::server::process::{Process, SLOW_MS, Store};
use crate::server::targets::{Mix, Ping, Puts, Rows, Upserts};
use crate::server::wire::Chunks;

/// Seconds of a closed loop before the clock starts.
const WARM_UP: f64 = 0.3;
/// Rows of tables that are read: half of them in an SSTable, half in the memtable.
const KNOWN: u64 = 20_000;
/// Their first number: no other row has it.
const FIRST_KNOWN: u64 = 1_000_000_000;
/// Rows of a request that writes them.
const KNOWN_EACH: usize = 1_000;

/// How requests follow each other.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// At a rate.
    Open(Plan),
    /// As they are answered.
    Closed {
        /// Connections, or tasks.
        workers: usize,
        /// For how long.
        seconds: f64,
    },
}

impl Pace {
    fn workers(self) -> usize {
        match self {
            Self::Open(plan) => plan.workers,
            Self::Closed { workers, .. } => workers,
        }
    }

    async fn run<T: load::Target>(self, target: &Arc<T>) -> Result<Outcome> {
        match self {
            Self::Open(plan) => load::open(target, plan).await,
            Self::Closed { workers, seconds } => load::closed(target, workers, seconds).await,
        }
    }
}

/// See the module.
pub struct Session {
    process: Process,
    clients: Arc<[Client]>,
    store: Store,
    tables: u64,
}

impl Session {
    /// A server whose memtables are frozen when a run says so, with `connections` to it.
    pub async fn start(bench: &Bench, store: Store, connections: usize) -> Result<Self> {
        Self::with(bench.directory(store == Store::Synced), store, true, connections).await
    }

    /// A server with default limits.
    pub async fn with_default_limits(bench: &Bench) -> Result<Self> {
        Self::with(bench.directory(false), Store::Disk, false, 1).await
    }

    async fn with(directory: &Path, store: Store, raised: bool, connections: usize) -> Result<Self> {
        let process = Process::start(directory, store, raised).await?;
        let clients = Client::several(&process, connections)?.into();
        Ok(Self { process, clients, store, tables: 0 })
    }

    /// Where its tables are.
    pub fn store(&self) -> Store {
        self.store
    }

    /// The server.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// A connection for what is not measured.
    pub fn client(&self) -> Result<&Client> {
        self.clients.first().ok_or_else(|| anyhow::anyhow!("the session has no connection"))
    }

    /// A new, empty table.
    pub async fn plain_table(&mut self) -> Result<String> {
        self.tables += 1;
        let table = format!("t{}", self.tables);
        let none = Chunks::new(&data::marked_schema(), std::iter::empty())?;
        let none = none.collect::<Result<Vec<Bytes>>>()?;
        self.client()?.post(&format!("{table}/create/?mode=create"), chunked(&none)).await?;
        Ok(table)
    }

    /// The same with a write tier.
    pub async fn tiered_table(&mut self) -> Result<String> {
        let table = self.plain_table().await?;
        let spec = json!({ "sharding": { "mode": "unsharded" }, "maintained_indexes": [] });
        self.client()?.post_json(&format!("{table}/enable_rte/"), &spec).await?;
        Ok(table)
    }

    /// Takes a table away.
    pub async fn drop_table(&self, table: &str) -> Result<()> {
        self.client()?.post(&format!("{table}/drop/"), Body::default()).await?;
        Ok(())
    }

    /// Upserts through the server. All rows have to be there afterwards.
    pub async fn upserts(&mut self, rows: &Rows, pace: Pace) -> Result<Outcome> {
        let table = self.tiered_table().await?;
        let (clients, rows) = (Arc::clone(&self.clients), rows.clone());
        let target = Arc::new(Upserts { clients, table: table.clone(), rows });
        let warm = load::closed(&target, pace.workers(), WARM_UP).await?;
        let outcome = pace.run(&target).await?;
        let whole = outcome.errors + warm.errors == 0;
        let wanted = target.rows.distinct(warm.answered.max(outcome.answered));
        self.finish(&table, whole.then_some(wanted)).await?;
        Ok(outcome)
    }

    /// Upserts and queries through the server.
    pub async fn mix(&mut self, rows: &Rows, queries_of_ten: u64, pace: Pace) -> Result<Outcome> {
        let table = self.tiered_table().await?;
        let count = usize::try_from(KNOWN)? / KNOWN_EACH;
        let known = Rows::new(FIRST_KNOWN, count, KNOWN_EACH)?;
        for (number, batch) in known.batches.iter().enumerate() {
            if number == count / 2 {
                self.client()?.post(&format!("{table}/flush/"), Body::default()).await?;
            }
            self.client()?.upsert(&table, chunked(&super::wire::body(batch)?)).await?;
        }
        let (clients, rows) = (Arc::clone(&self.clients), rows.clone());
        let upserts = Upserts { clients, table: table.clone(), rows };
        let known = FIRST_KNOWN..FIRST_KNOWN + KNOWN;
        let target = Arc::new(Mix { upserts, queries_of_ten, known });
        load::closed(&target, pace.workers(), WARM_UP).await?;
        let outcome = pace.run(&target).await?;
        self.finish(&table, None).await?;
        Ok(outcome)
    }

    /// Requests that do nothing.
    pub async fn pings(&self, pace: Pace) -> Result<Outcome> {
        let target = Arc::new(Ping { clients: Arc::clone(&self.clients) });
        load::closed(&target, pace.workers(), WARM_UP).await?;
        pace.run(&target).await
    }

    async fn finish(&self, table: &str, wanted: Option<u64>) -> Result<()> {
        let held = self.client()?.count(table).await?;
        if let Some(wanted) = wanted {
            ensure!(held == wanted, "the table holds {held} rows, {wanted} were acknowledged");
        }
        self.drop_table(table).await
    }

    /// Ends the server.
    pub async fn stop(self) -> Result<()> {
        self.process.stop().await
    }
}

/// The same upserts by `Table::put` in this process.
pub async fn puts(bench: &Bench, store: Store, rows: &Rows, pace: Pace) -> Result<Outcome> {
    let place = match store {
        Store::Disk | Store::Synced => bench.disk(store == Store::Synced)?,
        Store::Slow => Place::bucket(SLOW_MS),
    };
    let writer = OURS.create(&place, Limits::raised(100_000_000, 100_000_000)).await?;
    place.slow(true);
    let target = Arc::new(Puts { writer, rows: rows.clone() });
    let warm = load::closed(&target, pace.workers(), WARM_UP).await?;
    let outcome = pace.run(&target).await?;
    place.slow(false);
    let (held, put) = (target.writer.rows().await?, warm.answered + outcome.answered);
    let wanted = put * rows.each as u64 + 1;
    ensure!(
        held == wanted || outcome.errors + warm.errors > 0,
        "the memtable holds {held} rows, {wanted} were put"
    );
    target.writer.abandon().await?;
    Ok(outcome)
}
