//! Which shard serves a value: adopted, created, or refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use headwater_engine::manifest::create_shard;
use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::{Epoch, Generation, ManifestVersion, ShardId, WalPosition};
use headwater_format::path::{manifest_path, wal_path};
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_format::wal_entry::{Compression, encode_rows};
use headwater_lance::{LanceTable, MemWal, ShardValue, Sharding};
use headwater_store::Register;
use lance::dataset::CommitBuilder;
use lance::dataset::transaction::{Operation, Transaction};
use lance::index::DatasetIndexExt;
use lance_index::IndexType;
use lance_index::scalar::{InvertedIndexParams, ScalarIndexParams};
use lance_table::system_index::mem_wal::{
    MemWalIndexDetails, ShardingField, ShardingSpec, new_mem_wal_index_meta,
};
use uuid::Uuid;

use crate::support::*;

fn id(number: u128) -> ShardId {
    ShardId::new(Uuid::from_u128(number))
}

fn by_bucket() -> Sharding {
    Sharding::Bucket { column: "id".to_owned(), num_buckets: 8 }
}

async fn table_by(place: &Place, sharding: &Sharding) -> (Arc<LanceTable>, MemWal) {
    let table = place.table(&id_value_schema(), &["id"]).await;
    let mem_wal = table.init_mem_wal(sharding).await.unwrap();
    (table, mem_wal)
}

/// A shard as the reference makes it: any id, no values.
async fn foreign_shard(table: &LanceTable, shard: ShardId, spec_id: u32, rows: &[(i64, &str)]) {
    create_shard(table.store(), shard, spec_id, BTreeMap::new()).await.unwrap();
    if !rows.is_empty() {
        wal(table, shard, 1, id_value_rows(rows)).await;
    }
}

async fn wal(table: &LanceTable, shard: ShardId, position: u64, rows: RecordBatch) {
    let entry =
        encode_rows(&rows.schema(), Epoch::new(1), Generation::new(1), &[rows], Compression::None).unwrap();
    table.store().put(&wal_path(shard, WalPosition::new(position)), entry).await.unwrap();
}

async fn change(table: &LanceTable, shard: ShardId, edit: impl FnOnce(&mut ShardManifest)) {
    let register: Register<ShardManifest> = Register::for_shard(table.store().clone(), shard);
    let mut next = register.load().await.unwrap().unwrap().as_ref().clone();
    next.version = next.version.next();
    next.write_id = None;
    edit(&mut next);
    register.write(&next).await.unwrap();
}

async fn seal(table: &LanceTable, shard: ShardId) {
    change(table, shard, |manifest| manifest.status = ShardStatus::Sealed).await;
}

#[tokio::test]
async fn two_processes_agree_on_the_shard_of_a_value() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    let (one, two) = (place.open().await, place.open().await);
    let mut shards = BTreeSet::new();
    for bucket in 0..8 {
        let value = ShardValue::Bucket(bucket);
        let (from_one, from_two) =
            futures::join!(one.resolve_shard(&mem_wal, &value), two.resolve_shard(&mem_wal, &value));
        assert_eq!(from_one.unwrap(), from_two.unwrap());
        shards.insert(table.resolve_shard(&mem_wal, &value).await.unwrap());
    }
    assert_eq!(shards.len(), 8);
    let listed = table.shards().await.unwrap();
    assert_eq!(listed.iter().map(|shard| shard.id).collect::<BTreeSet<_>>(), shards);
    for shard in listed {
        let manifest = shard.manifest.as_ref().unwrap().as_ref().unwrap();
        assert_eq!((manifest.version, manifest.writer_epoch), (ManifestVersion::new(1), Epoch::ZERO));
        assert_eq!((manifest.shard_spec_id, shard.values()["bucket"].len()), (1, 4));
    }
}

#[tokio::test]
async fn another_incarnation_has_other_shards() {
    let (one, two) = (Place::new(), Place::new());
    let value = ShardValue::Unsharded;
    let mut shards = BTreeSet::new();
    for place in [&one, &two] {
        let (table, mem_wal) = table_by(place, &Sharding::Unsharded).await;
        shards.insert(table.resolve_shard(&mem_wal, &value).await.unwrap());
    }
    assert_eq!(shards.len(), 2);
}

#[tokio::test]
async fn the_one_active_shard_of_an_unsharded_table_is_adopted_under_its_own_id() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &Sharding::Unsharded).await;
    foreign_shard(&table, id(7), 1, &[]).await;
    assert_eq!(table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await.unwrap(), id(7));
}

/// Buckets of int64 1, 2, 3 of 8: 4, 4, 3.
#[tokio::test]
async fn a_shard_without_values_is_adopted_when_its_rows_have_one_value() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a"), (2, "b"), (1, "c")]).await;
    foreign_shard(&table, id(8), 1, &[]).await;
    assert_eq!(table.resolve_shard(&mem_wal, &ShardValue::Bucket(4)).await.unwrap(), id(7));
    let created = table.resolve_shard(&mem_wal, &ShardValue::Bucket(3)).await.unwrap();
    assert!(created != id(7) && created != id(8), "a shard without rows serves no value yet");
}

#[tokio::test]
async fn rows_of_sstables_count_for_adoption_until_they_are_in_the_base() {
    let place = Place::new();
    let (table, mut mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, shard(), 1, &[]).await;
    write(&table, &frozen(&table, vec![Step::Rows(id_value_rows(&[(1, "a")]))])).await.unwrap();
    change(&table, shard(), |manifest| {
        manifest.current_generation = Generation::new(2);
        manifest.sstables = vec![sstable()];
    })
    .await;
    assert_eq!(table.resolve_shard(&mem_wal, &ShardValue::Bucket(4)).await.unwrap(), shard());
    mem_wal.compacted.insert(shard(), Generation::new(1));
    assert_ne!(table.resolve_shard(&mem_wal, &ShardValue::Bucket(4)).await.unwrap(), shard());
}

#[tokio::test]
async fn rows_of_several_values_in_one_shard_are_refused() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a"), (3, "b")]).await;
    let reason = invalid(table.resolve_shard(&mem_wal, &ShardValue::Bucket(4)).await);
    assert!(reason.contains(&id(7).to_string()) && reason.contains("2 values"), "{reason}");
}

#[tokio::test]
async fn two_shards_of_one_value_are_named_and_none_is_written() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &Sharding::Unsharded).await;
    foreign_shard(&table, id(7), 1, &[]).await;
    foreign_shard(&table, id(8), 1, &[(1, "a")]).await;
    let reason = invalid(table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await);
    assert!(reason.contains(&id(7).to_string()) && reason.contains(&id(8).to_string()), "{reason}");
    seal(&table, id(7)).await;
    assert_eq!(table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await.unwrap(), id(8));
    seal(&table, id(8)).await;
    let reason = invalid(table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await);
    assert!(reason.contains("sealed"), "{reason}");
}

/// Regression: lance#7949.
#[tokio::test]
async fn a_shard_of_another_sharding_spec_is_refused_when_it_has_rows() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &Sharding::Unsharded).await;
    foreign_shard(&table, id(7), 0, &[(1, "a")]).await;
    let reason = invalid(table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await);
    assert!(reason.contains(&id(7).to_string()) && reason.contains("spec 0"), "{reason}");
}

#[tokio::test]
async fn a_manifest_or_wal_entry_that_cannot_be_read_is_corrupt_with_its_path() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a")]).await;
    let value = ShardValue::Bucket(4);
    let broken = [wal_path(id(7), WalPosition::new(1)), manifest_path(id(7), ManifestVersion::new(1))];
    for path in broken {
        let whole = table.store().get(&path).await.unwrap().unwrap();
        table.store().put(&path, whole.slice(0..whole.len() / 2)).await.unwrap();
        match table.resolve_shard(&mem_wal, &value).await {
            Err(TableError::Corrupt { path: named, .. }) => assert_eq!(named, path),
            other => panic!("{other:?}"),
        }
        table.store().put(&path, whole).await.unwrap();
    }
    assert_eq!(table.resolve_shard(&mem_wal, &value).await.unwrap(), id(7));
}

#[tokio::test]
async fn shards_by_identity_are_told_apart_by_their_raw_values() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &Sharding::Identity { column: "id".to_owned() }).await;
    let values = mem_wal.sharding.values(&id_value_rows(&[(1, "a"), (-1, "b"), (1, "c")])).unwrap();
    assert_eq!(values[0], ShardValue::Identity(1_i64.to_le_bytes().to_vec()));
    assert_eq!(values[0], values[2]);
    let one = table.resolve_shard(&mem_wal, &values[0]).await.unwrap();
    assert_ne!(table.resolve_shard(&mem_wal, &values[1]).await.unwrap(), one);
    assert_eq!(table.resolve_shard(&mem_wal, &values[2]).await.unwrap(), one);
}

/// A table whose MemWAL was initialised by somebody else: no incarnation.
async fn initialised_elsewhere(place: &Place, specs: Vec<ShardingSpec>) -> Arc<LanceTable> {
    place.table(&id_value_schema(), &["id"]).await;
    initialise_elsewhere(place, specs, Vec::new()).await
}

async fn initialise_elsewhere(
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

fn unsharded_spec() -> ShardingSpec {
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

#[tokio::test]
async fn a_table_initialised_elsewhere_gets_its_incarnation_from_our_first_writer() {
    let place = Place::new();
    let table = initialised_elsewhere(&place, vec![unsharded_spec()]).await;
    let mem_wal = table.mem_wal().await.unwrap().unwrap();
    assert_eq!((mem_wal.incarnation, &mem_wal.sharding), (None, &Sharding::Unsharded));
    table.base().await.unwrap();
    let version = place.dataset().await.version_id();

    let others = [place.open().await, place.open().await];
    let value = ShardValue::Unsharded;
    let shard = table.resolve_shard(&mem_wal, &value).await.unwrap();
    for other in &others {
        assert_eq!(other.resolve_shard(&mem_wal, &value).await.unwrap(), shard);
    }
    assert_eq!(place.dataset().await.version_id(), version + 1, "one commit, once");
    let now = table.mem_wal().await.unwrap().unwrap();
    assert!(now.incarnation.is_some());
    assert_eq!(now.writer_defaults["durable_write"], "true", "what was recorded stays");
    assert_eq!(
        MemWal { incarnation: None, writer_defaults: mem_wal.writer_defaults.clone(), ..now },
        mem_wal
    );
    table.base().await.unwrap();
}

#[tokio::test]
async fn a_table_with_shards_made_by_hand_is_not_written() {
    let place = Place::new();
    let table = initialised_elsewhere(&place, Vec::new()).await;
    let mem_wal = table.mem_wal().await.unwrap().unwrap();
    assert_eq!(mem_wal.sharding, Sharding::Manual);
    let reason = invalid(table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await);
    assert!(reason.contains("made by hand"), "{reason}");
}

#[tokio::test]
async fn a_table_that_names_a_full_text_index_to_maintain_is_not_written() {
    let place = Place::new();
    place.table(&id_value_schema(), &["id"]).await;
    let mut dataset = place.dataset().await;
    let (btree, text) = (ScalarIndexParams::default(), InvertedIndexParams::default());
    dataset.create_index(&["id"], IndexType::BTree, Some("ids".to_owned()), &btree, false).await.unwrap();
    dataset
        .create_index(&["value"], IndexType::Inverted, Some("words".to_owned()), &text, false)
        .await
        .unwrap();
    let table = initialise_elsewhere(&place, vec![unsharded_spec()], names(&["ids", "words", "gone"])).await;
    let mem_wal = table.mem_wal().await.unwrap().unwrap();
    let reason = invalid(table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await);
    assert!(reason.contains("indexes words,"), "{reason}");
    let without = MemWal { maintained: names(&["ids", "gone"]), ..mem_wal };
    table.resolve_shard(&without, &ShardValue::Unsharded).await.unwrap();
}
