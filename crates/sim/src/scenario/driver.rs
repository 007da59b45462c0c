//! Draws actions and does them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use headwater_store::env::Env;

use super::drain::OPEN_LIMIT;
use super::run::Scenario;
use super::weather::Weather;
use crate::fault::{FaultKind, FaultPlan, Gate, ObjectKind};
use crate::history::{Level, OpKind, Outcome};
use crate::world::{OpenFailed, Reader, World, Writer};

/// Keys writes are drawn from.
const KEYS: u64 = 40;
/// Puts with a client token that may be sent again.
const NAMED: usize = 40;
/// Writers alive at once, fenced ones included.
const MAX_WRITERS: usize = 4;
/// Readers elsewhere alive at once.
const MAX_READERS: usize = 3;
/// Longest that an ordered close may take amid faults.
const CLOSE_LIMIT: Duration = Duration::from_secs(20);

/// What may be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Put,
    PutMany,
    Delete,
    Overwrite,
    Increment,
    NamedPut,
    Repeat,
    Seal,
    Read,
    ReadPending,
    ReadHeld,
    Zombie,
    Crash,
    Close,
    Claim,
    Race,
    Pause,
    PowerCut,
    ClockJump,
    Disk,
    IndexGate,
    StoreGate,
    Wait,
    Follow,
    FollowRead,
    FollowRecent,
    FollowHeld,
    FollowPause,
    FollowEnd,
}

const CHURN: &[(Action, u64)] = &[
    (Action::Put, 300),
    (Action::PutMany, 60),
    (Action::Delete, 90),
    (Action::Overwrite, 60),
    (Action::Seal, 35),
    (Action::Read, 80),
    (Action::ReadPending, 25),
    (Action::ReadHeld, 20),
    (Action::Zombie, 10),
    (Action::Crash, 12),
    (Action::Close, 10),
    (Action::Claim, 8),
    (Action::Race, 2),
    (Action::Pause, 6),
    (Action::PowerCut, 4),
    (Action::ClockJump, 5),
    (Action::Disk, 6),
    (Action::IndexGate, 12),
    (Action::StoreGate, 12),
    (Action::Wait, 20),
];
const FENCING: &[(Action, u64)] = &[
    (Action::Put, 260),
    (Action::PutMany, 20),
    (Action::Delete, 40),
    (Action::Seal, 30),
    (Action::Read, 90),
    (Action::ReadPending, 10),
    (Action::ReadHeld, 5),
    (Action::Zombie, 150),
    (Action::Crash, 10),
    (Action::Close, 5),
    (Action::Claim, 45),
    (Action::Race, 12),
    (Action::Pause, 40),
    (Action::PowerCut, 4),
    (Action::ClockJump, 4),
    (Action::Disk, 2),
    (Action::IndexGate, 6),
    (Action::StoreGate, 10),
    (Action::Wait, 15),
];
const COUNTER: &[(Action, u64)] = &[
    (Action::Put, 400),
    (Action::PutMany, 60),
    (Action::Seal, 30),
    (Action::Read, 160),
    (Action::ReadPending, 10),
    (Action::ReadHeld, 10),
    (Action::Zombie, 30),
    (Action::Crash, 12),
    (Action::Close, 8),
    (Action::Claim, 12),
    (Action::Race, 2),
    (Action::Pause, 10),
    (Action::PowerCut, 4),
    (Action::ClockJump, 3),
    (Action::Disk, 4),
    (Action::IndexGate, 8),
    (Action::StoreGate, 8),
    (Action::Wait, 15),
];

const INCREMENT: &[(Action, u64)] = &[
    (Action::Increment, 400),
    (Action::Put, 60),
    (Action::Delete, 30),
    (Action::Seal, 50),
    (Action::Read, 40),
    (Action::Zombie, 20),
    (Action::Crash, 14),
    (Action::Close, 10),
    (Action::Claim, 12),
    (Action::Race, 2),
    (Action::Pause, 8),
    (Action::PowerCut, 4),
    (Action::ClockJump, 3),
    (Action::Disk, 4),
    (Action::StoreGate, 10),
    (Action::Wait, 30),
];
const RETRY: &[(Action, u64)] = &[
    (Action::NamedPut, 260),
    (Action::Repeat, 260),
    (Action::Put, 40),
    (Action::Delete, 20),
    (Action::Seal, 40),
    (Action::Read, 50),
    (Action::Zombie, 20),
    (Action::Crash, 18),
    (Action::Close, 10),
    (Action::Claim, 14),
    (Action::Race, 2),
    (Action::Pause, 8),
    (Action::PowerCut, 5),
    (Action::ClockJump, 5),
    (Action::Disk, 4),
    (Action::StoreGate, 10),
    (Action::Wait, 25),
];

const FOLLOWING: &[(Action, u64)] = &[
    (Action::Put, 260),
    (Action::PutMany, 60),
    (Action::Delete, 60),
    (Action::Overwrite, 40),
    (Action::Seal, 40),
    (Action::Read, 10),
    (Action::Zombie, 10),
    (Action::Crash, 14),
    (Action::Close, 10),
    (Action::Claim, 14),
    (Action::Pause, 6),
    (Action::PowerCut, 3),
    (Action::ClockJump, 5),
    (Action::Disk, 4),
    (Action::IndexGate, 8),
    (Action::StoreGate, 16),
    (Action::Wait, 25),
    (Action::Follow, 20),
    (Action::FollowRead, 160),
    (Action::FollowRecent, 50),
    (Action::FollowHeld, 30),
    (Action::FollowPause, 8),
    (Action::FollowEnd, 6),
];

/// Actions with their weights, by scenario.
fn weights(scenario: Scenario) -> &'static [(Action, u64)] {
    match scenario {
        Scenario::Churn => CHURN,
        Scenario::Fencing => FENCING,
        Scenario::Counter => COUNTER,
        Scenario::Increment => INCREMENT,
        Scenario::Retry => RETRY,
        Scenario::Following => FOLLOWING,
    }
}

/// Does what was drawn. The last writer is the one people use; the others are on their way out and do not
/// know.
pub(crate) struct Driver {
    pub(super) world: World,
    scenario: Scenario,
    pub(crate) writers: Vec<Writer>,
    /// Processes that read and never claim.
    pub(super) readers: Vec<Reader>,
    names: u64,
    weather_left: u64,
    disk_left: u64,
    gate_left: u64,
    pub(super) gates: Vec<Gate>,
    /// The last write of each key, in the counter scenario.
    counters: BTreeMap<u32, u64>,
    /// The last puts with a client token, in the retry scenario.
    named: VecDeque<u64>,
}

impl Driver {
    pub(crate) fn new(world: World, scenario: Scenario) -> Self {
        Self {
            world,
            scenario,
            writers: Vec::new(),
            readers: Vec::new(),
            names: 0,
            weather_left: 0,
            disk_left: 0,
            gate_left: 0,
            gates: Vec::new(),
            counters: BTreeMap::new(),
            named: VecDeque::new(),
        }
    }

    /// Creates the shard, does `actions` actions, and drains.
    pub(super) async fn run(&mut self, actions: u64) {
        if let Err(violation) = self.world.create().await {
            self.world.report(violation.invariant, violation.what);
            return;
        }
        for _ in 0..actions {
            self.turn_weather();
            self.keep_a_writer().await;
            if let Some(action) = self.draw() {
                self.act(action).await;
            }
            self.world.tally.lock().actions += 1;
            self.pause_between().await;
        }
        self.drain().await;
    }

    fn chance(&self, below: u64) -> u64 {
        self.world.chance(below)
    }

    fn turn_weather(&mut self) {
        self.weather_left = self.weather_left.saturating_sub(1);
        if self.weather_left == 0 {
            let (weather, length) = Weather::next(self.world.machine.random());
            self.weather_left = length.max(1);
            let mut plan = weather.plan();
            if self.scenario == Scenario::Fencing {
                plan = FaultPlan { stalls: plan.stalls * 4, ..plan };
            }
            self.world.store.set_plan(plan);
            self.world.machine.note(&format!("weather: {weather:?} for {length} actions"));
        }
        self.disk_left = self.disk_left.saturating_sub(1);
        if self.disk_left == 0 {
            self.world.store.set_full(false);
        }
        self.gate_left = self.gate_left.saturating_sub(1);
        if self.gate_left == 0 {
            self.gates.clear();
        }
    }

    fn draw(&self) -> Option<Action> {
        let weights = weights(self.scenario);
        let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
        let mut left = self.chance(total);
        weights.iter().find_map(|(action, weight)| {
            if left < *weight {
                return Some(*action);
            }
            left -= weight;
            None
        })
    }

    /// Mostly nothing, sometimes a moment, now and then a second.
    async fn pause_between(&self) {
        let micros = match self.chance(20) {
            0..8 => 0,
            8..15 => self.chance(3_000),
            15..19 => self.chance(30_000),
            _ => self.chance(1_000_000),
        };
        self.world.machine.sleep(Duration::from_micros(micros)).await;
    }

    /// Opens the shard when the last writer is gone; one try, it may fail.
    async fn keep_a_writer(&mut self) {
        while let Some(writer) = self.writers.last() {
            if self.world.serves(writer) {
                break;
            }
            let Some(gone) = self.writers.pop() else { break };
            // A stopped writer's close reports why, now and then.
            if gone.process.is_alive() && self.chance(3) == 0 {
                self.world.close(gone, CLOSE_LIMIT).await;
            } else {
                self.world.end(gone);
            }
        }
        self.writers.retain(|writer| writer.process.is_alive());
        if self.writers.is_empty() {
            self.open().await;
        }
    }

    pub(super) fn name(&mut self) -> String {
        self.names += 1;
        format!("w{}", self.names)
    }

    async fn open(&mut self) -> Option<OpenFailed> {
        let name = self.name();
        match self.world.open(&name, OPEN_LIMIT).await {
            Ok(writer) => {
                self.writers.push(writer);
                None
            }
            Err(failed) => Some(failed),
        }
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Claim | Action::Race | Action::Close | Action::Wait => self.act_slowly(action).await,
            Action::Put | Action::PutMany | Action::Delete | Action::Overwrite => self.write(action),
            Action::Increment | Action::NamedPut | Action::Repeat => self.write_with_options(action),
            Action::PowerCut => self.power_cut(),
            Action::ClockJump => self.jump(),
            Action::Disk => {
                self.disk_left = 1 + self.chance(12);
                self.world.store.set_full(true);
                self.world.machine.note("the disk is full");
            }
            Action::IndexGate => self.toggle_index_gate(),
            Action::StoreGate => self.toggle_store_gate(),
            Action::Zombie => self.wake_a_zombie(),
            Action::Seal | Action::Read | Action::ReadPending | Action::ReadHeld => self.use_writer(action),
            Action::Crash | Action::Pause => self.harm(action),
            Action::Follow => self.follow(),
            Action::FollowRead | Action::FollowRecent | Action::FollowHeld => self.read_elsewhere(action),
            Action::FollowPause | Action::FollowEnd => self.harm_reader(action),
        }
    }

    fn use_writer(&self, action: Action) {
        let Some(writer) = self.writers.last() else { return };
        let hold = Duration::from_millis(1 << self.chance(16));
        match action {
            Action::Seal => self.world.seal(writer),
            Action::Read => self.world.read(writer, Level::Durable, None),
            Action::ReadPending => self.world.read(writer, Level::Pending, None),
            _ => self.world.read(writer, Level::Durable, Some(hold)),
        }
    }

    fn write(&mut self, action: Action) {
        let Some(writer) = self.writers.last().cloned() else { return };
        let deletes = action == Action::Delete && self.world.rows.key().is_some();
        let most = if action == Action::PutMany { 12 } else { 3 };
        let keys = if self.scenario == Scenario::Counter {
            self.idle_keys(most)
        } else if action == Action::Overwrite {
            vec![7]
        } else {
            self.random_keys(most)
        };
        if keys.is_empty() {
            return;
        }
        let kind = if deletes { OpKind::Delete(keys.clone()) } else { OpKind::Put(keys.clone()) };
        let number = self.world.write(&writer, kind, self.chance(4) == 0);
        if self.scenario == Scenario::Counter {
            self.counters.extend(keys.into_iter().map(|key| (key, number)));
        }
    }

    fn write_with_options(&mut self, action: Action) {
        let Some(writer) = self.writers.last().cloned() else { return };
        let nowait = self.chance(4) == 0;
        match action {
            // Several at once on few keys, so that most of them must lose.
            Action::Increment => {
                for _ in 0..=self.chance(3) {
                    let level = if self.chance(3) == 0 { Level::Pending } else { Level::Durable };
                    let keys = (0..=self.chance(2)).map(|_| self.chance(6) as u32).collect();
                    self.world.increment(&writer, keys, level);
                }
            }
            Action::NamedPut => {
                let number = self.world.write_named(&writer, self.random_keys(3), nowait);
                self.named.push_back(number);
                if self.named.len() > NAMED {
                    self.named.pop_front();
                }
            }
            _ => {
                let which = self.chance(self.named.len() as u64) as usize;
                if let Some(number) = self.named.get(which) {
                    self.world.repeat(&writer, *number, nowait);
                }
            }
        }
    }

    /// Some keys, one of them twice now and then.
    fn random_keys(&self, most: u64) -> Vec<u32> {
        // Few keys are written often, so that replaced rows lie in every tier.
        let key = || (self.chance(KEYS).min(self.chance(KEYS))) as u32;
        (0..=self.chance(most)).map(|_| key()).collect()
    }

    /// Different keys whose last write has an outcome, or whose writer is gone.
    fn idle_keys(&self, most: u64) -> Vec<u32> {
        let history = self.world.history.lock();
        let alive: Vec<usize> = self
            .writers
            .iter()
            .filter(|writer| writer.process.is_alive())
            .map(|writer| writer.session)
            .collect();
        let idle = |key: &u32| {
            let last = self.counters.get(key).and_then(|number| history.ops.get(number));
            last.is_none_or(|op| op.outcome != Outcome::Pending || !alive.contains(&op.session))
        };
        let mut keys: Vec<u32> = (0..=self.chance(most)).map(|_| self.chance(12) as u32).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(idle);
        keys
    }

    /// An old writer that does not know writes, seals or reads.
    fn wake_a_zombie(&mut self) {
        let zombies = self.writers.len().saturating_sub(1) as u64;
        let Some(zombie) = self.writers.get(self.chance(zombies) as usize).cloned() else { return };
        if zombies == 0 {
            return;
        }
        if zombie.process.is_paused() && self.chance(2) == 0 {
            zombie.process.resume();
        }
        match self.chance(4) {
            0 => self.world.read(&zombie, Level::Durable, None),
            1 => self.world.seal(&zombie),
            _ if self.scenario == Scenario::Counter => self.world.read(&zombie, Level::Durable, None),
            _ => {
                self.world.write(&zombie, OpKind::Put(self.random_keys(3)), self.chance(3) == 0);
            }
        }
    }

    fn harm(&mut self, action: Action) {
        let Some(writer) = self.writers.last() else { return };
        if action == Action::Pause {
            if writer.process.is_paused() {
                writer.process.resume();
            } else {
                writer.process.pause();
            }
            return;
        }
        self.world.store.count(FaultKind::CrashAnywhere);
        if let Some(writer) = self.writers.pop() {
            self.world.end(writer);
        }
    }

    async fn act_slowly(&mut self, action: Action) {
        match action {
            Action::Claim if self.writers.len() < MAX_WRITERS => {
                self.count_second_writer();
                self.open().await;
            }
            Action::Race if self.writers.len() + 1 < MAX_WRITERS => {
                self.count_second_writer();
                let (first, second) = (self.name(), self.name());
                let (one, two) = futures::future::join(
                    self.world.open(&first, OPEN_LIMIT),
                    self.world.open(&second, OPEN_LIMIT),
                )
                .await;
                let mut opened: Vec<Writer> = [one, two].into_iter().flatten().collect();
                opened.sort_by_key(|writer| writer.shard.epoch());
                self.writers.extend(opened);
            }
            Action::Close => {
                if let Some(writer) = self.writers.pop() {
                    self.world.close(writer, CLOSE_LIMIT).await;
                }
            }
            Action::Wait => {
                let millis = 1 << self.chance(14);
                self.world.machine.sleep(Duration::from_millis(millis)).await;
            }
            _ => {}
        }
    }

    /// A process that follows the shard comes, for the oldest one if there are many.
    fn follow(&mut self) {
        if self.readers.len() >= MAX_READERS {
            let oldest = self.readers.remove(0);
            self.world.end_reader(oldest);
        }
        let name = format!("r{}", self.name());
        self.readers.extend(self.world.follow(&name));
    }

    fn read_elsewhere(&mut self, action: Action) {
        self.readers.retain(|reader| reader.process.is_alive());
        if self.readers.is_empty() {
            self.follow();
        }
        let drawn = self.chance(self.readers.len() as u64) as usize;
        let Some(reader) = self.readers.get(drawn) else { return };
        let confirm = self.world.config.settings.reads.epoch_confirm_ms;
        let (recent, hold) =
            (Duration::from_millis(self.chance(confirm)), Duration::from_millis(1 << self.chance(16)));
        match action {
            Action::FollowRecent => self.world.read_followed(reader, recent, None),
            Action::FollowHeld => self.world.read_followed(reader, Duration::ZERO, Some(hold)),
            _ => self.world.read_followed(reader, Duration::ZERO, None),
        }
    }

    fn harm_reader(&mut self, action: Action) {
        let drawn = self.chance(self.readers.len() as u64) as usize;
        let Some(reader) = self.readers.get(drawn) else { return };
        if action == Action::FollowEnd {
            let reader = self.readers.remove(drawn);
            self.world.end_reader(reader);
        } else if reader.process.is_paused() {
            reader.process.resume();
        } else {
            reader.process.pause();
        }
    }

    fn count_second_writer(&self) {
        if self.writers.last().is_some_and(|writer| self.world.serves(writer)) {
            self.world.store.count(FaultKind::SecondWriter);
        }
    }

    fn power_cut(&mut self) {
        for writer in self.writers.drain(..) {
            self.world.end(writer);
        }
        for reader in self.readers.drain(..) {
            self.world.end_reader(reader);
        }
        self.world.store.power_cut();
    }

    fn jump(&self) {
        self.world.store.count(FaultKind::ClockJump);
        let millis = 1 << self.chance(16);
        if self.chance(2) == 0 {
            self.world.machine.jump(Duration::from_millis(millis));
        } else {
            let back = self.chance(2) == 0;
            self.world.machine.skew_wall_clock(if back { -(millis as i64) } else { millis as i64 });
        }
    }

    fn toggle_index_gate(&self) {
        if self.world.index_gate.is_open() {
            self.world.machine.note("the slow index stands still");
            self.world.index_gate.close();
        } else {
            self.world.machine.note("the slow index goes on");
            self.world.index_gate.open();
        }
    }

    /// Holds back all requests of one kind for a while.
    fn toggle_store_gate(&mut self) {
        if self.gates.pop().is_some() {
            return;
        }
        let kinds = [ObjectKind::Wal, ObjectKind::Manifest, ObjectKind::SsTable];
        let Some(kind) = kinds.get(self.chance(3) as usize).copied() else { return };
        self.gate_left = 1 + self.chance(15);
        self.world.machine.note(&format!("writes of {kind:?} objects are held back"));
        self.gates.push(self.world.store.gate(move |request| request.kind == kind && request.op.is_write()));
    }
}
