//! Reading all live rows of a snapshot: base, then SSTables, then memtables, newest wins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use headwater_engine::table::{TableError, TableIo};
use headwater_engine::{ReadLevel, ShardError, ShardSnapshot};
use headwater_format::shard_manifest::SsTable;
use headwater_store::env::{Env, SeededProcess};

use super::build::World;
use super::writer::{InFlight, Writer};
use crate::history::{Level, ReadRecord, SessionId};
use crate::rows::{Row, Written};
use crate::table::ModelTables;

/// Tries at reading a file before a read is given up.
const READ_TRIES: usize = 30;
/// Wait between two of them.
const READ_PAUSE: Duration = Duration::from_millis(300);

/// A snapshot and what it showed.
#[derive(Clone, Debug)]
pub struct Held {
    pub(super) snapshot: ShardSnapshot,
    pub(super) rows: Vec<Row>,
}

/// Why a read ended without rows.
pub(super) enum Unread {
    /// Storage did not answer, or the snapshot expired.
    GaveUp,
    /// What was read cannot be: already reported.
    Wrong,
}

impl World {
    /// Reads all live rows in the background, into the history. With `hold`, the snapshot is read once more
    /// after that time and must show the same (P6).
    pub fn read(&self, writer: &Writer, level: Level, hold: Option<Duration>) {
        let (world, reader) = (self.clone(), writer.clone());
        let read = async move { world.read_once(&reader, level, false).await };
        let Writer { process, tables, in_flight, .. } = writer;
        self.in_background("read", process, tables, in_flight, hold, read);
    }

    /// Lets a process read. With `hold`, what it read is read once more after that time.
    pub(super) fn in_background(
        &self,
        name: &'static str,
        process: &SeededProcess,
        tables: &Arc<ModelTables>,
        in_flight: &InFlight,
        hold: Option<Duration>,
        read: impl Future<Output = Option<Held>> + Send + 'static,
    ) {
        let (world, tables, own, in_flight) =
            (self.clone(), Arc::clone(tables), process.clone(), in_flight.enter());
        let work = async move {
            let held = read.await;
            drop(in_flight);
            if let (Some(held), Some(after)) = (held, hold) {
                own.sleep(after).await;
                world.read_again(&tables, &held).await;
            }
        };
        process.spawn(name, work.boxed()).detach();
    }

    /// Reads all live rows into the history. `last`: nothing is in flight, so everything must be seen.
    pub async fn read_once(&self, writer: &Writer, level: Level, last: bool) -> Option<Held> {
        let asked = self.asked(writer.session, level, last);
        let read_level = match level {
            Level::Durable => ReadLevel::Durable,
            Level::Pending => ReadLevel::Pending,
        };
        let snapshot = match writer.shard.snapshot(read_level).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                self.judge_error(&error, "snapshot");
                return None;
            }
        };
        let held = self.record_read(asked, &writer.tables, snapshot).await?;
        self.tally.lock().reads += 1;
        Some(held)
    }

    /// A read that begins now.
    pub(super) fn asked(&self, session: SessionId, level: Level, last: bool) -> ReadRecord {
        let (invoked, invoked_at) = (self.history.lock().tick(), self.machine.now());
        let (tip, rows) = (self.audit.tip(), Vec::new());
        ReadRecord { session, level, invoked, invoked_at, returned: invoked, tip, rows, fresh: false, last }
    }

    /// Reads all live rows of a snapshot into the history. Called when it was taken, without an await in
    /// between: that is the moment it shows.
    pub(super) async fn record_read(
        &self,
        asked: ReadRecord,
        tables: &ModelTables,
        snapshot: ShardSnapshot,
    ) -> Option<Held> {
        let (returned, tip) = (self.history.lock().tick(), self.audit.tip());
        let rows = self.collect(tables, &snapshot).await.ok()?;
        self.history.lock().reads.push(ReadRecord { returned, tip, rows: rows.clone(), ..asked });
        Some(Held { snapshot, rows })
    }

    pub(super) async fn read_again(&self, tables: &ModelTables, held: &Held) {
        if let Ok(again) = self.collect(tables, &held.snapshot).await {
            self.tally.lock().rereads += 1;
            if again != held.rows {
                let (seq, before, now) = (held.snapshot.seq(), held.rows.len(), again.len());
                self.report("P6", format!("snapshot {seq} showed {before} rows, now shows {now} or others"));
            }
        }
    }

    /// All live rows at the snapshot, sorted.
    pub(super) async fn collect(
        &self,
        tables: &ModelTables,
        snapshot: &ShardSnapshot,
    ) -> Result<Vec<Row>, Unread> {
        let keyed = self.rows.key().is_some();
        let mut sources = vec![self.base(tables).await?];
        let sstables = snapshot.sstables().map_err(|error| self.too_old(&error))?;
        for sstable in sstables {
            sources.push(self.sstable(tables, sstable).await?.to_vec());
        }
        let memtables = snapshot.memtables().map_err(|error| self.too_old(&error))?;
        let below = sources.len();
        for memtable in memtables {
            let batches = memtable.visible(snapshot.seq()).map_err(|violation| {
                self.report("P13", violation.to_string());
                Unread::Wrong
            })?;
            let mut rows = Vec::new();
            for batch in &batches {
                rows.extend(self.decode(batch)?);
            }
            sources.push(rows);
        }
        let fresh = newest(keyed, sources.get(below..).unwrap_or_default());
        self.check_live(snapshot, &fresh)?;
        for rows in &sources {
            self.check_unique(keyed, rows);
        }
        Ok(newest(keyed, &sources))
    }

    fn too_old(&self, error: &ShardError) -> Unread {
        self.judge_error(error, "old snapshot");
        Unread::GaveUp
    }

    /// P4: `live_rows` of the snapshot are the live rows of its memtables.
    fn check_live(&self, snapshot: &ShardSnapshot, expected: &[Row]) -> Result<(), Unread> {
        let batches = match snapshot.live_rows() {
            Ok(batches) => batches,
            Err(error) => {
                self.judge_error(&error, "live rows");
                return Err(Unread::GaveUp);
            }
        };
        let mut live = Vec::new();
        for batch in &batches {
            live.extend(self.decode(batch)?);
        }
        live.sort_unstable();
        if live != expected {
            let what = format!("live rows {live:?} of snapshot {}, expected {expected:?}", snapshot.seq());
            self.report("P4", what);
            return Err(Unread::Wrong);
        }
        Ok(())
    }

    /// P4: a source shows one row per key.
    fn check_unique(&self, keyed: bool, rows: &[Row]) {
        let mut keys: Vec<u32> = rows.iter().map(|row| row.key).collect();
        keys.sort_unstable();
        keys.dedup();
        if keyed && keys.len() != rows.len() {
            self.report("P4", format!("a source shows {} rows of {} keys", rows.len(), keys.len()));
        }
    }

    fn decode(&self, batch: &arrow_array::RecordBatch) -> Result<Vec<Row>, Unread> {
        self.rows.read(batch).map_err(|wrong| {
            self.report("P4", format!("a row that was never written: {wrong}"));
            Unread::Wrong
        })
    }

    async fn base(&self, tables: &ModelTables) -> Result<Vec<Row>, Unread> {
        for _ in 0..READ_TRIES {
            match tables.base_rows().await {
                Ok(batches) => {
                    let mut rows = Vec::new();
                    for batch in &batches {
                        rows.extend(self.decode(batch)?);
                    }
                    return Ok(rows);
                }
                Err(error) => self.retry_read(&error).await,
            }
        }
        Err(Unread::GaveUp)
    }

    /// The newest row of each key of an SSTable; read from storage once in a run.
    async fn sstable(&self, tables: &ModelTables, sstable: &SsTable) -> Result<Arc<Vec<Row>>, Unread> {
        let known = self.sstables.lock().get(&sstable.path).cloned();
        if let Some(rows) = known {
            return Ok(rows);
        }
        for _ in 0..READ_TRIES {
            match self.read_sstable(tables, sstable).await {
                Ok(batches) => {
                    let mut rows = Vec::new();
                    for batch in &batches {
                        rows.extend(self.decode(batch)?);
                    }
                    let rows = Arc::new(rows);
                    self.sstables.lock().insert(sstable.path.clone(), Arc::clone(&rows));
                    return Ok(rows);
                }
                Err(error) => self.retry_read(&error).await,
            }
        }
        Err(Unread::GaveUp)
    }

    async fn read_sstable(
        &self,
        tables: &ModelTables,
        sstable: &SsTable,
    ) -> Result<Vec<arrow_array::RecordBatch>, TableError> {
        tables.open_sstable(self.shard, sstable).await?.scan().await
    }

    async fn retry_read(&self, error: &TableError) {
        // The auditor knows that every file is there, so a miss can only be damage on the way.
        if matches!(error, TableError::NotFound { .. } | TableError::Invalid { .. }) {
            self.report("P9", format!("reading: {error}"));
        }
        self.machine.sleep(READ_PAUSE).await;
    }

    /// Forgets what was read of SSTables, so that the next read goes to storage.
    pub fn forget_sstables(&self) {
        self.sstables.lock().clear();
    }
}

/// Live rows over sources, oldest first, sorted.
fn newest(keyed: bool, sources: &[Vec<Row>]) -> Vec<Row> {
    let mut rows: Vec<Row> = if keyed {
        let mut newest: BTreeMap<u32, Option<Written>> = BTreeMap::new();
        for row in sources.iter().flatten() {
            newest.insert(row.key, row.written);
        }
        newest
            .into_iter()
            .filter_map(|(key, written)| written.map(|written| Row { key, written: Some(written) }))
            .collect()
    } else {
        sources.iter().flatten().copied().collect()
    };
    rows.sort_unstable();
    rows
}
