//! P7: one writer a shard. The newer one wins, the older one notices, nothing acknowledged is lost.

use headwater::{Error, ReadLevel, ShardError, Sharding};

use crate::support::{Home, expected, read, rows};

fn is_fenced(error: &Error) -> bool {
    matches!(error.shard_error(), Some(ShardError::Fenced { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newer_of_two_writers_wins_and_the_older_acknowledges_nothing_more() {
    let home = Home::new();
    let older = home.create(&Sharding::Unsharded).await;
    older.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    let newer = home.open().await;
    newer.put(rows(&[(2, "b2")])).await.unwrap();

    let error = older.put(rows(&[(1, "stale")])).await.unwrap_err();
    assert!(is_fenced(&error), "{error:?}");
    let error = older.snapshot(ReadLevel::Durable).await.unwrap_err();
    assert!(is_fenced(&error), "a fenced writer serves no reads: {error:?}");
    assert!(older.close().await.is_err(), "close reports the first error");
    assert_eq!(read(&newer).await, expected(&[(1, "a"), (2, "b2")]));
    drop((older, newer));
    assert_eq!(home.reopen_and_read().await, expected(&[(1, "a"), (2, "b2")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_table_takes_the_shard_back_when_it_is_opened_again() {
    let home = Home::new();
    let first = home.create(&Sharding::Unsharded).await;
    first.put(rows(&[(1, "a")])).await.unwrap();
    let second = home.open().await;
    second.put(rows(&[(2, "b")])).await.unwrap();
    let third = home.open().await;
    third.put(rows(&[(3, "c")])).await.unwrap();
    for stale in [first, second] {
        for _ in 0..2 {
            assert!(is_fenced(&stale.put(rows(&[(9, "stale")])).await.unwrap_err()));
        }
    }
    assert_eq!(read(&third).await, expected(&[(1, "a"), (2, "b"), (3, "c")]));
    let epoch = home.shard().await.manifest.unwrap().writer_epoch;
    assert_eq!(epoch, 3, "no stale writer took the shard back by writing on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_of_a_fenced_writer_publishes_nothing() {
    let home = Home::new();
    let older = home.create(&Sharding::Unsharded).await;
    older.put(rows(&[(1, "a")])).await.unwrap();
    let newer = home.open().await;
    newer.open_shards().await.unwrap();
    let error = older.flush().await.unwrap_err();
    assert!(is_fenced(&error), "{error:?}");
    assert!(home.shard().await.sstables.is_empty());
    newer.close().await.unwrap();
    assert_eq!(home.shard().await.sstables.len(), 1);
}
