//! Null controls: a promise that cannot hold is seen to be broken.

use std::time::Duration;

use headwater_sim::history::{History, Level, OpKind, Rules, check};
use headwater_sim::world::{World, WorldConfig};
use headwater_store::env::Env;

const LIMIT: Duration = Duration::from_secs(60);

/// Puts three rows, cuts the power, reads everything back from a new process; the ids of what is wrong.
fn power_cut_story(seed: u64, fsync: bool) -> Vec<&'static str> {
    let mut config = WorldConfig::new(seed);
    config.slow_index = None;
    let world = World::new(config);
    let machine = world.machine.clone();
    machine.block_on(async {
        world.create().await.unwrap();
        let writer = world.open("first", LIMIT).await.unwrap();
        world.store.set_fsync(fsync);
        for key in 10..13 {
            world.write(&writer, OpKind::Put(vec![key]), false);
            while writer.in_flight.count() > 0 {
                machine.sleep(Duration::from_millis(1)).await;
            }
        }
        world.end(writer);
        world.store.power_cut();
        let Ok(writer) = world.open("second", LIMIT).await else { return };
        world.read_once(&writer, Level::Durable, true).await;
    });
    let history: History = world.history.lock().clone();
    assert_eq!(history.acked(), 3);
    let rules = Rules { keyed: true, confirm: Duration::from_secs(5) };
    check(&history, &world.audit.entries(), &rules).iter().map(|violation| violation.invariant).collect()
}

#[test]
fn with_fsync_a_power_cut_loses_nothing_acknowledged() {
    for seed in 0..20 {
        assert_eq!(power_cut_story(seed, true), [""; 0], "seed {seed}");
    }
}

#[test]
fn without_fsync_a_power_cut_loses_acknowledged_rows_and_the_checker_sees_it() {
    let caught = (0..20).filter(|seed| power_cut_story(*seed, false).contains(&"P1")).count();
    assert!(caught > 5, "seen with {caught} of 20 seeds");
}
