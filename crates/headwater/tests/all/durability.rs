//! P1, P4, P11: what was acknowledged is there after a crash, newest first, deletes included; a flush makes
//! SSTables.

use headwater::{ReadLevel, ShardSettings, Sharding, Table};

use crate::support::{Home, expected, keys, named, options, read, rows};

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_rows_are_there_after_a_crash() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a"), (2, "b"), (3, "c")])).await.unwrap();
    table.put(rows(&[(2, "b2"), (4, "d")])).await.unwrap();
    table.delete(keys(&[3])).await.unwrap();
    let expected = expected(&[(1, "a"), (2, "b2"), (4, "d")]);
    assert_eq!(read(&table).await, expected);

    table.abandon();
    assert!(home.shard().await.sstables.is_empty(), "a crash flushes nothing");
    assert_eq!(home.reopen_and_read().await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_a_flush_replays_only_what_was_not_flushed() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(2, "b2")])).await.unwrap();
    table.delete(keys(&[1])).await.unwrap();
    table.abandon();

    let table = home.open().await;
    table.open_shards().await.unwrap();
    let replayed: u64 = table.stats().shards.values().map(|shard| shard.counters.replayed_rows).sum();
    assert_eq!(replayed, 2);
    assert_eq!(read(&table).await, expected(&[(2, "b2")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_leaves_one_complete_sstable_and_reads_do_not_change() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    for (id, name) in [(1, "a"), (2, "b"), (3, "c"), (1, "a2"), (3, "c2")] {
        table.put(rows(&[(id, name)])).await.unwrap();
    }
    let before = read(&table).await;
    assert_eq!(table.flush().await.unwrap().len(), 1);
    assert_eq!(read(&table).await, before);
    assert_eq!(before, expected(&[(1, "a2"), (2, "b"), (3, "c2")]));

    let shard = home.shard().await;
    let recorded: Vec<_> =
        shard.sstables.iter().map(|s| (s.generation, s.physical_rows, s.in_memory_bytes.is_some())).collect();
    assert_eq!(recorded, [(1, Some(5), true)]);
    assert!(shard.sstables[0].primary_key_bytes.is_some());
    assert_eq!((shard.wal.unflushed_rows, shard.problems.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sstable_opened_as_a_plain_lance_dataset_shows_the_newest_row_of_each_key() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    for (id, name) in [(1, "a"), (2, "b"), (3, "c"), (1, "a2"), (3, "c2")] {
        table.put(rows(&[(id, name)])).await.unwrap();
    }
    table.close().await.unwrap();

    let directory = home.shard_dir().await.join(&home.shard().await.sstables[0].path);
    let dataset = lance::Dataset::open(&directory.display().to_string()).await.unwrap();
    assert_eq!(dataset.version().version, 1);
    assert_eq!(dataset.count_rows(None).await.unwrap(), 3);
    let mut scan = dataset.scan();
    scan.project(&["id", "name"]).unwrap().filter("id = 3 and name = 'c2'").unwrap();
    assert_eq!(scan.try_into_batch().await.unwrap().num_rows(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn freezing_by_rows_makes_sstables_on_the_way_and_close_flushes_the_rest() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let mut small = options();
    small.settings.freeze.max_rows = 10;
    let table = Table::open(&home.uri(), small).await.unwrap();
    for first in (0..100).step_by(5) {
        table.put(named(first..first + 5)).await.unwrap();
    }
    table.close().await.unwrap();
    let shard = home.shard().await;
    assert_eq!(shard.sstables.len(), 10);
    assert_eq!(shard.sstables.iter().filter_map(|s| s.physical_rows).sum::<u64>(), 100);
    assert_eq!(home.reopen_and_read().await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_overwritten_for_ever_rotates_too() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let mut small = options();
    small.settings.freeze.max_entries = 8;
    let table = Table::open(&home.uri(), small).await.unwrap();
    for turn in 0..40 {
        table.put(rows(&[(7, &format!("turn {turn}"))])).await.unwrap();
    }
    assert_eq!(read(&table).await, expected(&[(7, "turn 39")]));
    table.close().await.unwrap();
    assert_eq!(home.shard().await.sstables.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_resolve_in_order_and_only_durable_rows_are_read_by_default() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    let mut tickets = Vec::new();
    for id in 0..50 {
        tickets.push(table.put_nowait(named([id])).await.unwrap());
    }
    let mut last = 0;
    for ticket in tickets {
        let ack = ticket.await.unwrap();
        let (_, ack) = ack.shards[0];
        assert!(ack.position.get() >= last, "positions follow the order of the puts");
        last = ack.position.get();
        let durable = table.snapshot(ReadLevel::Durable).await.unwrap();
        assert!(durable.shards()[0].1.seq() >= ack.end, "an acknowledged row is visible at once");
    }
    assert_eq!(read(&table).await.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_table_takes_no_calls_and_says_so() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    table.close().await.unwrap();
    let error = table.put(rows(&[(2, "b")])).await.unwrap_err();
    assert!(matches!(error, headwater::Error::Closed { .. }), "{error}");
    assert_eq!(table.stats().shards.len(), 1, "stats stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_out_of_its_limits_is_refused_by_name() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let mut settings = ShardSettings::default();
    settings.freeze.max_rows = 0;
    let error = Table::open(&home.uri(), headwater::OpenOptions::with_settings(settings)).await.unwrap_err();
    assert!(
        matches!(error, headwater::Error::Setting { ref name, .. } if name == "freeze.max_rows"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_a_key_keeps_every_row_and_refuses_deletes() {
    let home = Home::new();
    let table = Table::create(&home.uri(), &crate::support::schema(), &[], &Sharding::Unsharded, options())
        .await
        .unwrap();
    table.put(rows(&[(1, "a"), (1, "a")])).await.unwrap();
    table.put(rows(&[(1, "a")])).await.unwrap();
    let error = table.delete(keys(&[1])).await.unwrap_err();
    assert!(matches!(error, headwater::Error::Shard { .. }), "{error}");
    table.close().await.unwrap();
    let shard = home.shard().await;
    assert_eq!((shard.sstables[0].physical_rows, shard.sstables[0].primary_key_bytes), (Some(3), None));
}
