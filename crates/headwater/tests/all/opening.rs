//! Shards are opened when they are needed, once; a failed opening can be tried again.

use futures::future::join_all;
use headwater::Sharding;

use crate::support::{Home, named, read, rows};

#[tokio::test(flavor = "multi_thread")]
async fn many_first_puts_at_once_open_the_shard_once() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    let puts = join_all((0..32).map(|id| table.put(named([id])))).await;
    assert!(puts.iter().all(Result::is_ok), "{puts:?}");
    assert_eq!(home.shard().await.manifest.unwrap().writer_epoch, 1, "claimed once");
    assert_eq!(read(&table).await.len(), 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_table_claims_nothing() {
    let home = Home::new();
    let writer = home.create(&Sharding::Unsharded).await;
    writer.put(rows(&[(1, "a")])).await.unwrap();
    let other = home.open().await;
    other.close().await.unwrap();
    writer.put(rows(&[(2, "b")])).await.expect("the writer was not disturbed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_that_failed_can_be_tried_again() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.put(rows(&[(1, "a")])).await.unwrap();
    let manifest = crate::support::file(&home.shard_dir().await.join("manifest"), "01");
    let good = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, b"not a manifest").unwrap();

    let table = home.open().await;
    table.put(rows(&[(2, "b")])).await.unwrap_err();
    std::fs::write(&manifest, good).unwrap();
    table.put(rows(&[(2, "b")])).await.unwrap();
    assert_eq!(read(&table).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_closes_every_shard() {
    let home = Home::new();
    let table = home.create(&Sharding::Bucket { column: "id".to_owned(), num_buckets: 4 }).await;
    table.put(named(0..40)).await.unwrap();
    table.close().await.unwrap();
    let report = home.inspect().await;
    let flushed =
        report.shards.iter().filter(|shard| shard.sstables.len() == 1 && shard.wal.unflushed_rows == 0);
    assert_eq!(flushed.count(), 4);
}
