//! When requests are sent, and how long they take.
//!
//! Owns: the open loop, where requests are due at fixed times whatever became of those before, and latency
//! counts from the time a request was due, so that one that has to wait for a worker is as late as its
//! client would find it; and the closed loop, where each worker sends its next request when the last one is
//! answered. Does not own: what is sent (`targets`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use tokio::sync::Semaphore;

/// From the decision to begin to the first request: workers wait by then.
const LEAD: Duration = Duration::from_millis(50);
/// How much longer than planned a run may take, as a share, before requests that are due go unsent.
const GRACE: f64 = 0.5;
/// How often the end of a late run is looked for.
const LOOK: Duration = Duration::from_millis(1);
/// Microseconds of the longest latency that is told from longer ones.
const LONGEST: u64 = 600_000_000;

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It changes rows.
    Write,
    /// It changes none.
    Read,
}

/// What requests are sent to.
pub trait Target: Send + Sync + 'static {
    /// What the request of a number is.
    fn kind(&self, _number: u64) -> Kind {
        Kind::Write
    }

    /// Sends it, and waits for the reply.
    fn send(&self, worker: usize, number: u64) -> impl Future<Output = Result<()>> + Send;
}

/// An open loop.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Requests a second.
    pub rate: f64,
    /// For how long.
    pub seconds: f64,
    /// Requests under way at once, at most.
    pub workers: usize,
}

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// Answers a second.
    pub achieved: f64,
    /// Good answers.
    pub answered: u64,
    /// Microseconds of writes that were answered, or went unsent.
    pub writes: Histogram<u64>,
    /// The same of reads.
    pub reads: Histogram<u64>,
    /// Bad answers, and none at all. Not in the histograms.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<String>,
    /// Requests that were due and not sent when the run ended. In the histograms with the time they waited.
    pub unsent: u64,
}

impl Outcome {
    fn of(tallies: Vec<Tally>, seconds: f64) -> Result<Self> {
        let mut outcome = Self {
            achieved: 0.0,
            answered: 0,
            writes: Histogram::new_with_bounds(1, LONGEST, 3)?,
            reads: Histogram::new_with_bounds(1, LONGEST, 3)?,
            errors: 0,
            first_error: None,
            unsent: 0,
        };
        for tally in tallies {
            outcome.answered += tally.taken.len() as u64;
            for (kind, took) in tally.taken {
                outcome.record(kind, took);
            }
            outcome.errors += tally.errors;
            outcome.first_error = outcome.first_error.or(tally.first_error);
        }
        outcome.achieved = outcome.answered as f64 / seconds;
        Ok(outcome)
    }

    fn record(&mut self, kind: Kind, took: Duration) {
        let histogram = match kind {
            Kind::Write => &mut self.writes,
            Kind::Read => &mut self.reads,
        };
        histogram.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST).max(1));
    }
}

/// What one worker found.
#[derive(Debug, Default)]
struct Tally {
    taken: Vec<(Kind, Duration)>,
    errors: u64,
    first_error: Option<String>,
}

impl Tally {
    fn add(&mut self, kind: Kind, since: Instant, answer: Result<()>) {
        match answer {
            Ok(()) => self.taken.push((kind, since.elapsed())),
            Err(error) => {
                self.errors += 1;
                self.first_error.get_or_insert_with(|| format!("{error:#}"));
            }
        }
    }
}

/// When requests of an open loop are due, and how far it is.
struct Schedule {
    begin: Instant,
    end: Instant,
    rate: f64,
    requests: u64,
    due: Semaphore,
    next: AtomicU64,
}

impl Schedule {
    fn new(plan: Plan) -> Self {
        let begin = Instant::now() + LEAD;
        Self {
            begin,
            end: begin + Duration::from_secs_f64(plan.seconds * (1.0 + GRACE)),
            rate: plan.rate,
            requests: (plan.rate * plan.seconds).ceil() as u64,
            due: Semaphore::new(0),
            next: AtomicU64::new(0),
        }
    }

    fn due_at(&self, number: u64) -> Instant {
        self.begin + Duration::from_secs_f64(number as f64 / self.rate)
    }

    /// Lets requests go when they are due, then waits until all have gone, or the end. In a thread of its
    /// own: timers of the runtime are a millisecond coarse.
    fn pace(&self) {
        let mut released = 0;
        while released < self.requests {
            thread::sleep(self.due_at(released).saturating_duration_since(Instant::now()));
            let passed = Instant::now().saturating_duration_since(self.begin).as_secs_f64();
            // At least the one that was waited for; rounding may say otherwise.
            let due = ((passed * self.rate) as u64 + 1).clamp(released + 1, self.requests);
            self.due.add_permits(usize::try_from(due - released).unwrap_or(0));
            released = due;
        }
        while self.next.load(Ordering::Acquire) < self.requests && Instant::now() < self.end {
            thread::sleep(LOOK);
        }
        self.due.close();
    }

    async fn work<T: Target>(&self, target: &T, worker: usize) -> Tally {
        let mut tally = Tally::default();
        while let Ok(permit) = self.due.acquire().await {
            permit.forget();
            let number = self.next.fetch_add(1, Ordering::AcqRel);
            let answer = target.send(worker, number).await;
            tally.add(target.kind(number), self.due_at(number), answer);
        }
        tally
    }
}

/// Runs an open loop.
pub async fn open<T: Target>(target: &Arc<T>, plan: Plan) -> Result<Outcome> {
    let schedule = Arc::new(Schedule::new(plan));
    let workers: Vec<_> = (0..plan.workers)
        .map(|worker| {
            let (target, schedule) = (Arc::clone(target), Arc::clone(&schedule));
            tokio::spawn(async move { schedule.work(target.as_ref(), worker).await })
        })
        .collect();
    let pacer = Arc::clone(&schedule);
    let pacer = thread::spawn(move || pacer.pace());
    let mut tallies = Vec::with_capacity(workers.len());
    for worker in workers {
        tallies.push(worker.await?);
    }
    let ended = Instant::now();
    pacer.join().map_err(|_panic| anyhow!("the thread that paces requests panicked"))?;
    // Answers that came early do not make it faster than it was asked to be.
    let seconds = ended.duration_since(schedule.begin).as_secs_f64().max(plan.seconds);
    let mut outcome = Outcome::of(tallies, seconds)?;
    for number in schedule.next.load(Ordering::Acquire)..schedule.requests {
        outcome.unsent += 1;
        outcome.record(target.kind(number), ended.saturating_duration_since(schedule.due_at(number)));
    }
    Ok(outcome)
}

/// Runs a closed loop.
pub async fn closed<T: Target>(target: &Arc<T>, workers: usize, seconds: f64) -> Result<Outcome> {
    let next = Arc::new(AtomicU64::new(0));
    let begin = Instant::now();
    let end = begin + Duration::from_secs_f64(seconds);
    let workers: Vec<_> = (0..workers)
        .map(|worker| {
            let (target, next) = (Arc::clone(target), Arc::clone(&next));
            tokio::spawn(async move {
                let mut tally = Tally::default();
                while Instant::now() < end {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let sent = Instant::now();
                    let answer = target.send(worker, number).await;
                    tally.add(target.kind(number), sent, answer);
                }
                tally
            })
        })
        .collect();
    let mut tallies = Vec::with_capacity(workers.len());
    for worker in workers {
        tallies.push(worker.await?);
    }
    Outcome::of(tallies, begin.elapsed().as_secs_f64())
}
