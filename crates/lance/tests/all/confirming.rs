//! What is looked at again once a shard is claimed, and what its manifest records from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatchIterator;
use arrow_schema::Schema;
use headwater_format::coord::{Epoch, WalPosition};
use headwater_lance::{Connection, LanceTable, ShardValue, Sharding};
use lance::Dataset;
use lance::dataset::{WriteMode, WriteParams};

use crate::foreign::*;
use crate::recorder::Recorder;
use crate::support::*;

/// Bucket of int64 1 and 2 of 8; that of 3 is 3.
const VALUE: ShardValue = ShardValue::Bucket(4);

#[tokio::test]
async fn an_adopted_shard_is_the_shard_of_its_value_when_it_is_drained_too() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a"), (2, "b")]).await;
    assert_eq!(table.resolve_shard(&mem_wal, &VALUE).await.unwrap(), id(7));
    assert_eq!(manifest_of(&table, id(7)).await.shard_field_values, BTreeMap::new(), "not before the claim");

    let epoch = claimed(&table, id(7)).await;
    table.confirm_shard(&mem_wal, &VALUE, id(7), epoch).await.unwrap();
    let manifest = manifest_of(&table, id(7)).await;
    assert_eq!((manifest.shard_spec_id, &manifest.shard_field_values), (1, &VALUE.to_entries()));
    assert_eq!((manifest.writer_epoch, manifest.version.get()), (epoch, 3), "created, claimed, recorded");
    table.confirm_shard(&mem_wal, &VALUE, id(7), epoch).await.unwrap();
    assert_eq!(manifest_of(&table, id(7)).await.version.get(), 3, "once");

    change(&table, id(7), |manifest| manifest.replay_after = WalPosition::new(1)).await;
    for table in [table, place.open().await] {
        assert_eq!(table.resolve_shard(&mem_wal, &VALUE).await.unwrap(), id(7));
        assert_eq!(table.shards().await.unwrap().len(), 1, "no second shard of the value");
    }
}

#[tokio::test]
async fn a_shard_found_on_storage_is_adopted_by_what_its_rows_say() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a")]).await;
    foreign_shard(&table, id(8), 1, &[]).await;
    for (shard, recorded) in [(7, VALUE.to_entries()), (8, BTreeMap::new())] {
        let epoch = claimed(&table, id(shard)).await;
        table.adopt_shard(&mem_wal, id(shard), epoch).await.unwrap();
        assert_eq!(manifest_of(&table, id(shard)).await.shard_field_values, recorded, "{shard}");
    }
    foreign_shard(&table, id(9), 1, &[(2, "b")]).await;
    let epoch = claimed(&table, id(9)).await;
    let reason = invalid(table.adopt_shard(&mem_wal, id(9), epoch).await);
    assert!(reason.contains(&id(7).to_string()) && reason.contains(&id(9).to_string()), "{reason}");
}

/// They can still be opened, to flush what is in them.
#[tokio::test]
async fn beside_a_shard_that_fits_no_sharding_no_value_is_recorded() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a")]).await;
    foreign_shard(&table, id(8), 1, &[(1, "a"), (3, "c")]).await;
    for shard in [7, 8] {
        let epoch = claimed(&table, id(shard)).await;
        table.adopt_shard(&mem_wal, id(shard), epoch).await.unwrap();
        assert_eq!(manifest_of(&table, id(shard)).await.shard_field_values, BTreeMap::new(), "{shard}");
    }
}

#[tokio::test]
async fn rows_of_another_value_that_came_before_the_claim_are_seen_after_it() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a")]).await;
    assert_eq!(table.resolve_shard(&mem_wal, &VALUE).await.unwrap(), id(7));
    wal(&table, id(7), 2, id_value_rows(&[(3, "c")])).await;
    let epoch = claimed(&table, id(7)).await;
    let reason = invalid(table.confirm_shard(&mem_wal, &VALUE, id(7), epoch).await);
    assert!(reason.contains("rows of 2 values"), "{reason}");
    assert_eq!(manifest_of(&table, id(7)).await.shard_field_values, BTreeMap::new());
}

#[tokio::test]
async fn a_second_shard_of_the_value_that_came_before_the_claim_is_seen_after_it() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    let ours = table.resolve_shard(&mem_wal, &VALUE).await.unwrap();
    foreign_shard(&table, id(7), 1, &[(1, "a")]).await;
    let epoch = claimed(&table, ours).await;
    let reason = invalid(table.confirm_shard(&mem_wal, &VALUE, ours, epoch).await);
    assert!(reason.contains(&ours.to_string()) && reason.contains(&id(7).to_string()), "{reason}");
}

#[tokio::test]
async fn a_claim_that_was_lost_since_records_nothing() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a")]).await;
    let (lost, held) = (claimed(&table, id(7)).await, claimed(&table, id(7)).await);
    assert_eq!((lost, held), (Epoch::new(1), Epoch::new(2)));
    table.confirm_shard(&mem_wal, &VALUE, id(7), lost).await.unwrap();
    assert_eq!(manifest_of(&table, id(7)).await.shard_field_values, BTreeMap::new());
    table.confirm_shard(&mem_wal, &VALUE, id(7), held).await.unwrap();
    assert_eq!(manifest_of(&table, id(7)).await.shard_field_values, VALUE.to_entries());
}

#[tokio::test]
async fn of_two_that_record_a_value_at_once_both_find_it_recorded() {
    let place = Place::new();
    let (table, mem_wal) = table_by(&place, &by_bucket()).await;
    foreign_shard(&table, id(7), 1, &[(1, "a")]).await;
    let epoch = claimed(&table, id(7)).await;
    let other = place.open().await;
    let (one, two) = futures::join!(
        table.confirm_shard(&mem_wal, &VALUE, id(7), epoch),
        other.confirm_shard(&mem_wal, &VALUE, id(7), epoch)
    );
    one.unwrap();
    two.unwrap();
    let manifest = manifest_of(&table, id(7)).await;
    assert_eq!((manifest.version.get(), &manifest.shard_field_values), (3, &VALUE.to_entries()));
}

#[tokio::test]
async fn what_a_caller_remembers_of_a_table_made_anew_creates_no_shard() {
    let place = Place::new();
    let (_, remembered) = table_by(&place, &by_bucket()).await;
    let schema = Arc::new(Schema::from(place.dataset().await.schema()));
    let params = WriteParams { mode: WriteMode::Overwrite, ..WriteParams::default() };
    Dataset::write(RecordBatchIterator::new([], schema), &place.uri(), Some(params)).await.unwrap();
    let reason = invalid(place.open().await.resolve_shard(&remembered, &VALUE).await);
    assert!(reason.contains("no write tier"), "{reason}");

    place.open().await.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let table = place.open().await;
    let reason = invalid(table.resolve_shard(&remembered, &VALUE).await);
    assert!(reason.contains("made anew"), "{reason}");
    let unclear = headwater_lance::MemWal { incarnation: None, ..remembered };
    let reason = invalid(table.resolve_shard(&unclear, &VALUE).await);
    assert!(reason.contains("spreads its rows another way"), "{reason}");
    assert!(table.shards().await.unwrap().is_empty());
}

/// The value of a shard never changes once it is recorded, so it is read once.
#[tokio::test]
async fn looking_for_the_shard_of_one_more_value_reads_as_many_manifests_as_for_the_first() {
    let recorder = Recorder::default();
    let connection = Connection::default().with_wrapper(Arc::new(recorder.clone()));
    let (uri, key) = ("memory://bucket/table.lance", names(&["id"]));
    let table =
        LanceTable::create_with(&connection, uri, &id_value_schema(), &key, &options(), env()).await.unwrap();
    let mem_wal = table.init_mem_wal(&Sharding::Identity { column: "id".to_owned() }).await.unwrap();
    let other = LanceTable::open_with(&connection, uri, &options(), env()).await.unwrap();
    let reads = || {
        let requests = recorder.take();
        requests.iter().filter(|request| request.contains("/manifest/") && request.starts_with("get")).count()
    };
    let mut counts = Vec::new();
    for id in 0..24_i64 {
        let value = ShardValue::Identity(id.to_le_bytes().to_vec());
        reads();
        let shard = table.resolve_shard(&mem_wal, &value).await.unwrap();
        table.confirm_shard(&mem_wal, &value, shard, Epoch::ZERO).await.unwrap();
        counts.push(reads());
    }
    assert!(counts[0] > 0 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");

    let all = (0..24_i64).map(|id| ShardValue::Identity(id.to_le_bytes().to_vec())).collect::<Vec<_>>();
    let found = futures::future::join_all(all.iter().map(|value| other.resolve_shard(&mem_wal, value))).await;
    assert!(found.iter().all(Result::is_ok), "{found:?}");
    let at_once = reads();
    assert!(at_once <= 2 * 24 * counts[0], "{at_once} reads of manifests for 24 values at once");
}
