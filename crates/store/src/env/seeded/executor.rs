//! The state behind a seeded machine: ready tasks, timers, processes, randomness.
//!
//! IMPORTANT: no waker is woken and no future dropped while the state is locked, for both may call back in
//! here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use async_task::Runnable;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::trace::Trace;
use crate::env::Task;

/// The process the machine's own tasks belong to.
pub(super) const ROOT: usize = 0;
/// Stands for the future `block_on` drives; tasks are numbered from 1.
const MAIN: u64 = 0;
/// Notes kept for people; later ones still feed the trace.
const MAX_NOTES: usize = 400_000;

/// Shared by every handle of one machine.
#[derive(Debug)]
pub(super) struct Executor {
    state: Mutex<State>,
}

struct State {
    /// Draws the next task.
    schedule: SmallRng,
    /// Hands randomness to tasks.
    chance: SmallRng,
    now: Duration,
    steps: u64,
    /// By task, so that the order in which tasks were woken within a step does not matter:
    /// `tokio::sync::watch` (and `Barrier`, built on it) wakes its waiters in an order drawn from a thread's
    /// own randomness.
    ready: BTreeMap<u64, Ready>,
    timers: BTreeMap<(Duration, u64), Waker>,
    next_timer: u64,
    tasks: BTreeMap<u64, Spawned>,
    next_task: u64,
    processes: Vec<ProcessState>,
    trace: Trace,
    notes: Vec<String>,
    panics: Vec<String>,
    driving: bool,
    wall_skew_ms: i64,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("now", &self.now)
            .field("steps", &self.steps)
            .field("ready", &self.ready.len())
            .field("timers", &self.timers.len())
            .field("tasks", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

/// Something that can make a step. `runnable` is `None` for the future `block_on` drives.
struct Ready {
    task: u64,
    process: usize,
    runnable: Option<Runnable>,
}

struct Spawned {
    process: usize,
    name: &'static str,
    handle: async_task::Task<()>,
}

#[derive(Debug, PartialEq, Eq)]
enum Life {
    Running,
    Paused,
    Dead,
}

struct ProcessState {
    name: String,
    life: Life,
    /// Tasks that became ready while the process was paused.
    parked: Vec<Ready>,
}

/// What one turn of the loop did.
pub(super) enum Turn {
    /// The driven future should be polled.
    Main,
    /// A task made a step, or the clock moved on to the next timer.
    Moved,
    /// Nothing is ready and no timer is set.
    Idle,
}

impl Executor {
    pub(super) fn new(seed: u64) -> Self {
        let root = ProcessState { name: "root".to_owned(), life: Life::Running, parked: Vec::new() };
        let mut trace = Trace::default();
        trace.feed(seed);
        Self {
            state: Mutex::new(State {
                schedule: SmallRng::seed_from_u64(seed ^ 0x5ced_0001),
                chance: SmallRng::seed_from_u64(seed ^ 0xc4a7_ce02),
                now: Duration::ZERO,
                steps: 0,
                ready: BTreeMap::new(),
                timers: BTreeMap::new(),
                next_timer: 0,
                tasks: BTreeMap::new(),
                next_task: 1,
                processes: vec![root],
                trace,
                notes: Vec::new(),
                panics: Vec::new(),
                driving: false,
                wall_skew_ms: 0,
            }),
        }
    }

    // ---- clock, chance, trace ----

    pub(super) fn now(&self) -> Duration {
        self.state.lock().now
    }

    pub(super) fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    pub(super) fn random(&self) -> u64 {
        self.state.lock().chance.next_u64()
    }

    pub(super) fn trace(&self) -> u64 {
        self.state.lock().trace.value()
    }

    pub(super) fn note(&self, text: &str) {
        let mut state = self.state.lock();
        state.trace.feed_text(text);
        if state.notes.len() < MAX_NOTES {
            let line = format!("[{:>12.6}] {text}", state.now.as_secs_f64());
            state.notes.push(line);
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.state.lock().notes.clone()
    }

    pub(super) fn panics(&self) -> Vec<String> {
        self.state.lock().panics.clone()
    }

    pub(super) fn wall_skew_ms(&self) -> i64 {
        self.state.lock().wall_skew_ms
    }

    pub(super) fn skew_wall_clock(&self, by_ms: i64) {
        let mut state = self.state.lock();
        state.wall_skew_ms = state.wall_skew_ms.saturating_add(by_ms);
    }

    /// Moves the clock, as a suspended machine sees it on waking: every timer due by then fires now.
    pub(super) fn jump(&self, by: Duration) {
        let due = {
            let mut state = self.state.lock();
            state.now = state.now.saturating_add(by);
            state.take_due_timers()
        };
        due.into_iter().for_each(Waker::wake);
    }

    // ---- timers ----

    pub(super) fn set_timer(&self, deadline: Duration, waker: Waker) -> (Duration, u64) {
        let mut state = self.state.lock();
        state.next_timer += 1;
        let key = (deadline, state.next_timer);
        state.timers.insert(key, waker);
        key
    }

    /// Replaces the waker of a timer that has not fired.
    pub(super) fn renew_timer(&self, key: (Duration, u64), waker: Waker) {
        let old = self.state.lock().timers.insert(key, waker);
        drop(old);
    }

    pub(super) fn drop_timer(&self, key: (Duration, u64)) {
        let old = self.state.lock().timers.remove(&key);
        drop(old);
    }

    // ---- processes ----

    pub(super) fn add_process(&self, name: &str) -> usize {
        let mut state = self.state.lock();
        state.processes.push(ProcessState { name: name.to_owned(), life: Life::Running, parked: Vec::new() });
        state.processes.len() - 1
    }

    pub(super) fn is_alive(&self, process: usize) -> bool {
        self.state.lock().life(process) != &Life::Dead
    }

    pub(super) fn is_paused(&self, process: usize) -> bool {
        self.state.lock().life(process) == &Life::Paused
    }

    pub(super) fn pause(&self, process: usize) {
        let mut state = self.state.lock();
        if state.life(process) != &Life::Running {
            return;
        }
        let parked = state.take_ready(process);
        if let Some(entry) = state.processes.get_mut(process) {
            entry.life = Life::Paused;
            entry.parked = parked;
        }
    }

    pub(super) fn resume(&self, process: usize) {
        let mut state = self.state.lock();
        let Some(entry) = state.processes.get_mut(process).filter(|entry| entry.life == Life::Paused) else {
            return;
        };
        entry.life = Life::Running;
        let parked = std::mem::take(&mut entry.parked);
        state.ready.extend(parked.into_iter().map(|ready| (ready.task, ready)));
    }

    /// Drops every task of the process, wherever it waits. Nothing it spawns from now on runs.
    pub(super) fn crash(&self, process: usize) {
        let handles = {
            let mut state = self.state.lock();
            let Some(entry) = state.processes.get_mut(process) else { return };
            entry.life = Life::Dead;
            let ids: Vec<u64> =
                state.tasks.iter().filter(|(_, task)| task.process == process).map(|(id, _)| *id).collect();
            ids.iter().filter_map(|id| state.tasks.remove(id)).collect::<Vec<_>>()
        };
        // Dropping a handle cancels its task: a waiting one is scheduled once more, which `schedule` refuses
        // for a dead process and so drops the future; a running one is dropped when its step ends.
        drop(handles);
        let dropped = {
            let mut state = self.state.lock();
            let mut dropped = state.take_ready(process);
            if let Some(entry) = state.processes.get_mut(process) {
                dropped.append(&mut entry.parked);
            }
            dropped
        };
        drop(dropped);
    }

    pub(super) fn process_count(&self) -> usize {
        self.state.lock().processes.len()
    }

    /// Names of the tasks that have not ended, by process, for people.
    pub(super) fn waiting(&self) -> Vec<String> {
        let state = self.state.lock();
        state
            .tasks
            .values()
            .map(|task| {
                let process = state.processes.get(task.process);
                let name = process.map_or("?", |process| process.name.as_str());
                let paused = process.is_some_and(|process| process.life == Life::Paused);
                format!("{name}/{}{}", task.name, if paused { " (paused)" } else { "" })
            })
            .collect()
    }

    // ---- tasks ----

    pub(super) fn spawn(
        self: &Arc<Self>,
        process: usize,
        name: &'static str,
        future: BoxFuture<'static, ()>,
    ) -> Task {
        let (sender, receiver) = oneshot::channel();
        if !self.is_alive(process) {
            drop(future);
            return Task::new(receiver, Box::new(|| {}));
        }
        let id = {
            let mut state = self.state.lock();
            let id = state.next_task;
            state.next_task += 1;
            id
        };
        let executor = Arc::downgrade(self);
        let work = async move {
            // A panic ends the task, not the machine, as on a thread pool; `panics()` tells of it.
            let result = std::panic::AssertUnwindSafe(future).catch_unwind().await;
            if let Some(executor) = executor.upgrade() {
                executor.ended(id, name, result.as_ref().err().map(|panic| panic_text(panic.as_ref())));
            }
            if result.is_ok() {
                // Nobody may be waiting.
                let _ = sender.send(());
            }
        };
        let executor = Arc::downgrade(self);
        let schedule = move |runnable| {
            if let Some(executor) = executor.upgrade() {
                executor.schedule(Ready { task: id, process, runnable: Some(runnable) });
            }
        };
        let (runnable, handle) = async_task::spawn(work, schedule);
        self.state.lock().tasks.insert(id, Spawned { process, name, handle });
        runnable.schedule();
        let executor = Arc::downgrade(self);
        let cancel = move || {
            if let Some(executor) = executor.upgrade() {
                let task = executor.state.lock().tasks.remove(&id);
                drop(task);
            }
        };
        Task::new(receiver, Box::new(cancel))
    }

    fn ended(&self, id: u64, name: &'static str, panic: Option<String>) {
        let task = {
            let mut state = self.state.lock();
            if let Some(text) = panic {
                state.trace.feed_text(&text);
                state.panics.push(format!("{name}: {text}"));
            }
            state.tasks.remove(&id)
        };
        if let Some(task) = task {
            task.handle.detach();
        }
    }

    fn schedule(&self, ready: Ready) {
        let refused = {
            let mut state = self.state.lock();
            match state.processes.get_mut(ready.process) {
                Some(entry) if entry.life == Life::Running => {
                    state.ready.insert(ready.task, ready);
                    None
                }
                Some(entry) if entry.life == Life::Paused => {
                    entry.parked.push(ready);
                    None
                }
                _ => Some(ready),
            }
        };
        // Dropping the runnable of a dead process drops its future.
        drop(refused);
    }

    // ---- the loop ----

    /// Marks the machine as driven; false when it already is (a nested `block_on`).
    pub(super) fn start_driving(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().driving, true)
    }

    pub(super) fn stop_driving(&self) {
        let mut state = self.state.lock();
        state.driving = false;
        state.ready.remove(&MAIN);
    }

    /// Makes the driven future a candidate of the next draw, once however often it is woken.
    pub(super) fn wake_main(&self) {
        let mut state = self.state.lock();
        if state.driving {
            state.ready.insert(MAIN, Ready { task: MAIN, process: ROOT, runnable: None });
        }
    }

    /// Runs one task drawn from the ready ones, or moves the clock to the next timer.
    pub(super) fn turn(&self) -> Turn {
        let drawn = {
            let mut state = self.state.lock();
            state.draw()
        };
        match drawn {
            Some(Ready { runnable: Some(runnable), .. }) => {
                runnable.run();
                Turn::Moved
            }
            Some(Ready { runnable: None, .. }) => Turn::Main,
            None => {
                let due = self.state.lock().advance();
                if due.is_empty() {
                    return Turn::Idle;
                }
                due.into_iter().for_each(Waker::wake);
                Turn::Moved
            }
        }
    }
}

impl State {
    fn life(&self, process: usize) -> &Life {
        self.processes.get(process).map_or(&Life::Dead, |entry| &entry.life)
    }

    fn take_ready(&mut self, process: usize) -> Vec<Ready> {
        let of_process = |ready: &Ready| ready.process == process && ready.runnable.is_some();
        let tasks: Vec<u64> =
            self.ready.values().filter(|ready| of_process(ready)).map(|ready| ready.task).collect();
        tasks.iter().filter_map(|task| self.ready.remove(task)).collect()
    }

    fn draw(&mut self) -> Option<Ready> {
        if self.ready.is_empty() {
            return None;
        }
        let index = self.schedule.random_range(0..self.ready.len());
        let task = *self.ready.keys().nth(index)?;
        let ready = self.ready.remove(&task)?;
        self.steps += 1;
        self.trace.feed(ready.task);
        self.trace.feed(self.now.as_nanos() as u64);
        Some(ready)
    }

    fn advance(&mut self) -> Vec<Waker> {
        let Some((&(deadline, _), _)) = self.timers.first_key_value() else { return Vec::new() };
        self.now = self.now.max(deadline);
        self.take_due_timers()
    }

    fn take_due_timers(&mut self) -> Vec<Waker> {
        let later = self.timers.split_off(&(self.now, u64::MAX));
        std::mem::replace(&mut self.timers, later).into_values().collect()
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}
