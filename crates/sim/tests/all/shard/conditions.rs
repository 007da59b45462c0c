//! Conditional writes: written only if no key of them was written since a snapshot.

use std::time::Duration;

use headwater_engine::snapshot::ReadLevel;
use headwater_engine::{ShardError, Unchanged};
use headwater_format::coord::{Epoch, Seq};
use headwater_sim::fault::ObjectKind;
use headwater_sim::rows::KeyShape;

use super::world::{World, Writer, ops, rows_limit};

async fn now(writer: &Writer, level: ReadLevel) -> Unchanged {
    writer.shard.snapshot(level).await.unwrap().unchanged()
}

fn refused<T: std::fmt::Debug>(result: Result<T, ShardError>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, ShardError::ConditionFailed { .. }), "{error}");
    assert!(!error.is_retryable(), "not the same call: it must be decided anew");
    error.to_string()
}

#[test]
fn a_put_is_refused_whole_when_one_of_its_keys_was_written_since_p3() {
    for shape in [KeyShape::Int, KeyShape::Text, KeyShape::Composite] {
        let world = World::with_key(1, shape);
        world.run(async {
            let writer = world.open("a").await.unwrap();
            writer.shard.put(world.rows.put(1, &[1, 2])).await.unwrap();
            let before = now(&writer, ReadLevel::Durable).await;
            writer.shard.put(world.rows.put(2, &[2])).await.unwrap();
            let told = refused(writer.shard.put_if(world.rows.put(3, &[1, 5, 2]), before).await);
            assert!(told.contains("row 2") && told.contains("read the rows again"), "{told}");
            refused(writer.shard.delete_if(world.rows.keys(&[2]), before).await);
            assert_eq!(ops(&writer.live(&world.rows, ReadLevel::Pending).await), [(1, 1), (2, 2)]);
            // Other keys, known or new, are as they were; a key may come twice.
            writer.shard.put_if(world.rows.put(4, &[1, 5, 5]), before).await.unwrap();
            let after = now(&writer, ReadLevel::Durable).await;
            writer.shard.delete_if(world.rows.keys(&[2]), after).await.unwrap();
            assert_eq!(ops(&writer.live(&world.rows, ReadLevel::Durable).await), [(1, 4), (5, 4)]);
            assert_eq!(writer.shard.stats().counters.failed_conditions, 2);
        });
    }
}

#[test]
fn tombstones_and_rows_that_are_not_durable_count() {
    let world = World::new(2);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let before = now(&writer, ReadLevel::Durable).await;
        writer.shard.delete(world.rows.keys(&[1])).await.unwrap();
        refused(writer.shard.put_if(world.rows.put(2, &[1]), before).await);
        let gate = world.gate_puts(ObjectKind::Wal);
        let pending = writer.shard.put_nowait(world.rows.put(3, &[1])).await.unwrap();
        let durable = now(&writer, ReadLevel::Durable).await;
        refused(writer.shard.put_if(world.rows.put(4, &[1]), durable).await);
        // Decided on what is pending: whatever becomes of that, becomes of both.
        let seen = now(&writer, ReadLevel::Pending).await;
        let options = headwater_engine::WriteOptions { unchanged: Some(seen), ..Default::default() };
        let next = writer.shard.put_nowait_with(world.rows.put(5, &[1]), options).await.unwrap();
        gate.release();
        assert!(pending.await.unwrap().end < next.await.unwrap().end);
        assert_eq!(ops(&writer.live(&world.rows, ReadLevel::Durable).await), [(1, 5)]);
    });
}

#[test]
fn of_two_conditional_puts_on_one_snapshot_the_first_wins() {
    let world = World::new(3);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let start = now(&writer, ReadLevel::Durable).await;
        let (one, two) = futures::future::join(
            writer.shard.put_if(world.rows.put(1, &[1]), start),
            writer.shard.put_if(world.rows.put(2, &[1]), start),
        )
        .await;
        assert_eq!(usize::from(one.is_ok()) + usize::from(two.is_ok()), 1);
        refused(one.and(two));
    });
}

#[test]
fn rows_in_frozen_memtables_count_and_rows_that_left_memory_count_as_changed() {
    let world = World::new(4);
    world.run(async {
        let writer = world.open_with("a", rows_limit(2), |_| {}).await.unwrap();
        let start = now(&writer, ReadLevel::Durable).await;
        let gate = world.gate_puts(ObjectKind::SsTable);
        writer.shard.put(world.rows.put(1, &[1, 2])).await.unwrap();
        let middle = now(&writer, ReadLevel::Durable).await;
        writer.shard.put(world.rows.put(2, &[3, 4])).await.unwrap();
        assert_eq!(writer.shard.stats().frozen, 2);
        refused(writer.shard.put_if(world.rows.put(3, &[1]), start).await);
        refused(writer.shard.put_if(world.rows.put(3, &[4]), middle).await);
        writer.shard.put_if(world.rows.put(4, &[1, 9]), middle).await.unwrap();
        gate.release();
        world.pass(Duration::from_secs(30)).await;
        assert_eq!(writer.shard.stats().frozen, 0);
        let told = refused(writer.shard.put_if(world.rows.put(5, &[7]), middle).await);
        assert!(told.contains("left memory"), "{told}");
        let end = now(&writer, ReadLevel::Durable).await;
        writer.shard.put_if(world.rows.put(6, &[7, 1]), end).await.unwrap();
        let live = writer.live_everywhere(&world.rows).await;
        assert_eq!(live, [(1, 6), (2, 1), (3, 2), (4, 2), (7, 6), (9, 4)].into());
    });
}

#[test]
fn a_snapshot_of_another_writer_decides_nothing() {
    let world = World::new(5);
    world.run(async {
        let old = world.open("a").await.unwrap();
        old.shard.put(world.rows.put(1, &[1])).await.unwrap();
        let before = now(&old, ReadLevel::Durable).await;
        old.process.crash();
        let new = world.open("b").await.unwrap();
        let told = refused(new.shard.put_if(world.rows.put(2, &[2]), before).await);
        assert!(told.contains("epoch"), "{told}");
        let again = now(&new, ReadLevel::Durable).await;
        new.shard.put_if(world.rows.put(3, &[1]), again).await.unwrap();
        assert_eq!(new.live_everywhere(&world.rows).await, [(1, 3)].into());
    });
}

#[test]
fn a_condition_that_cannot_be_is_invalid() {
    let world = World::new(6);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let ahead = Unchanged::Since { seq: Seq::new(2), epoch: writer.shard.epoch() };
        let error = writer.shard.put_if(world.rows.put(1, &[1]), ahead).await.unwrap_err();
        assert!(matches!(error, ShardError::Invalid { .. }), "{error}");
        assert_eq!(writer.shard.stats().counters.puts, 0);
        let read = world.look().await;
        assert_eq!(read.unchanged(), Unchanged::Unknown, "its numbers mean nothing to a writer");
        let told = refused(writer.shard.put_if(world.rows.put(1, &[1]), read.unchanged()).await);
        assert!(told.contains("others"), "{told}");
    });
    let keyless = World::with_key(7, KeyShape::None);
    keyless.run(async {
        let writer = keyless.open("a").await.unwrap();
        let any = Unchanged::Since { seq: Seq::new(1), epoch: Epoch::new(1) };
        let error = writer.shard.put_if(keyless.rows.put(1, &[1]), any).await.unwrap_err();
        assert!(matches!(error, ShardError::Invalid { .. }), "{error}");
    });
}
