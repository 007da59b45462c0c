//! The end of every run: faults are cleared, and everything must come to rest.

use std::time::Duration;

use headwater_store::env::Env;

use super::driver::Driver;
use crate::fault::FaultPlan;
use crate::history::{Level, OpKind};
use crate::world::{OpenFailed, Reader, Writer, run_in, within};

/// Longest that an open may take before it is given up.
pub(super) const OPEN_LIMIT: Duration = Duration::from_secs(30);
/// Longest that anything may take once faults are cleared.
const CALM_LIMIT: Duration = Duration::from_secs(300);
/// How often the drain looks.
const LOOK: Duration = Duration::from_millis(50);
/// Opens tried once faults are cleared; a second one is needed when an old claim comes in between.
const CALM_OPENS: usize = 4;
/// Tries at the last read.
const LAST_READS: usize = 5;

impl Driver {
    /// L1, L2, L5, L6, and then the last reads: from a fresh writer, and of readers elsewhere.
    pub(crate) async fn drain(&mut self) {
        let world = self.world.clone();
        world.machine.note("faults are cleared");
        world.store.set_plan(FaultPlan::CALM);
        world.store.set_full(false);
        world.index_gate.open();
        self.gates.clear();
        for writer in &self.writers {
            writer.process.resume();
        }
        for writer in std::mem::take(&mut self.writers) {
            self.wait_for_outcomes(&writer).await;
            if writer.process.is_alive() {
                self.close_calmly(writer).await;
            }
        }
        let Some(writer) = self.open_calmly().await else { return };
        self.write_and_seal(&writer).await;
        self.close_calmly(writer).await;
        world.forget_sstables();
        let Some(writer) = self.open_calmly().await else { return };
        self.read_everything(&writer).await;
        self.close_calmly(writer).await;
        self.follow_everything().await;
    }

    /// The readers there are, and a new one, see every row; then their memory is free (L5).
    async fn follow_everything(&mut self) {
        let mut readers = std::mem::take(&mut self.readers);
        let name = format!("r{}", self.name());
        readers.extend(self.world.follow(&name));
        for reader in readers.into_iter().filter(|reader| reader.process.is_alive()) {
            reader.process.resume();
            self.read_the_last_time(&reader).await;
            let (name, budget) = (reader.process.name().to_owned(), reader.budget.clone());
            self.world.end_reader(reader);
            if budget.used() > 0 {
                self.world.report("L5", format!("{} bytes of {name} are still counted", budget.used()));
            }
        }
    }

    async fn read_the_last_time(&self, reader: &Reader) {
        for _ in 0..LAST_READS {
            let (world, followed) = (self.world.clone(), reader.clone());
            let read = async move { world.follow_once(&followed, Duration::ZERO, true).await };
            let read = run_in(&reader.process, "last follow", read);
            if within(&self.world.machine, CALM_LIMIT, read).await.flatten().flatten().is_some() {
                return;
            }
        }
        self.world.report("L1", format!("the last read of {} does not end", reader.process.name()));
    }

    /// L1: every pending write, read and wait of a live process ends.
    async fn wait_for_outcomes(&self, writer: &Writer) {
        let machine = &self.world.machine;
        let done = async {
            while writer.process.is_alive() && writer.in_flight.count() > 0 {
                machine.sleep(LOOK).await;
            }
        };
        if within(machine, CALM_LIMIT, done).await.is_none() {
            let (name, count) = (writer.process.name(), writer.in_flight.count());
            let stats = writer.shard.stats();
            self.world.report("L1", format!("{count} calls to {name} never end; {stats:?}"));
        }
    }

    /// A writer that serves closes without an error; a stopped one says why. Its memory is free afterwards
    /// (L5).
    async fn close_calmly(&self, writer: Writer) {
        let serves = self.world.serves(&writer);
        let (name, budget) = (writer.process.name().to_owned(), writer.budget.clone());
        match self.world.close(writer, CALM_LIMIT).await {
            None => self.world.report("L1", format!("closing {name} does not end")),
            Some(Err(error)) if serves && !is_taken_over(&error) => {
                self.world.report("L2", format!("closing {name} without faults fails: {error}"));
            }
            Some(_) => {}
        }
        if budget.used() > 0 {
            self.world.report("L5", format!("{} bytes of {name} are still counted", budget.used()));
        }
    }

    async fn open_calmly(&mut self) -> Option<Writer> {
        let mut last = None;
        for _ in 0..CALM_OPENS {
            let name = self.name();
            match self.world.open(&name, CALM_LIMIT).await {
                Ok(writer) => return Some(writer),
                Err(OpenFailed::Died) => last = Some("it takes too long".to_owned()),
                Err(OpenFailed::Refused(error)) => last = Some(error.to_string()),
            }
        }
        self.world.report("L1", format!("the shard cannot be opened any more: {}", last.unwrap_or_default()));
        None
    }

    /// L1: a put is acknowledged. L6: a seal ends. L2: nothing waits for its flush afterwards.
    async fn write_and_seal(&self, writer: &Writer) {
        let world = &self.world;
        let acked = world.history.lock().acked();
        let written = async {
            // Refused for a while when replay filled the memory: that is retryable, and must come to an end.
            while world.history.lock().acked() == acked && world.serves(writer) {
                world.write(writer, OpKind::Put(vec![0, 1]), false);
                self.wait_for_outcomes(writer).await;
            }
        };
        within(&world.machine, CALM_LIMIT, written).await;
        if world.history.lock().acked() == acked {
            world.report("L1", "a put without faults is not acknowledged");
        }
        world.seal(writer);
        self.wait_for_outcomes(writer).await;
        let stats = writer.shard.stats();
        if stats.frozen > 0 || stats.active_rows > 0 {
            world.report("L2", format!("sealed without faults, and not flushed: {stats:?}"));
        }
    }

    async fn read_everything(&self, writer: &Writer) {
        // A snapshot may expire while many SSTables are read for the first time; the next one finds them
        // read.
        for _ in 0..LAST_READS {
            let (world, reader) = (self.world.clone(), writer.clone());
            let read = async move { world.read_once(&reader, Level::Durable, true).await };
            let read = run_in(&writer.process, "last read", read);
            if within(&self.world.machine, CALM_LIMIT, read).await.flatten().flatten().is_some() {
                return;
            }
        }
        self.world.report("L1", "the last read does not end");
    }
}

/// Another writer came in between: no failure of this one.
fn is_taken_over(error: &headwater_engine::ShardError) -> bool {
    matches!(error, headwater_engine::ShardError::Fenced { .. })
}
