//! Which shard serves a value: adopted, created, or refused.

use std::collections::BTreeSet;

use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::{Epoch, Generation, ManifestVersion, WalPosition};
use headwater_format::path::{manifest_path, sstable_dir, wal_path};
use headwater_lance::{MemWal, ShardValue, Sharding};
use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance_index::IndexType;
use lance_index::scalar::{InvertedIndexParams, ScalarIndexParams};

use crate::foreign::*;
use crate::initialising::{append, index_on};
use crate::support::*;

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
async fn rows_of_sstables_count_for_adoption_in_the_base_too_while_they_are_there() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, shard(), 1, &[]).await;
    write(&table, &frozen(&table, vec![Step::Rows(id_value_rows(&[(1, "a")]))])).await.unwrap();
    change(&table, shard(), |manifest| {
        manifest.current_generation = Generation::new(2);
        manifest.sstables = vec![sstable()];
    })
    .await;
    let value = ShardValue::Bucket(4);
    assert_eq!(table.resolve_shard(&mem_wal, &value).await.unwrap(), shard());
    fold(&place, shard(), 1).await;
    assert_eq!(table.resolve_shard(&mem_wal, &value).await.unwrap(), shard());
    table.store().delete(&sstable_path("_versions/18446744073709551614.manifest")).await.unwrap();
    let later = place.open().await;
    let created = later.resolve_shard(&mem_wal, &value).await.unwrap();
    assert_ne!(created, shard(), "collected: nothing tells what it served");
    assert_eq!(
        table.resolve_shard(&mem_wal, &value).await.unwrap(),
        created,
        "it served last, this one serves"
    );
}

fn sstable_path(file: &str) -> String {
    format!("{}/{file}", sstable_dir(shard(), &name()))
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

#[tokio::test]
async fn a_shard_that_was_dropped_and_is_drained_is_in_nobodys_way() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a")]).await;
    let value = ShardValue::Bucket(4);
    change(&table, id(7), |manifest| manifest.shard_field_values = value.to_entries()).await;
    seal(&table, id(7)).await;
    let reason = invalid(table.resolve_shard(&mem_wal, &value).await);
    assert!(reason.contains("sealed"), "{reason}");
    change(&table, id(7), |manifest| manifest.replay_after = WalPosition::new(1)).await;
    assert_ne!(table.resolve_shard(&mem_wal, &value).await.unwrap(), id(7));
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
async fn a_table_initialised_elsewhere_gets_a_key_index_and_keeps_the_ones_it_has() {
    let place = Place::new();
    place.table(&id_value_schema(), &["id"]).await;
    append(&place, id_value_rows(&[(1, "a"), (2, "b")])).await;
    let (mut dataset, btree) = (place.dataset().await, ScalarIndexParams::default());
    dataset
        .create_index(&["value"], IndexType::BTree, Some("words".to_owned()), &btree, false)
        .await
        .unwrap();
    let table = initialise_elsewhere(&place, vec![unsharded_spec()], Vec::new()).await;
    let words = |dataset: &Dataset| {
        let dataset = dataset.clone();
        async move {
            let indexes = dataset.load_indices().await.unwrap();
            indexes.iter().find(|index| index.name == "words").unwrap().clone()
        }
    };
    let before = place.dataset().await;
    let mem_wal = table.mem_wal().await.unwrap().unwrap();
    table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await.unwrap();

    let after = place.dataset().await;
    assert_eq!(after.version_id(), before.version_id() + 1, "together with the incarnation");
    assert_eq!(words(&after).await, words(&before).await);
    let mut found = index_on(&place).await;
    found.sort();
    let expected = [("headwater_key", "id"), ("words", "value")];
    assert_eq!(found, expected.map(|(name, column)| (name.to_owned(), column.to_owned())));
    let plan = after.scan().filter("id = 2").unwrap().explain_plan(false).await.unwrap();
    assert!(plan.contains("headwater_key"), "{plan}");
    assert_eq!(after.count_rows(Some("id = 2".to_owned())).await.unwrap(), 1);
    after.validate().await.unwrap();
}

#[tokio::test]
async fn a_table_initialised_elsewhere_with_a_btree_on_its_key_or_without_a_key_gets_none() {
    for key in [vec!["id"], vec![]] {
        let place = Place::new();
        place.table(&id_value_schema(), &key).await;
        let (mut dataset, btree) = (place.dataset().await, ScalarIndexParams::default());
        dataset
            .create_index(&["id"], IndexType::BTree, Some("mine".to_owned()), &btree, false)
            .await
            .unwrap();
        let table = initialise_elsewhere(&place, vec![unsharded_spec()], Vec::new()).await;
        let mem_wal = table.mem_wal().await.unwrap().unwrap();
        table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await.unwrap();
        assert_eq!(index_on(&place).await, [("mine".to_owned(), "id".to_owned())]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incarnation_given_beside_appends_keeps_their_rows() {
    let place = Place::new();
    place.table(&id_value_schema(), &["id"]).await;
    append(&place, id_value_rows(&[(100, "x")])).await;
    let table = initialise_elsewhere(&place, vec![unsharded_spec()], Vec::new()).await;
    let mem_wal = table.mem_wal().await.unwrap().unwrap();
    let appends = async {
        for id in 0..10 {
            append(&place, id_value_rows(&[(id, "x")])).await;
        }
    };
    let (resolved, ()) = futures::join!(table.resolve_shard(&mem_wal, &ShardValue::Unsharded), appends);
    resolved.unwrap();
    let dataset = place.dataset().await;
    assert_eq!(dataset.count_rows(None).await.unwrap(), 11);
    for id in [0, 9, 100] {
        assert_eq!(dataset.count_rows(Some(format!("id = {id}"))).await.unwrap(), 1, "{id}");
    }
    assert_eq!(index_on(&place).await.len(), 1);
    dataset.validate().await.unwrap();
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
}

#[tokio::test]
async fn a_table_that_names_b_trees_or_indexes_that_are_gone_is_written() {
    let place = Place::new();
    place.table(&id_value_schema(), &["id"]).await;
    let (mut dataset, btree) = (place.dataset().await, ScalarIndexParams::default());
    dataset.create_index(&["id"], IndexType::BTree, Some("ids".to_owned()), &btree, false).await.unwrap();
    let table = initialise_elsewhere(&place, vec![unsharded_spec()], names(&["ids", "gone"])).await;
    let mem_wal = table.mem_wal().await.unwrap().unwrap();
    table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await.unwrap();
}
