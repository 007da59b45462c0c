//! A reader process: follows the shard that others write.

use std::sync::Arc;
use std::time::Duration;

use headwater_engine::budget::MemoryBudget;
use headwater_engine::{Follower, ShardParts, ShardSnapshot};
use headwater_store::env::SeededProcess;

use super::build::World;
use super::reading::Held;
use super::writer::InFlight;
use crate::history::{Level, ReadRecord, SessionId};
use crate::table::ModelTables;

/// A process that reads the shard and never claims it.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The process.
    pub process: SeededProcess,
    /// Its session in the history.
    pub session: SessionId,
    /// What it has read.
    pub follower: Arc<Follower>,
    /// The table as the process sees it.
    pub tables: Arc<ModelTables>,
    /// Its memory.
    pub budget: Arc<MemoryBudget>,
    /// Reads under way.
    pub in_flight: InFlight,
}

impl World {
    /// A new process that follows the shard.
    pub fn follow(&self, name: &str) -> Option<Reader> {
        let process = self.machine.process(name);
        let opened = self.history.lock().tick();
        let tables = Arc::new(ModelTables::new(self.files(&process)));
        let budget = MemoryBudget::new(self.config.budget);
        let parts = ShardParts {
            store: self.client(&process),
            table: Arc::clone(&tables) as _,
            env: process.env(),
            budget: Arc::clone(&budget),
            indexes: Vec::new(),
            plants: self.config.plants,
        };
        match Follower::open(self.shard, parts, self.config.settings.clone()) {
            Ok(follower) => {
                let session = self.history.lock().session(name, opened);
                let (follower, in_flight) = (Arc::new(follower), InFlight::default());
                Some(Reader { process, session, follower, tables, budget, in_flight })
            }
            Err(error) => {
                self.judge_error(&error, "follow");
                None
            }
        }
    }

    /// Reads all live rows in the background, into the history, as [`World::follow_once`] does. With `hold`,
    /// the snapshot is read once more after that time and must show the same (P6).
    pub fn read_followed(&self, reader: &Reader, max_staleness: Duration, hold: Option<Duration>) {
        let (world, followed) = (self.clone(), reader.clone());
        let read = async move { world.follow_once(&followed, max_staleness, false).await };
        let Reader { process, tables, in_flight, .. } = reader;
        self.in_background("follow", process, tables, in_flight, hold, read);
    }

    /// Reads all live rows into the history, at most `max_staleness` old; zero: everything acknowledged
    /// before must be there. `last`: nothing is in flight, so everything must be.
    pub async fn follow_once(&self, reader: &Reader, max_staleness: Duration, last: bool) -> Option<Held> {
        let asked = self.asked(reader.session, Level::Durable, last);
        let snapshot: ShardSnapshot = match reader.follower.snapshot(max_staleness).await {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => {
                self.report("P1", "a follower says that there is no such shard");
                return None;
            }
            Err(error) => {
                self.judge_error(&error, "follow");
                return None;
            }
        };
        let asked = ReadRecord { fresh: max_staleness.is_zero(), ..asked };
        let held = self.record_read(asked, &reader.tables, snapshot).await?;
        self.tally.lock().follows += 1;
        Some(held)
    }

    /// Kills the reader's process.
    pub fn end_reader(&self, reader: Reader) {
        if reader.process.is_alive() {
            reader.process.crash();
        }
    }
}
