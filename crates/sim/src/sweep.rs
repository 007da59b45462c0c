//! The request sweep: a fixed story, and every fault at every one of its requests.
//!
//! The story: create · 3 puts · rotate · flush · delete · flush · reopen · peer claim. Its requests are
//! numbered; for each number k and each fault the story is run, stops where it fails, recovers as people
//! would (a new process opens the shard), drains, and is judged like any run. Owns: [`sweep`]. Uses the drain
//! of `scenario`.

use std::collections::BTreeMap;
use std::time::Duration;

use headwater_store::env::Env;

use crate::fault::{FaultCounts, FaultKind, Script};
use crate::history::{OpKind, Outcome, Rules, check};
use crate::rows::KeyShape;
use crate::scenario::{Driver, Scenario};
use crate::violation::Violation;
use crate::world::{World, WorldConfig, Writer, within};

/// The faults tried at each request: the four every request meets, and three harder ones.
pub const SWEPT: [FaultKind; 7] = [
    FaultKind::ErrorBefore,
    FaultKind::AnswerLost,
    FaultKind::CrashBefore,
    FaultKind::CrashAfter,
    FaultKind::LateApply,
    FaultKind::PausedBefore,
    FaultKind::PausedAfter,
];
/// Seed of the story.
const SEED: u64 = 8;
/// Longest that one step may take.
const STEP_LIMIT: Duration = Duration::from_secs(400);
/// How often a step looks whether it is done.
const LOOK: Duration = Duration::from_millis(5);

/// What the sweep found.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Requests of the story without faults, its recovery not among them.
    pub requests: u64,
    /// Runs made.
    pub runs: u64,
    /// How often each fault took effect.
    pub faults: FaultCounts,
    /// Broken promises: request, fault, promise.
    pub violations: Vec<(u64, FaultKind, Violation)>,
}

/// Runs the story once without faults and then with each fault at each request.
pub fn sweep(shape: KeyShape) -> Sweep {
    let plain = story(shape, None);
    let mut sweep =
        Sweep { requests: plain.requests, runs: 1, faults: FaultCounts::default(), violations: Vec::new() };
    let none = plain.violations.into_iter().map(|violation| (0, FaultKind::Slow, violation));
    sweep.violations.extend(none);
    for number in 1..=sweep.requests {
        for kind in SWEPT {
            let run = story(shape, Some((number, kind)));
            sweep.runs += 1;
            sweep.faults.merge(&run.faults);
            sweep.violations.extend(run.violations.into_iter().map(|violation| (number, kind, violation)));
        }
    }
    sweep
}

struct StoryRun {
    requests: u64,
    faults: FaultCounts,
    violations: Vec<Violation>,
}

fn story(shape: KeyShape, fault: Option<(u64, FaultKind)>) -> StoryRun {
    let mut config = WorldConfig::new(SEED);
    config.shape = shape;
    let confirm = Duration::from_millis(config.settings.reads.epoch_confirm_ms);
    let world = World::new(config);
    if let Some((number, kind)) = fault {
        world.store.set_script(Script::new().at(number, kind));
    }
    let mut requests = 0;
    let mut driver = Driver::new(world.clone(), Scenario::Churn);
    let run = async {
        if let Err(violation) = world.create().await {
            world.report(violation.invariant, violation.what);
            return;
        }
        // Where the story stops does not matter: what follows must be right in any case.
        let _stopped = tell(&world, &mut driver.writers).await;
        requests = world.store.requests();
        driver.drain().await;
    };
    if let Err(stuck) = world.machine.try_block_on(run) {
        world.report("L1", format!("the story does not end: {stuck}"));
    }
    drop(driver);
    world.machine.shut_down();
    let mut violations = world.audit.violations();
    let rules = Rules { keyed: shape != KeyShape::None, confirm };
    violations.extend(check(&world.history.lock(), &world.audit.entries(), &rules));
    violations.extend(world.machine.panics().into_iter().map(|panic| Violation::new("P14", panic)));
    StoryRun { requests, faults: world.store.counts(), violations }
}

/// A step of the story failed; the rest is not told.
struct Stopped;

/// Tells the story up to where it fails.
async fn tell(world: &World, writers: &mut Vec<Writer>) -> Result<(), Stopped> {
    let first = open(world, writers, "first").await?;
    for keys in [vec![1, 2], vec![2, 3], vec![4]] {
        write(world, &first, OpKind::Put(keys)).await?;
    }
    seal(world, &first).await?;
    let gone = if world.rows.key().is_some() { OpKind::Delete(vec![2, 9]) } else { OpKind::Put(vec![9]) };
    write(world, &first, gone).await?;
    seal(world, &first).await?;
    write(world, &first, OpKind::Put(vec![5])).await?;
    writers.retain(|writer| writer.session != first.session);
    world.end(first);

    let second = open(world, writers, "second").await?;
    write(world, &second, OpKind::Put(vec![6])).await?;
    let peer = open(world, writers, "peer").await?;
    if write(world, &second, OpKind::Put(vec![7])).await.is_ok() {
        world.report("P7", "a writer whose shard was claimed acknowledges a put");
    }
    write(world, &peer, OpKind::Put(vec![8])).await
}

async fn open(world: &World, writers: &mut Vec<Writer>, name: &str) -> Result<Writer, Stopped> {
    let writer = world.open(name, STEP_LIMIT).await.map_err(|_| Stopped)?;
    writers.push(writer.clone());
    Ok(writer)
}

async fn write(world: &World, writer: &Writer, kind: OpKind) -> Result<(), Stopped> {
    let number = world.write(writer, kind, false);
    settle(world, writer).await?;
    let history = world.history.lock();
    let outcome = history.ops.get(&number).map(|op| op.outcome);
    if matches!(outcome, Some(Outcome::Acked(_))) { Ok(()) } else { Err(Stopped) }
}

async fn seal(world: &World, writer: &Writer) -> Result<(), Stopped> {
    world.seal(writer);
    settle(world, writer).await
}

/// Waits until nothing of the writer is in flight.
async fn settle(world: &World, writer: &Writer) -> Result<(), Stopped> {
    let done = async {
        while writer.process.is_alive() && writer.in_flight.count() > 0 {
            world.machine.sleep(LOOK).await;
        }
    };
    let ended = within(&world.machine, STEP_LIMIT, done).await;
    if ended.is_some() && writer.process.is_alive() { Ok(()) } else { Err(Stopped) }
}

impl std::fmt::Display for Sweep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "sweep: {} requests, {} runs, {} violations",
            self.requests,
            self.runs,
            self.violations.len()
        )?;
        for kind in SWEPT {
            writeln!(f, "{:>9} {kind}", self.faults.get(kind))?;
        }
        let mut places: BTreeMap<(u64, FaultKind), &Violation> = BTreeMap::new();
        for (number, kind, violation) in &self.violations {
            places.entry((*number, *kind)).or_insert(violation);
        }
        places.iter().try_for_each(|((number, kind), violation)| {
            writeln!(f, "  request {number}, {kind}: {violation}")
        })
    }
}
