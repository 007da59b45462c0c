//! The seeded machine: one seed, one run; timers; crash; pause; deadlock.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::channel::{mpsc, oneshot};
use futures::stream::StreamExt;
use parking_lot::Mutex;

use super::{SeededEnv, SeededProcess, Stuck};
use crate::env::{Env, EnvExt, TaskFailed};

/// Ten tasks that sleep, wake each other and write down who ran; returns their order and the trace.
fn story(seed: u64) -> (Vec<u64>, u64) {
    let env = SeededEnv::new(seed);
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = (0..10)
        .map(|id| {
            let (inner, order) = (env.clone(), Arc::clone(&order));
            env.spawn(
                "worker",
                async move {
                    for _ in 0..5 {
                        inner.sleep(Duration::from_millis(inner.random() % 3)).await;
                        order.lock().push(id);
                        inner.blocking(|| ()).await.unwrap();
                    }
                }
                .boxed(),
            )
        })
        .collect();
    env.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    let order = order.lock().clone();
    (order, env.trace())
}

#[test]
fn one_seed_gives_the_same_run_twice() {
    for seed in 0..20 {
        assert_eq!(story(seed), story(seed), "seed {seed}");
    }
}

#[test]
fn seeds_differ_in_order_and_trace() {
    let runs: Vec<_> = (0..20).map(story).collect();
    for pair in runs.windows(2) {
        assert_ne!(pair.first().unwrap().0, pair.last().unwrap().0);
        assert_ne!(pair.first().unwrap().1, pair.last().unwrap().1);
    }
}

/// Twenty tasks wait for one `watch`, which wakes them in an order it draws itself.
fn watch_story() -> (Vec<u64>, u64) {
    let env = SeededEnv::new(4);
    let order = Arc::new(Mutex::new(Vec::new()));
    let sender = tokio::sync::watch::Sender::new(false);
    for id in 0..20 {
        let (mut receiver, order) = (sender.subscribe(), Arc::clone(&order));
        let waits = async move {
            receiver.wait_for(|open| *open).await.unwrap();
            order.lock().push(id);
        };
        env.spawn("waiter", waits.boxed()).detach();
    }
    env.block_on(env.sleep(Duration::from_millis(1)));
    sender.send_replace(true);
    env.block_on(env.sleep(Duration::from_millis(1)));
    let order = order.lock().clone();
    (order, env.trace())
}

#[test]
fn the_order_in_which_a_channel_wakes_its_waiters_does_not_matter() {
    let first = watch_story();
    assert_eq!(first.0.len(), 20);
    for _ in 0..10 {
        assert_eq!(watch_story(), first);
    }
}

#[test]
fn a_note_changes_the_trace_and_is_kept() {
    let (first, second) = (SeededEnv::new(3), SeededEnv::new(3));
    assert_eq!(first.trace(), second.trace());
    first.note("something happened");
    assert_ne!(first.trace(), second.trace());
    assert!(first.notes().first().unwrap().ends_with("something happened"));
}

#[test]
fn the_clock_moves_only_when_nothing_is_ready() {
    let env = SeededEnv::new(1);
    let spins = Arc::new(AtomicU64::new(0));
    let (spinner, count) = (env.clone(), Arc::clone(&spins));
    env.spawn(
        "spinner",
        async move {
            for _ in 0..1000 {
                spinner.blocking(|| ()).await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        .boxed(),
    )
    .detach();
    env.block_on(env.sleep(Duration::from_nanos(1)));
    assert_eq!(spins.load(Ordering::Relaxed), 1000);
    assert_eq!(env.now(), Duration::from_nanos(1));
}

#[test]
fn timers_fire_in_order_of_their_deadlines() {
    let env = SeededEnv::new(9);
    let fired = Arc::new(Mutex::new(Vec::new()));
    for millis in [30_u64, 10, 20] {
        let (inner, fired) = (env.clone(), Arc::clone(&fired));
        let sleep = async move {
            inner.sleep(Duration::from_millis(millis)).await;
            fired.lock().push((millis, inner.now()));
        };
        env.spawn("timer", sleep.boxed()).detach();
    }
    env.block_on(env.sleep(Duration::from_millis(40)));
    let expected: Vec<_> = [10, 20, 30].map(|millis| (millis, Duration::from_millis(millis))).into();
    assert_eq!(*fired.lock(), expected);
}

#[test]
fn a_dropped_timer_does_not_move_the_clock() {
    let env = SeededEnv::new(9);
    env.block_on(async {
        let mut long = env.sleep(Duration::from_secs(100));
        assert!((&mut long).now_or_never().is_none());
        drop(long);
        env.sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(env.now(), Duration::from_secs(1));
    let deadlock = env.try_block_on(futures::future::pending::<()>());
    assert!(matches!(deadlock, Err(Stuck::Deadlock { now, .. }) if now == Duration::from_secs(1)));
}

#[test]
fn a_clock_jump_fires_what_is_due() {
    let env = SeededEnv::new(2);
    let inner = env.clone();
    let task = env.spawn("sleeper", async move { inner.sleep(Duration::from_secs(50)).await }.boxed());
    env.block_on(env.sleep(Duration::from_secs(1)));
    env.jump(Duration::from_secs(60));
    env.block_on(task).unwrap();
    assert_eq!(env.now(), Duration::from_secs(61));
}

/// A value that writes down when it is dropped.
struct Tell(Arc<AtomicU64>);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn spawn_waiting(process: &SeededProcess, dropped: &Arc<AtomicU64>, steps: u64) {
    let (tell, env) = (Tell(Arc::clone(dropped)), process.clone());
    let waits = async move {
        for _ in 0..steps {
            env.sleep(Duration::from_millis(1)).await;
        }
        futures::future::pending::<()>().await;
        drop(tell);
    };
    process.spawn("waiting", waits.boxed()).detach();
}

#[test]
fn a_crash_drops_every_task_of_its_process_and_no_other() {
    let env = SeededEnv::new(5);
    let (one, two) = (env.process("one"), env.process("two"));
    let (dropped_one, dropped_two) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for steps in 0..6 {
        spawn_waiting(&one, &dropped_one, steps);
        spawn_waiting(&two, &dropped_two, steps);
    }
    env.block_on(env.sleep(Duration::from_millis(3)));
    one.crash();
    assert_eq!(dropped_one.load(Ordering::Relaxed), 6);
    assert_eq!(dropped_two.load(Ordering::Relaxed), 0);
    assert!(!one.is_alive() && two.is_alive());

    spawn_waiting(&one, &dropped_one, 0);
    assert_eq!(dropped_one.load(Ordering::Relaxed), 7, "a dead process runs nothing");
    env.shut_down();
    assert_eq!(dropped_two.load(Ordering::Relaxed), 6);
}

#[test]
fn a_task_that_crashes_its_own_process_makes_no_further_step() {
    let env = SeededEnv::new(5);
    let process = env.process("suicidal");
    let after = Arc::new(AtomicU64::new(0));
    let (inner, count) = (process.clone(), Arc::clone(&after));
    let task = process.spawn(
        "self",
        async move {
            inner.sleep(Duration::from_millis(1)).await;
            inner.crash();
            inner.sleep(Duration::from_millis(1)).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
        .boxed(),
    );
    assert_eq!(env.block_on(task), Err(TaskFailed));
    env.block_on(env.sleep(Duration::from_secs(1)));
    assert_eq!(after.load(Ordering::Relaxed), 0);
}

#[test]
fn a_paused_process_makes_no_step_until_it_resumes() {
    let env = SeededEnv::new(6);
    let process = env.process("stalled");
    let (sender, mut receiver) = mpsc::unbounded();
    let inner = process.clone();
    let beat = async move {
        loop {
            inner.sleep(Duration::from_millis(10)).await;
            if sender.unbounded_send(inner.now()).is_err() {
                return;
            }
        }
    };
    process.spawn("beat", beat.boxed()).detach();
    env.block_on(env.sleep(Duration::from_millis(25)));
    process.pause();
    env.block_on(env.sleep(Duration::from_secs(3600)));
    let mut seen = Vec::new();
    while let Ok(beat) = receiver.try_recv() {
        seen.push(beat);
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
    process.resume();
    let next = env.block_on(receiver.next()).unwrap();
    assert!(next >= Duration::from_secs(3600), "the stalled beat wakes late: {next:?}");
}

#[test]
fn a_crash_while_paused_drops_the_parked_tasks() {
    let env = SeededEnv::new(6);
    let process = env.process("stalled");
    let dropped = Arc::new(AtomicU64::new(0));
    spawn_waiting(&process, &dropped, 3);
    process.pause();
    env.block_on(env.sleep(Duration::from_secs(1)));
    process.crash();
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn a_cancelled_task_is_dropped_at_its_await() {
    let env = SeededEnv::new(7);
    let dropped = Arc::new(AtomicU64::new(0));
    let tell = Tell(Arc::clone(&dropped));
    let task = env.spawn(
        "cancelled",
        async move {
            futures::future::pending::<()>().await;
            drop(tell);
        }
        .boxed(),
    );
    env.block_on(env.sleep(Duration::from_millis(1)));
    task.cancel();
    env.block_on(env.sleep(Duration::from_millis(1)));
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn a_panic_ends_its_task_only_and_is_told() {
    let env = SeededEnv::new(8);
    let task = env.spawn("broken", async { panic!("as planned") }.boxed());
    assert_eq!(env.block_on(task), Err(TaskFailed));
    assert_eq!(env.block_on(env.blocking(|| -> u8 { panic!("in a thread") })), Err(TaskFailed));
    assert_eq!(env.panics(), ["broken: as planned", "blocking: in a thread"]);
}

#[test]
fn blocking_work_runs_even_when_nobody_waits() {
    let env = SeededEnv::new(8);
    let (sender, receiver) = oneshot::channel();
    drop(env.run_blocking(Box::new(move || {
        let _ = sender.send(7);
    })));
    assert_eq!(env.block_on(receiver), Ok(7));
}

#[test]
fn a_deadlock_is_told_with_the_tasks_that_wait() {
    let env = SeededEnv::new(11);
    let process = env.process("writer");
    process.spawn("conductor", futures::future::pending().boxed()).detach();
    let stuck = env.try_block_on(futures::future::pending::<()>()).unwrap_err();
    assert!(stuck.to_string().contains("deadlock"), "{stuck}");
    assert!(stuck.to_string().contains("writer/conductor"), "{stuck}");
}

#[test]
fn a_livelock_ends_at_the_step_limit() {
    let env = SeededEnv::new(12).with_step_limit(1000);
    let inner = env.clone();
    let spin = async move {
        loop {
            inner.blocking(|| ()).await.unwrap();
        }
    };
    assert!(matches!(env.try_block_on(spin), Err(Stuck::StepLimit { .. })));
}

#[test]
fn block_on_inside_a_task_is_refused() {
    let env = SeededEnv::new(13);
    let inner = env.clone();
    let nested = env.block_on(async move { inner.try_block_on(async {}) });
    assert_eq!(nested, Err(Stuck::Nested { seed: 13 }));
}

#[test]
fn uuids_and_the_wall_clock_follow_from_the_seed() {
    let (first, second) = (SeededEnv::new(14), SeededEnv::new(14));
    assert_eq!(first.uuid(), second.uuid());
    assert_ne!(first.uuid(), first.uuid());
    assert_eq!(first.uuid().get_version_num(), 4);
    let before = first.wall_clock();
    first.skew_wall_clock(-5_000);
    assert_eq!(before.duration_since(first.wall_clock()).unwrap(), Duration::from_secs(5));
    assert_eq!(first.now(), Duration::ZERO);
}
