//! Readers elsewhere: a table opened for reading follows what others write, and asks storage as often as it
//! is told to.

use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use futures::TryStreamExt;
use headwater::{GetRequest, Kind, MeterSnapshot, ReadOptions, ReadSnapshot, Reader, ScanRequest, Sharding};

use crate::support::{Home, Rows, expected, keys, named, options, rows};

const LONG: Duration = Duration::from_secs(3600);

async fn reader(home: &Home, poll: Duration) -> Reader {
    Reader::open(&home.uri(), options(), ReadOptions { poll }).await.unwrap()
}

fn as_rows(batches: &[RecordBatch]) -> Rows {
    let pairs = batches.iter().flat_map(|batch| {
        let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
        let names = batch.column_by_name("name").unwrap().as_string::<i32>();
        ids.values().iter().copied().zip(names.iter().map(|name| name.unwrap().to_owned()))
    });
    pairs.collect()
}

async fn live(snapshot: &ReadSnapshot) -> Rows {
    let stream = snapshot.scan(&ScanRequest::default()).await.unwrap();
    as_rows(&stream.try_collect::<Vec<_>>().await.unwrap())
}

fn spent(before: &MeterSnapshot, reader: &Reader, kind: Kind) -> u64 {
    reader.requests().since(before).of_kind(kind).requests
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_what_another_process_writes_through_flushes_and_deletes_p4_p6() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    let reader = reader(&home, Duration::ZERO).await;
    assert_eq!(reader.count(None).await.unwrap(), 0);
    table.put(named(0..10)).await.unwrap();
    let first = reader.strong().await.unwrap();
    assert_eq!(live(&first).await.len(), 10);
    for round in 1..6 {
        table.put(rows(&[(round, "again"), (100 + round, "new")])).await.unwrap();
        table.delete(keys(&[9 - round])).await.unwrap();
        let open = table.count(None).await.unwrap();
        assert_eq!(reader.count(None).await.unwrap(), open, "round {round}");
        if round % 2 == 0 {
            table.flush().await.unwrap();
        }
        let get = GetRequest { keys: keys(&[100 + round, 9 - round]), columns: None };
        assert_eq!(as_rows(&[reader.get(&get).await.unwrap()]), expected(&[(100 + round, "new")]));
    }
    assert_eq!(live(&first).await.len(), 10, "P6: what was read once stays");
    table.close().await.unwrap();
    let theirs = live(&reader.strong().await.unwrap()).await;
    let stream = reader.scan(&ScanRequest::default()).await.unwrap();
    assert_eq!(as_rows(&stream.try_collect::<Vec<_>>().await.unwrap()), theirs);
    assert_eq!(theirs.get(&1), Some(&"again".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn within_the_poll_interval_storage_is_not_asked_and_a_strong_read_asks() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(named(0..4)).await.unwrap();
    let reader = reader(&home, LONG).await;
    assert_eq!(reader.count(None).await.unwrap(), 4);
    table.put(named(4..5)).await.unwrap();
    let before = reader.requests();
    for _ in 0..10 {
        assert_eq!(reader.count(None).await.unwrap(), 4);
    }
    assert_eq!(reader.requests().since(&before).total().requests, 0);
    assert_eq!(live(&reader.strong().await.unwrap()).await.len(), 5);
    assert_eq!(reader.count(None).await.unwrap(), 5, "P6: not back in time");
    let before = reader.requests();
    reader.strong().await.unwrap();
    assert_eq!(spent(&before, &reader, Kind::Wal), 1, "{}", reader.requests().since(&before));
    assert!(spent(&before, &reader, Kind::Manifest) <= 1);
    assert_eq!(spent(&before, &reader, Kind::Other), 1, "one listing of shards");
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_made_later_is_found_by_the_next_strong_read() {
    let home = Home::new();
    let sharding = Sharding::Identity { column: "id".to_owned() };
    let table = home.create(&sharding).await;
    let reader = reader(&home, LONG).await;
    for id in 0..4 {
        table.put(named([id])).await.unwrap();
        assert_eq!(live(&reader.strong().await.unwrap()).await.len() as i64, id + 1);
    }
    // Another process writes other shards, and each reads all.
    let other = home.open().await;
    other.put(named(4..6)).await.unwrap();
    for writer in [&table, &other] {
        writer.refresh().await.unwrap();
        assert_eq!(writer.count(None).await.unwrap(), 6);
    }
    other.put(rows(&[(4, "changed")])).await.unwrap();
    table.flush().await.unwrap();
    let changed = |count| async move { assert_eq!(count, 1) };
    changed(table.count(Some("name = 'changed'")).await.unwrap()).await;
    changed(other.count(Some("name = 'changed'")).await.unwrap()).await;
    other.close().await.unwrap();
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_of_an_unsharded_table_does_not_list_shards_for_each_read() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(named(0..4)).await.unwrap();
    table.count(None).await.unwrap();
    let before = table.stats().requests;
    for _ in 0..5 {
        table.count(None).await.unwrap();
    }
    let spent = table.stats().requests.since(&before);
    assert_eq!(spent.of_kind(Kind::Other).requests, 0, "{spent}");
    assert_eq!(spent.of_kind(Kind::Wal).requests, 0, "{spent}");
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_read_at_once_are_all_answered() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(named(0..100)).await.unwrap();
    let reader = std::sync::Arc::new(reader(&home, Duration::from_millis(1)).await);
    let all = (0..32).map(|_| {
        let reader = reader.clone();
        tokio::spawn(async move { reader.count(None).await.unwrap() })
    });
    for count in futures::future::join_all(all.collect::<Vec<_>>()).await {
        assert_eq!(count.unwrap(), 100);
    }
    table.close().await.unwrap();
}
