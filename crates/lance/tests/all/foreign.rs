//! Shards as the reference makes them, and tables it initialised: any id, no values, no incarnation.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use headwater_engine::manifest::{claim, create_shard};
use headwater_format::coord::{Epoch, Generation, ShardId, WalPosition};
use headwater_format::path::wal_path;
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_format::wal_entry::{Compression, encode_rows};
use headwater_lance::{LanceTable, MemWal, Sharding};
use headwater_store::Register;
use lance::dataset::CommitBuilder;
use lance::dataset::transaction::{Operation, Transaction};
use lance::index::DatasetIndexExt;
use lance_table::system_index::mem_wal::{
    CompactedSsTable, MEM_WAL_INDEX_NAME, MemWalIndexDetails, ShardingField, ShardingSpec,
    load_mem_wal_index_details, new_mem_wal_index_meta,
};
use uuid::Uuid;

use crate::support::*;

pub fn id(number: u128) -> ShardId {
    ShardId::new(Uuid::from_u128(number))
}

pub fn by_bucket() -> Sharding {
    Sharding::Bucket { column: "id".to_owned(), num_buckets: 8 }
}

pub async fn table_by(place: &Place, sharding: &Sharding) -> (Arc<LanceTable>, MemWal) {
    let table = place.table(&id_value_schema(), &["id"]).await;
    let mem_wal = table.init_mem_wal(sharding).await.unwrap();
    (table, mem_wal)
}

/// A shard as the reference makes it: any id, no values.
pub async fn foreign_shard(table: &LanceTable, shard: ShardId, spec_id: u32, rows: &[(i64, &str)]) {
    create_shard(table.store(), shard, spec_id, BTreeMap::new()).await.unwrap();
    if !rows.is_empty() {
        wal(table, shard, 1, id_value_rows(rows)).await;
    }
}

pub async fn wal(table: &LanceTable, shard: ShardId, position: u64, rows: RecordBatch) {
    let entry =
        encode_rows(&rows.schema(), Epoch::new(1), Generation::new(1), &[rows], Compression::None).unwrap();
    table.store().put(&wal_path(shard, WalPosition::new(position)), entry).await.unwrap();
}

pub async fn change(table: &LanceTable, shard: ShardId, edit: impl FnOnce(&mut ShardManifest)) {
    let register: Register<ShardManifest> = Register::for_shard(table.store().clone(), shard);
    let mut next = register.load().await.unwrap().unwrap().as_ref().clone();
    next.version = next.version.next();
    next.write_id = None;
    edit(&mut next);
    register.write(&next).await.unwrap();
}

pub async fn seal(table: &LanceTable, shard: ShardId) {
    change(table, shard, |manifest| manifest.status = ShardStatus::Sealed).await;
}

/// A table whose MemWAL was initialised by somebody else: no incarnation.
pub async fn initialised_elsewhere(place: &Place, specs: Vec<ShardingSpec>) -> Arc<LanceTable> {
    place.table(&id_value_schema(), &["id"]).await;
    initialise_elsewhere(place, specs, Vec::new()).await
}

pub async fn initialise_elsewhere(
    place: &Place,
    specs: Vec<ShardingSpec>,
    maintained: Vec<String>,
) -> Arc<LanceTable> {
    let dataset = place.dataset().await;
    let details = MemWalIndexDetails {
        num_shards: 1,
        sharding_specs: specs,
        maintain_all_indexes: maintained.is_empty(),
        maintained_indexes: maintained,
        writer_config_defaults: [("durable_write".to_owned(), "true".to_owned())].into(),
        ..MemWalIndexDetails::default()
    };
    let entry = new_mem_wal_index_meta(dataset.version_id(), details).unwrap();
    let operation = Operation::CreateIndex { new_indices: vec![entry], removed_indices: Vec::new() };
    let version = dataset.version_id();
    CommitBuilder::new(Arc::new(dataset)).execute(Transaction::new(version, operation, None)).await.unwrap();
    place.open().await
}

pub fn unsharded_spec() -> ShardingSpec {
    let field = ShardingField {
        field_id: "bucket".to_owned(),
        source_ids: Vec::new(),
        transform: Some("unsharded".to_owned()),
        expression: None,
        result_type: "int32".to_owned(),
        parameters: Default::default(),
    };
    ShardingSpec { spec_id: 1, fields: vec![field] }
}

/// The newest manifest of a shard.
pub async fn manifest_of(table: &LanceTable, shard: ShardId) -> Arc<ShardManifest> {
    let register: Register<ShardManifest> = Register::for_shard(table.store().clone(), shard);
    register.load().await.unwrap().unwrap()
}

/// Claims a shard as a writer of ours does, without opening it.
pub async fn claimed(table: &LanceTable, shard: ShardId) -> Epoch {
    let register: Register<ShardManifest> = Register::for_shard(table.store().clone(), shard);
    let latest = register.load().await.unwrap().unwrap();
    claim(&register, latest, || env().uuid()).await.unwrap().writer_epoch
}

/// Records in the base that all generations of `shard` up to `generation` are part of it.
pub async fn fold(place: &Place, shard: ShardId, generation: u64) {
    let dataset = place.dataset().await;
    let indexes = dataset.load_indices().await.unwrap();
    let entry = indexes.iter().find(|index| index.name == MEM_WAL_INDEX_NAME).unwrap().clone();
    let mut details = load_mem_wal_index_details(entry.clone()).unwrap();
    details.compacted_sstables = vec![CompactedSsTable { shard_id: shard.uuid(), generation }];
    let folded = new_mem_wal_index_meta(dataset.version_id(), details).unwrap();
    let operation = Operation::CreateIndex { new_indices: vec![folded], removed_indices: vec![entry] };
    let version = dataset.version_id();
    CommitBuilder::new(Arc::new(dataset)).execute(Transaction::new(version, operation, None)).await.unwrap();
}
