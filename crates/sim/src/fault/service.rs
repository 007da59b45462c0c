//! The service: objects, numbering, faults and observers behind every client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use headwater_store::env::{Env, SeededEnv, SeededProcess};
use object_store::ObjectStore;
use parking_lot::Mutex;

use super::client::Client;
use super::draw::{FaultPlan, Script, choose_fault};
use super::gate::{Gate, Held, gate};
use super::kind::{FaultCounts, FaultKind};
use super::objects::Objects;
use super::request::{ObjectKind, Op, Request};

/// Something that changed, as observers see it, after the fact and before anybody is told.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// An object was written.
    Put {
        /// Its path.
        path: &'a str,
        /// The process whose request it was.
        process: &'a str,
    },
    /// An object was deleted.
    Deleted {
        /// Its path.
        path: &'a str,
    },
    /// A power cut took a write away that nobody was told of (or, without fsync, anybody).
    Lost {
        /// Its path.
        path: &'a str,
    },
}

/// Looks at the objects after each change, under the store's lock. Must not call the store.
pub trait Observer: Send {
    /// Called once for each change.
    fn changed(&mut self, objects: &Objects, change: Change<'_>);
}

/// The service. Cheap to clone; every clone is the same.
#[derive(Clone)]
pub struct FaultStore {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) machine: SeededEnv,
    /// Applies late requests and wakes stalled processes; nothing crashes it.
    service: SeededProcess,
    state: Mutex<State>,
}

struct State {
    objects: Objects,
    requests: u64,
    log: Vec<Request>,
    plan: FaultPlan,
    script: Script,
    gates: Vec<Held>,
    counts: FaultCounts,
    observers: Vec<Box<dyn Observer>>,
    full: bool,
    fsync: bool,
    /// Counts power cuts: a request of an earlier era is never applied.
    era: u64,
}

impl std::fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("FaultStore")
            .field("objects", &state.objects.len())
            .field("requests", &state.requests)
            .finish_non_exhaustive()
    }
}

impl FaultStore {
    /// An empty store on `machine`, without faults, that syncs what it acknowledges.
    pub fn new(machine: &SeededEnv) -> Self {
        let state = State {
            objects: Objects::default(),
            requests: 0,
            log: Vec::new(),
            plan: FaultPlan::CALM,
            script: Script::new(),
            gates: Vec::new(),
            counts: FaultCounts::default(),
            observers: Vec::new(),
            full: false,
            fsync: true,
            era: 0,
        };
        let service = machine.process("storage");
        Self { shared: Arc::new(Shared { machine: machine.clone(), service, state: Mutex::new(state) }) }
    }

    /// The store as `process` sees it, with the faults of the plan.
    pub fn client(&self, process: &SeededProcess) -> Arc<dyn ObjectStore> {
        Arc::new(Client::new(self.clone(), process.clone(), true))
    }

    /// The store as `process` sees it, spared the plan's faults (the script and gates still hold).
    pub fn calm_client(&self, process: &SeededProcess) -> Arc<dyn ObjectStore> {
        Arc::new(Client::new(self.clone(), process.clone(), false))
    }

    /// Sets how often requests meet faults from now on.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.shared.state.lock().plan = plan;
    }

    /// Sets what happens to numbered requests.
    pub fn set_script(&self, script: Script) {
        self.shared.state.lock().script = script;
    }

    /// While `full`, writes fail as on a full disk and nothing is applied.
    pub fn set_full(&self, full: bool) {
        self.shared.state.lock().full = full;
    }

    /// Whether acknowledged writes survive a power cut (the default). Without, P1 cannot hold.
    pub fn set_fsync(&self, fsync: bool) {
        self.shared.state.lock().fsync = fsync;
    }

    /// Adds an observer.
    pub fn observe(&self, observer: Box<dyn Observer>) {
        self.shared.state.lock().observers.push(observer);
    }

    /// Holds back requests that match, from now on, until the gate is released.
    pub fn gate(&self, matches: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Gate {
        let (gate, held) = gate(Box::new(matches));
        let mut state = self.shared.state.lock();
        state.gates.retain(|gate| !gate.is_open());
        state.gates.push(held);
        gate
    }

    /// Takes away unsynced writes (see [`Objects`]) and every request still on its way. The caller crashes
    /// the processes. Returns the paths that vanished.
    pub fn power_cut(&self) -> Vec<String> {
        let machine = &self.shared.machine;
        let lost = {
            let mut state = self.shared.state.lock();
            state.era += 1;
            state.counts.add(FaultKind::PowerCut);
            let lost = state.objects.lose_unsynced(|| machine.random().is_multiple_of(2));
            for path in &lost {
                state.tell(Change::Lost { path });
            }
            lost
        };
        machine.note(&format!("power cut: {} writes vanish", lost.len()));
        lost
    }

    /// Counts a fault that is not a request's: of the machine or a process.
    pub fn count(&self, kind: FaultKind) {
        self.shared.state.lock().counts.add(kind);
    }

    /// Faults that took effect so far.
    pub fn counts(&self) -> FaultCounts {
        self.shared.state.lock().counts.clone()
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.shared.state.lock().requests
    }

    /// Every request so far.
    pub fn log(&self) -> Vec<Request> {
        self.shared.state.lock().log.clone()
    }

    /// Looks at the objects.
    pub fn read<T>(&self, look: impl FnOnce(&Objects) -> T) -> T {
        look(&self.shared.state.lock().objects)
    }

    /// Writes or replaces an object behind everybody's back, as damage on storage.
    pub fn overwrite(&self, path: &str, bytes: Bytes) {
        let now = self.shared.machine.now();
        let mut state = self.shared.state.lock();
        state.objects.put(path, bytes, false, now);
        state.objects.sync(path);
    }

    /// Removes an object behind everybody's back.
    pub fn erase(&self, path: &str) -> bool {
        self.shared.state.lock().objects.remove(path)
    }

    // ---- what a client does ----

    /// Numbers a request and draws its fault.
    pub(super) fn arrive(
        &self,
        process: &str,
        op: Op,
        path: &str,
        faulty: bool,
    ) -> (Request, Option<FaultKind>) {
        let chance = self.shared.machine.random();
        let (request, fault) = {
            let mut state = self.shared.state.lock();
            state.requests += 1;
            let number = state.requests;
            let kind = ObjectKind::of(path);
            let request = Request { number, process: process.to_owned(), op, path: path.to_owned(), kind };
            let drawn = if faulty { choose_fault(&request, &state.plan, chance) } else { None };
            let fault = state.script.get(number).or(drawn);
            state.log.push(request.clone());
            (request, fault)
        };
        match fault {
            Some(fault) => self.shared.machine.note(&format!("{request} ! {fault}")),
            None => self.shared.machine.note(&format!("{request}")),
        }
        (request, fault)
    }

    /// Waits until no gate holds the request.
    pub(super) async fn pass_gates(&self, request: &Request) {
        loop {
            let held = self.shared.state.lock().gates.iter().find_map(|gate| gate.hold(request));
            let Some(mut open) = held else { return };
            // A dropped gate is open.
            let _ = open.wait_for(|open| *open).await;
        }
    }

    pub(super) fn is_full(&self) -> bool {
        let mut state = self.shared.state.lock();
        if state.full {
            state.counts.add(FaultKind::DiskFull);
        }
        state.full
    }

    pub(super) fn era(&self) -> u64 {
        self.shared.state.lock().era
    }

    /// Writes, if the condition holds; false when an object is in the way. Nothing of an earlier era is
    /// written. It is durable a moment later, unless its process dies first.
    pub(super) fn apply_put(
        &self,
        process: &SeededProcess,
        path: &str,
        bytes: Bytes,
        create: bool,
        era: u64,
    ) -> bool {
        if !self.write(process.name(), path, bytes, create, era) {
            return false;
        }
        let (store, process, path) = (self.clone(), process.clone(), path.to_owned());
        let service = self.shared.service.clone();
        let micros = self.shared.machine.random() % 2_000;
        let sync = async move {
            service.sleep(Duration::from_micros(micros)).await;
            if process.is_alive() && store.era() == era {
                store.sync(&path);
            }
        };
        self.shared.service.spawn("sync", sync.boxed()).detach();
        true
    }

    fn write(&self, process: &str, path: &str, bytes: Bytes, create: bool, era: u64) -> bool {
        let now = self.shared.machine.now();
        let mut state = self.shared.state.lock();
        let written = era == state.era && state.objects.put(path, bytes, create, now);
        if written {
            state.tell(Change::Put { path, process });
        }
        written
    }

    /// The object at `path` is durable from now on, with fsync.
    pub(super) fn sync(&self, path: &str) {
        let mut state = self.shared.state.lock();
        if state.fsync {
            state.objects.sync(path);
        }
    }

    pub(super) fn apply_delete(&self, path: &str) {
        let mut state = self.shared.state.lock();
        if state.objects.remove(path) {
            state.tell(Change::Deleted { path });
        }
    }

    /// Applies a write after `delay`, whatever became of the caller.
    pub(super) fn apply_late(&self, request: &Request, bytes: Bytes, create: bool, delay: Duration) {
        let (store, service, request) = (self.clone(), self.shared.service.clone(), request.clone());
        let era = self.era();
        let late = async move {
            service.sleep(delay).await;
            let written = store.write(&request.process, &request.path, bytes, create, era);
            if written {
                store.sync(&request.path);
            }
            store.count(FaultKind::LateApply);
            let outcome = if written { "applied" } else { "refused" };
            store.shared.machine.note(&format!("{request} late: {outcome}"));
        };
        self.shared.service.spawn("late apply", late.boxed()).detach();
    }

    /// Stalls `process` and wakes it after `delay`.
    pub(super) fn stall(&self, process: &SeededProcess, delay: Duration) {
        process.pause();
        let (service, process) = (self.shared.service.clone(), process.clone());
        let wake = async move {
            service.sleep(delay).await;
            process.resume();
        };
        self.shared.service.spawn("wake", wake.boxed()).detach();
    }
}

impl State {
    fn tell(&mut self, change: Change<'_>) {
        let Self { observers, objects, .. } = self;
        for observer in observers {
            observer.changed(objects, change);
        }
    }
}
