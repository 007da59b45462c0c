//! All rows of a key are in one shard; every shard is there after a crash.

use std::collections::BTreeSet;

use headwater::{Sharding, Table};

use crate::support::{Home, by_shard, keys, named, options, read, rows};

fn by_id(num_buckets: u32) -> Sharding {
    Sharding::Bucket { column: "id".to_owned(), num_buckets }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_spread_over_buckets_and_every_key_lives_in_one() {
    let home = Home::new();
    let table = home.create(&by_id(4)).await;
    table.put(named(0..200)).await.unwrap();
    table.put(rows(&[(5, "five"), (6, "six"), (7, "seven"), (8, "eight")])).await.unwrap();
    table.delete(keys(&[0, 1, 2, 3])).await.unwrap();
    let shards = by_shard(&table).await;
    assert_eq!(shards.len(), 4);
    let all: Vec<i64> = shards.values().flat_map(|rows| rows.keys().copied()).collect();
    assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len(), "no key is in two shards");
    assert_eq!(all.len(), 196);
    let before = read(&table).await;
    assert_eq!(before.get(&7).map(String::as_str), Some("seven"));

    table.abandon();
    assert_eq!(home.reopen_and_read().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_makes_a_shard_for_each_value_and_finds_it_again() {
    let home = Home::new();
    let table = home.create(&Sharding::Identity { column: "id".to_owned() }).await;
    table.put(rows(&[(1, "a"), (2, "b"), (1, "a2")])).await.unwrap();
    table.close().await.unwrap();

    let table = home.open().await;
    table.put(rows(&[(1, "a3"), (3, "c")])).await.unwrap();
    table.close().await.unwrap();
    let report = home.inspect().await;
    assert_eq!(report.shards.len(), 3);
    let mut generations: Vec<_> =
        report.shards.iter().map(|shard| (shard.values["bucket"].as_i64(), shard.sstables.len())).collect();
    generations.sort_unstable();
    assert_eq!(generations, [(Some(1), 2), (Some(2), 1), (Some(3), 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_acknowledgement_covers_all_shards_of_a_batch() {
    let home = Home::new();
    let table = home.create(&by_id(8)).await;
    let ack = table.put(named(0..100)).await.unwrap();
    assert_eq!((ack.rows, ack.shards.len()), (100, 8));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_of_several_shards_fails_the_error_names_it_and_the_others_stay() {
    let home = Home::new();
    let table = home.create(&by_id(4)).await;
    table.put(named(0..100)).await.unwrap();
    let victim = *by_shard(&table).await.keys().next().unwrap();
    fence(&home, victim).await;

    let error = table.put(named(100..200)).await.unwrap_err();
    let headwater::Error::Put { shards, rows_acknowledged, ref failures, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((shards, failures.len()), (4, 1));
    assert_eq!(failures[0].shard, victim);
    assert_eq!(rows_acknowledged + failures[0].rows, 100);
    assert!(error.to_string().contains(&victim.to_string()), "{error}");

    drop(table);
    assert_eq!(home.reopen_and_read().await.len(), 100 + rows_acknowledged);
}

/// Claims one shard of the table, as another process would.
async fn fence(home: &Home, shard: headwater::coord::ShardId) {
    use headwater_engine::shard::{Shard, ShardParts};
    let env: headwater::EnvRef = std::sync::Arc::new(headwater::TokioEnv::new());
    let options = options();
    let lance = headwater_lance::LanceTable::open(&home.uri(), &options.table, env.clone()).await.unwrap();
    let parts = ShardParts {
        store: lance.store().clone(),
        table: lance,
        env,
        budget: headwater::MemoryBudget::new(1 << 30),
        indexes: Vec::new(),
        plants: headwater_engine::plants::Plants::None,
    };
    drop(Shard::open(shard, parts, options.settings).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_share_one_memory_budget() {
    let home = Home::new();
    home.create(&by_id(4)).await.close().await.unwrap();
    let memory = headwater::MemoryBudget::new(64 << 20);
    let table =
        Table::open(&home.uri(), headwater::OpenOptions { memory: Some(memory.clone()), ..options() })
            .await
            .unwrap();
    assert_eq!(memory.used(), 0);
    table.put(named(0..1000)).await.unwrap();
    let shards: u64 = table.stats().shards.values().map(|shard| shard.memtable_bytes).sum();
    assert!(shards > 0 && memory.used() >= shards, "{} of {shards}", memory.used());
    table.close().await.unwrap();
    drop(table);
    assert_eq!(memory.used(), 0, "all memory is given back (L5)");
}
