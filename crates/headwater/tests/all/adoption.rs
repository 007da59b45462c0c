//! Shards that the reference made: they are adopted under their own ids, and known for theirs from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater::coord::{Epoch, Generation, ShardId, WalPosition};
use headwater::{ShardValue, Sharding, TokioEnv};
use headwater_engine::manifest::create_shard;
use headwater_format::path::wal_path;
use headwater_format::wal_entry::{Compression, encode_rows};
use headwater_lance::LanceTable;
use uuid::Uuid;

use crate::support::{Home, expected, options, read, rows};

const SHARD: ShardId = ShardId::new(Uuid::from_u128(7));

/// Bucket of int64 1 and 2 of 4.
const VALUE: ShardValue = ShardValue::Bucket(0);

/// A table in four buckets, and a shard of one of them with an id of its own.
async fn with_foreign_shard(home: &Home) -> Arc<LanceTable> {
    let sharding = Sharding::Bucket { column: "id".to_owned(), num_buckets: 4 };
    home.create(&sharding).await.close().await.unwrap();
    let env = Arc::new(TokioEnv::new());
    let lance = LanceTable::open(&home.uri(), &options().table, env).await.unwrap();
    foreign_shard(&lance, SHARD, "a").await;
    lance
}

/// A shard without values that has row 1 in its WAL.
async fn foreign_shard(lance: &LanceTable, shard: ShardId, name: &str) {
    create_shard(lance.store(), shard, 1, BTreeMap::new()).await.unwrap();
    let rows = rows(&[(1, name)]);
    let (epoch, generation) = (Epoch::new(1), Generation::new(1));
    let entry = encode_rows(&rows.schema(), epoch, generation, &[rows], Compression::None).unwrap();
    lance.store().put(&wal_path(shard, WalPosition::new(1)), entry).await.unwrap();
}

async fn recorded(lance: &LanceTable) -> Vec<(ShardId, BTreeMap<String, Vec<u8>>)> {
    lance.shards().await.unwrap().iter().map(|shard| (shard.id, shard.values())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_row_for_a_shard_made_elsewhere_makes_it_known_for_its_value() {
    let home = Home::new();
    let lance = with_foreign_shard(&home).await;
    let table = home.open().await;
    table.put(rows(&[(2, "b")])).await.unwrap();
    assert_eq!(recorded(&lance).await, [(SHARD, VALUE.to_entries())]);
    table.flush().await.unwrap();
    assert_eq!(read(&table).await, expected(&[(1, "a"), (2, "b")]));
    table.close().await.unwrap();
    assert_eq!(recorded(&lance).await, [(SHARD, VALUE.to_entries())], "a flush keeps it");
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_all_shards_makes_those_made_elsewhere_known_for_their_values() {
    let home = Home::new();
    let lance = with_foreign_shard(&home).await;
    let table = home.open().await;
    assert_eq!(table.open_shards().await.unwrap(), 1);
    assert_eq!(recorded(&lance).await, [(SHARD, VALUE.to_entries())]);
    assert_eq!(read(&table).await, expected(&[(1, "a")]));
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_shard_of_a_value_is_found_when_all_are_opened_though_it_records_none() {
    let home = Home::new();
    let lance = with_foreign_shard(&home).await;
    let table = home.open().await;
    table.put(rows(&[(2, "b")])).await.unwrap();
    table.close().await.unwrap();
    let other = ShardId::new(Uuid::from_u128(8));
    foreign_shard(&lance, other, "elsewhere").await;
    let error = home.open().await.open_shards().await.unwrap_err().to_string();
    assert!(error.contains(&SHARD.to_string()) && error.contains(&other.to_string()), "{error}");
}
