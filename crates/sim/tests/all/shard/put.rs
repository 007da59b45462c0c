//! Putting: when rows are visible, durable, grouped, refused.

use std::time::Duration;

use headwater_engine::settings::ShardSettings;
use headwater_engine::snapshot::ReadLevel;
use headwater_engine::{ShardError, Ticket};
use headwater_format::wal_entry::WalBody;
use headwater_sim::fault::ObjectKind;
use headwater_sim::rows::{KeyShape, Rows};

use super::world::{World, Writer, ops, rows_limit};

#[test]
fn a_put_is_acknowledged_only_after_its_own_wal_object_lance_6368_p1() {
    let world = World::new(1);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let gate = world.gate_puts(ObjectKind::Wal);
        let ticket = writer.shard.put_nowait(world.rows.put(1, &[1, 2])).await.unwrap();
        world.pass(Duration::from_millis(1500)).await;
        assert_eq!(gate.held(), 1);
        assert_eq!(world.entries().len(), 0);
        assert_eq!(writer.live(&world.rows, ReadLevel::Durable).await, []);
        assert_eq!(ops(&writer.live(&world.rows, ReadLevel::Pending).await), [(1, 1), (2, 1)]);
        gate.release();
        let ack = ticket.await.unwrap();
        assert_eq!((ack.first.get(), ack.end.get(), ack.position.get()), (1, 3, 1));
        assert_eq!(world.entries().len(), 1);
        assert_eq!(ops(&writer.live(&world.rows, ReadLevel::Durable).await), [(1, 1), (2, 1)]);
    });
}

#[test]
fn puts_that_come_while_a_put_is_in_flight_share_one_entry() {
    let world = World::new(2);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let gate = world.gate_puts(ObjectKind::Wal);
        let mut tickets = Vec::new();
        for op in 1..=10 {
            tickets.push(writer.shard.put_nowait(world.rows.put(op, &[op as u32])).await.unwrap());
        }
        gate.release();
        let mut positions = Vec::new();
        for ticket in tickets {
            positions.push(ticket.await.unwrap().position.get());
        }
        assert_eq!(positions, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
        let WalBody::Rows { batches, generation } =
            &world.entries().into_values().nth(1).unwrap().body.clone()
        else {
            panic!("rows expected")
        };
        assert_eq!(generation.unwrap().get(), 1);
        assert_eq!(batches.iter().map(|batch| batch.num_rows()).collect::<Vec<_>>(), [9]);
    });
}

#[test]
fn a_linger_gathers_puts_that_come_one_after_another() {
    let world = World::new(3);
    world.run(async {
        let mut settings = ShardSettings::default();
        settings.wal.linger_ms = 50;
        let writer = world.open_with("a", settings, |_| {}).await.unwrap();
        let mut tickets = Vec::new();
        for op in 1..=4 {
            tickets.push(writer.shard.put_nowait(world.rows.put(op, &[op as u32])).await.unwrap());
            world.pass(Duration::from_millis(5)).await;
        }
        for ticket in tickets {
            assert_eq!(ticket.await.unwrap().position.get(), 1);
        }
    });
}

/// Two puts: the first alone in a PUT that takes 40 ms and ends now, the second waiting for it.
async fn one_on_its_way_and_one_behind_it(world: &World, writer: &Writer) -> [Ticket; 2] {
    let gate = world.gate_puts(ObjectKind::Wal);
    let first = writer.shard.put_nowait(world.rows.put(1, &[1])).await.unwrap();
    let second = writer.shard.put_nowait(world.rows.put(2, &[2])).await.unwrap();
    world.pass(Duration::from_millis(40)).await;
    gate.release();
    [first, second]
}

#[test]
fn clients_answered_by_a_slow_put_share_the_next_one_with_those_that_waited() {
    let world = World::new(3);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let [first, second] = one_on_its_way_and_one_behind_it(&world, &writer).await;
        assert_eq!(first.await.unwrap().position.get(), 1);
        let again = writer.shard.put_nowait(world.rows.put(3, &[1])).await.unwrap();
        assert_eq!(again.await.unwrap().position, second.await.unwrap().position);
        // Nobody else is expected, so a client that comes much later goes alone and at once.
        world.pass(Duration::from_millis(40)).await;
        assert_eq!(writer.shard.put(world.rows.put(4, &[1])).await.unwrap().position.get(), 3);
    });
}

#[test]
fn a_put_waits_for_company_no_longer_than_a_part_of_the_put_before() {
    let world = World::new(3);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let [first, second] = one_on_its_way_and_one_behind_it(&world, &writer).await;
        first.await.unwrap();
        // The client of the first put does not come back.
        let asked = world.machine.env().now();
        assert_eq!(second.await.unwrap().position.get(), 2);
        assert!(world.machine.env().now() - asked < Duration::from_millis(50));
    });
}

#[test]
fn the_newest_row_of_a_key_wins_within_and_across_memtables_p4() {
    let world = World::new(4);
    world.run(async {
        let writer = world.open_with("a", rows_limit(3), |_| {}).await.unwrap();
        let gate = world.gate_puts(ObjectKind::SsTable);
        writer.shard.put(world.rows.put(1, &[1, 1, 2])).await.unwrap();
        let before = writer.shard.snapshot(ReadLevel::Durable).await.unwrap();
        writer.shard.put(world.rows.put(2, &[1])).await.unwrap();
        writer.shard.delete(world.rows.keys(&[2])).await.unwrap();
        assert_eq!(writer.shard.stats().frozen, 1);
        assert_eq!(ops(&writer.live(&world.rows, ReadLevel::Durable).await), [(1, 2)]);
        // P6: the older snapshot still reads what it read.
        let rows: Vec<_> =
            before.live_rows().unwrap().iter().flat_map(|b| world.rows.read(b).unwrap()).collect();
        assert_eq!(ops(&rows), [(1, 1), (2, 1)]);
        gate.release();
    });
}

#[test]
fn a_table_without_a_key_keeps_every_row_and_refuses_deletes() {
    let world = World::with_key(5, KeyShape::None);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        writer.shard.put(world.rows.put(1, &[1, 1, 1])).await.unwrap();
        assert_eq!(writer.live(&world.rows, ReadLevel::Durable).await.len(), 3);
        let keys = Rows::new(KeyShape::Int).keys(&[1]);
        let refused = writer.shard.delete(keys).await.unwrap_err();
        assert!(matches!(refused, ShardError::Invalid { .. }), "{refused}");
    });
}

#[test]
fn wrong_rows_are_refused_and_nothing_is_written() {
    let world = World::new(6);
    world.run(async {
        let writer = world.open_with("a", rows_limit(4), |_| {}).await.unwrap();
        let too_many = writer.shard.put(world.rows.put(1, &[1, 2, 3, 4, 5])).await.unwrap_err();
        assert!(too_many.to_string().contains("freeze.max_rows"), "{too_many}");
        let other = Rows::new(KeyShape::Text).put(1, &[1]);
        let wrong = writer.shard.put(other).await.unwrap_err();
        assert!(matches!(wrong, ShardError::Invalid { .. }), "{wrong}");
        assert!(world.entries().is_empty());
        assert_eq!(writer.shard.stats().counters.puts, 0);
        let empty = writer.shard.put(world.rows.put(1, &[])).await.unwrap();
        assert_eq!((empty.first, empty.position.get()), (empty.end, 0));
        writer.shard.put(world.rows.put(2, &[1])).await.unwrap();
        assert_eq!(ops(&writer.live(&world.rows, ReadLevel::Durable).await), [(1, 2)]);
    });
}

#[test]
fn settings_that_cannot_be_are_refused_before_the_claim() {
    let world = World::new(7);
    world.run(async {
        let refused = world.open_with("a", rows_limit(0), |_| {}).await.err().unwrap();
        assert!(refused.to_string().contains("freeze.max_rows"), "{refused}");
        assert_eq!(world.manifest().await.writer_epoch.get(), 0);
    });
    let unknown = serde_json::from_str::<ShardSettings>(r#"{"freeze": {"max_row": 3}}"#).unwrap_err();
    assert!(unknown.to_string().contains("max_row"), "{unknown}");
}

#[test]
fn acknowledgements_groups_and_flushes_are_told_with_their_times() {
    let world = World::new(3);
    world.run(async {
        let writer = world.open("a").await.unwrap();
        let gate = world.gate_puts(ObjectKind::Wal);
        let mut tickets = Vec::new();
        for op in 1..=10 {
            tickets.push(writer.shard.put_nowait(world.rows.put(op, &[op as u32])).await.unwrap());
        }
        world.pass(Duration::from_secs(3)).await;
        let before = writer.shard.stats();
        assert_eq!((before.counters.ack_us.count(), before.counters.group_puts.count()), (0, 0));
        gate.release();
        for ticket in tickets {
            ticket.await.unwrap();
        }
        let stats = writer.shard.stats();
        let counters = &stats.counters;
        assert_eq!((counters.ack_us.count(), counters.flush_us.count()), (10, 0));
        assert!(counters.ack_us.sum() >= 10 * 3_000_000, "{} us", counters.ack_us.sum());
        let groups: Vec<_> = counters.group_puts.sizes().filter(|(_, count)| *count > 0).collect();
        assert_eq!(groups, [(Some(1), 1), (Some(16), 1)], "one alone, then nine together");
        assert!(0 < stats.index_bytes && stats.index_bytes < stats.memtable_bytes);
        assert_eq!((stats.sstables, stats.replay_after.get(), stats.next_position.get()), (0, 0, 3));
        writer.shard.seal().await.unwrap().wait().await.unwrap();
        let stats = writer.shard.stats();
        assert_eq!((stats.counters.flush_us.count(), stats.sstables), (1, 1));
        assert_eq!((stats.replay_after.get(), stats.next_position.get()), (2, 3));
    });
}
