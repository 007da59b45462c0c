//! Giving a table its write tier, and noticing when it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_engine::manifest::create_shard;
use headwater_engine::table::TableIo;
use headwater_format::coord::WalPosition;
use headwater_format::coord::{Epoch, Generation, ManifestVersion, ShardId};
use headwater_format::path::{sstable_dir, wal_path};
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_format::wal_entry::{Compression, encode_rows, encode_sentinel};
use headwater_lance::{LanceTable, ShardValue, Sharding};
use headwater_store::Register;
use lance::Dataset;
use lance::dataset::{WriteMode, WriteParams};
use lance::index::DatasetIndexExt;
use lance_table::system_index::mem_wal::{
    MEM_WAL_INDEX_NAME, MemWalIndexDetails, load_mem_wal_index_details,
};
use uuid::Uuid;

use crate::support::*;

async fn details(dataset: &Dataset) -> MemWalIndexDetails {
    let indexes = dataset.load_indices().await.unwrap();
    let entry = indexes.iter().find(|index| index.name == MEM_WAL_INDEX_NAME).unwrap();
    load_mem_wal_index_details(entry.clone()).unwrap()
}

fn rows_of(schema: &Schema, rows: RecordBatch) -> RecordBatch {
    RecordBatch::try_new(Arc::new(schema.clone()), rows.columns().to_vec()).unwrap()
}

pub async fn append(place: &Place, rows: RecordBatch) {
    let dataset = place.dataset().await;
    let schema = Schema::from(dataset.schema());
    let rows = rows_of(&schema, rows);
    let params = WriteParams { mode: WriteMode::Append, ..WriteParams::default() };
    Dataset::write(RecordBatchIterator::new([Ok(rows)], Arc::new(schema)), &place.uri(), Some(params))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_details_are_as_the_reference_writes_them_plus_an_incarnation() {
    let columns = || (id_value_schema(), ["id"]);
    let cases = [
        (Sharding::Unsharded, 1, "unsharded", "int32", vec![], None),
        (
            Sharding::Bucket { column: "id".to_owned(), num_buckets: 7 },
            7,
            "bucket",
            "int32",
            vec![0],
            Some("7"),
        ),
        (Sharding::Identity { column: "id".to_owned() }, 0, "identity", "int64", vec![0], None),
    ];
    for (sharding, shards, transform, result_type, source_ids, buckets) in cases {
        let place = Place::new();
        let (schema, key) = columns();
        let table = place.table(&schema, &key).await;
        let mem_wal = table.init_mem_wal(&sharding).await.unwrap();
        assert_eq!((&mem_wal.sharding, mem_wal.spec_id), (&sharding, 1));
        assert_eq!(table.mem_wal().await.unwrap(), Some(mem_wal.clone()));
        assert_eq!(place.open().await.mem_wal().await.unwrap(), Some(mem_wal.clone()));

        let details = details(&place.dataset().await).await;
        assert_eq!((details.num_shards, details.maintain_all_indexes), (shards, true));
        assert!(details.maintained_indexes.is_empty() && details.compacted_sstables.is_empty());
        let spec = &details.sharding_specs[0];
        let field = &spec.fields[0];
        assert_eq!((spec.spec_id, field.field_id.as_str()), (1, "bucket"));
        assert_eq!(field.transform.as_deref(), Some(transform));
        assert_eq!((field.result_type.as_str(), &field.source_ids), (result_type, &source_ids));
        assert_eq!(field.parameters.get("num_buckets").map(String::as_str), buckets);
        let incarnation = mem_wal.incarnation.unwrap().to_string();
        assert_eq!(
            details.writer_config_defaults,
            [("headwater.incarnation".to_owned(), incarnation)].into()
        );
    }
}

#[tokio::test]
async fn feature_flags_of_the_base_stay_as_they_were() {
    for key in [vec!["id"], vec![]] {
        let place = Place::new();
        place.table(&id_value_schema(), &key).await;
        append(&place, id_value_rows(&[(1, "a"), (2, "b")])).await;
        let before = place.dataset().await;
        place.open().await.init_mem_wal(&Sharding::Unsharded).await.unwrap();
        let after = place.dataset().await;
        assert_ne!(before.version_id(), after.version_id());
        let flags = |dataset: &Dataset| {
            let manifest = dataset.manifest();
            (manifest.reader_feature_flags, manifest.writer_feature_flags)
        };
        assert_eq!(flags(&before), flags(&after));
        assert_eq!(before.manifest().config, after.manifest().config);
        assert_eq!(before.fragments(), after.fragments());
        assert_eq!(before.schema(), after.schema());
        after.validate().await.unwrap();
    }
}

pub async fn index_on(place: &Place) -> Vec<(String, String)> {
    let dataset = place.dataset().await;
    let indexes = dataset.load_indices().await.unwrap();
    let column = |id: i32| dataset.schema().field_by_id(id).unwrap().name.clone();
    let ordinary = indexes.iter().filter(|index| index.name != MEM_WAL_INDEX_NAME);
    ordinary.map(|index| (index.name.clone(), column(index.fields[0]))).collect()
}

fn a_b_schema() -> Schema {
    Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("b", DataType::Utf8, false),
        Field::new("flag", DataType::Boolean, false),
    ])
}

fn a_b_rows(rows: &[(i64, &str)]) -> RecordBatch {
    let a: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(a, _)| *a)));
    let b: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, b)| b)));
    let flag: ArrayRef = Arc::new(arrow_array::BooleanArray::from(vec![true; rows.len()]));
    batch(vec![("a", a), ("b", b), ("flag", flag)])
}

#[tokio::test]
async fn the_key_index_is_on_the_most_selective_key_column() {
    let place = Place::new();
    let table = place.table(&a_b_schema(), &["flag", "a", "b"]).await;
    append(&place, a_b_rows(&[(1, "x"), (1, "y"), (1, "z"), (2, "z")])).await;
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    assert_eq!(index_on(&place).await, [("headwater_key".to_owned(), "b".to_owned())]);
    let dataset = place.dataset().await;
    assert_eq!(dataset.count_rows(Some("b = 'z'".to_owned())).await.unwrap(), 2);
    let plan = dataset.scan().filter("b = 'z'").unwrap().explain_plan(false).await.unwrap();
    assert!(plan.contains("headwater_key"), "{plan}");
}

#[tokio::test]
async fn the_key_index_of_an_empty_table_is_named_and_takes_in_rows_later() {
    let place = Place::new();
    let table = place.table(&a_b_schema(), &["flag", "a", "b"]).await;
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    assert_eq!(
        index_on(&place).await,
        [("headwater_key".to_owned(), "a".to_owned())],
        "the widest type comes first"
    );
    append(&place, a_b_rows(&[(1, "x"), (2, "y")])).await;
    let mut dataset = place.dataset().await;
    assert_eq!(dataset.count_rows(Some("a = 2".to_owned())).await.unwrap(), 1);
    dataset.optimize_indices(&Default::default()).await.unwrap();
    assert_eq!(dataset.count_rows(Some("a = 2".to_owned())).await.unwrap(), 1);
    dataset.validate().await.unwrap();
}

#[tokio::test]
async fn an_existing_btree_on_the_key_is_used_and_a_taken_name_is_avoided() {
    let place = Place::new();
    let table = place.table(&a_b_schema(), &["a"]).await;
    append(&place, a_b_rows(&[(1, "x"), (2, "y")])).await;
    let params = lance_index::scalar::ScalarIndexParams::default();
    let mut dataset = place.dataset().await;
    dataset
        .create_index(&["a"], lance_index::IndexType::BTree, Some("mine".to_owned()), &params, false)
        .await
        .unwrap();
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    assert_eq!(index_on(&place).await, [("mine".to_owned(), "a".to_owned())]);

    let place = Place::new();
    let table = place.table(&a_b_schema(), &["a"]).await;
    append(&place, a_b_rows(&[(1, "x")])).await;
    let mut dataset = place.dataset().await;
    let name = Some("headwater_key".to_owned());
    dataset.create_index(&["b"], lance_index::IndexType::BTree, name, &params, false).await.unwrap();
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let mut found = index_on(&place).await;
    found.sort();
    assert_eq!(found[1], ("headwater_key_2".to_owned(), "a".to_owned()));
}

#[tokio::test]
async fn what_cannot_be_sharded_that_way_is_refused_and_commits_nothing() {
    let place = Place::new();
    let table = place.table(&a_b_schema(), &["a"]).await;
    let version = place.dataset().await.version_id();
    let bucket = |column: &str, num_buckets| Sharding::Bucket { column: column.to_owned(), num_buckets };
    let cases = [
        (bucket("b", 4), "not a key column"),
        (bucket("nope", 4), "not in the table"),
        (bucket("a", 0), "between 1 and 1024"),
        (bucket("a", 1025), "between 1 and 1024"),
        (Sharding::Identity { column: "b".to_owned() }, "not a key column"),
        (Sharding::Manual, "choose a sharding"),
    ];
    for (sharding, expected) in cases {
        let reason = invalid(table.init_mem_wal(&sharding).await);
        assert!(reason.contains(expected), "{reason}");
    }
    assert_eq!(place.dataset().await.version_id(), version);
}

#[tokio::test]
async fn a_table_with_a_column_that_no_sstable_can_hold_is_refused() {
    let of = |data_type, name: &str, value: &str| {
        Field::new("odd", data_type, true).with_metadata([(name.to_owned(), value.to_owned())].into())
    };
    let cases = [
        (of(DataType::LargeBinary, "lance-encoding:blob", "true"), "\"odd\" is a blob column"),
        (of(DataType::Utf8, "ARROW:extension:name", "arrow.json"), "\"odd\" is a JSON column"),
    ];
    for (odd, expected) in cases {
        let place = Place::new();
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), odd]));
        let nothing = RecordBatchIterator::new([], schema);
        let params = WriteParams {
            data_storage_version: Some(lance_file::version::LanceFileVersion::V2_1),
            ..WriteParams::default()
        };
        Dataset::write(nothing, &place.uri(), Some(params)).await.unwrap();
        let reason = invalid(place.open().await.init_mem_wal(&Sharding::Unsharded).await);
        assert!(reason.contains(expected), "{reason}");
    }
}

#[tokio::test]
async fn a_second_init_is_refused() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let version = place.dataset().await.version_id();
    for table in [table, place.open().await] {
        let reason = invalid(table.init_mem_wal(&Sharding::Unsharded).await);
        assert!(reason.contains("initialised already"), "{reason}");
    }
    assert_eq!(place.dataset().await.version_id(), version);
}

/// Regression: lance-context#131.
#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_inits_one_wins_and_the_others_are_told() {
    let place = Place::new();
    place.table(&id_value_schema(), &["id"]).await;
    append(&place, id_value_rows(&[(1, "a")])).await;
    let mut tables = Vec::new();
    for _ in 0..8 {
        tables.push(place.open().await);
    }
    let inits = tables.iter().map(|table| table.init_mem_wal(&Sharding::Unsharded));
    let ended = futures::future::join_all(inits).await;
    let mut won = Vec::new();
    for end in ended {
        match end {
            Ok(mem_wal) => won.push(mem_wal),
            lost => assert!(invalid(lost).contains("initialised already")),
        }
    }
    assert_eq!(won.len(), 1);
    let dataset = place.dataset().await;
    let indexes = dataset.load_indices().await.unwrap();
    assert_eq!(indexes.iter().filter(|index| index.name == MEM_WAL_INDEX_NAME).count(), 1);
    assert_eq!(index_on(&place).await.len(), 1);
    assert_eq!(place.open().await.mem_wal().await.unwrap(), won.pop());
    assert_eq!(dataset.count_rows(None).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_beside_appends_keeps_their_rows() {
    let place = Place::new();
    let table = place.table(&id_value_schema(), &["id"]).await;
    let appends = async {
        for id in 0..10 {
            append(&place, id_value_rows(&[(id, "x")])).await;
        }
    };
    let (initialised, ()) = futures::join!(table.init_mem_wal(&Sharding::Unsharded), appends);
    initialised.unwrap();
    let dataset = place.dataset().await;
    assert_eq!(dataset.count_rows(None).await.unwrap(), 10);
    assert_eq!(dataset.count_rows(Some("id = 7".to_owned())).await.unwrap(), 1);
    dataset.validate().await.unwrap();
}

#[tokio::test]
async fn a_table_without_a_write_tier_or_with_another_one_stops_its_writer() {
    let place = Place::new();
    let without = place.table(&id_value_schema(), &["id"]).await;
    let reason = invalid(without.base().await);
    assert!(reason.contains("no write tier"), "{reason}");

    without.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let table = place.open().await;
    assert_eq!(table.base().await.unwrap().version, place.dataset().await.version_id());
    let schema = Arc::new(Schema::from(place.dataset().await.schema()));
    let params = WriteParams { mode: WriteMode::Overwrite, ..WriteParams::default() };
    let nothing = RecordBatchIterator::new([], schema);
    Dataset::write(nothing, &place.uri(), Some(params)).await.unwrap();
    let reason = invalid(table.base().await);
    assert!(reason.contains("no write tier"), "{reason}");

    place.open().await.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let reason = invalid(table.base().await);
    assert!(reason.contains("made anew"), "{reason}");
    std::fs::remove_dir_all(place.uri()).unwrap();
    let reason = invalid(table.base().await);
    assert!(reason.contains("gone"), "{reason}");
}

/// A shard of an earlier write tier, with `rows` WAL rows.
async fn old_shard(table: &LanceTable, status: ShardStatus, rows: &[(i64, &str)]) -> ShardId {
    let id = ShardId::new(Uuid::from_u128(0xfeed));
    let first = create_shard(table.store(), id, 1, BTreeMap::new()).await.unwrap();
    let next = ShardManifest {
        version: ManifestVersion::new(2),
        status,
        writer_epoch: Epoch::new(1),
        write_id: None,
        ..first.as_ref().clone()
    };
    let register: Register<ShardManifest> = Register::for_shard(table.store().clone(), id);
    register.write(&next).await.unwrap();
    if !rows.is_empty() {
        let rows = id_value_rows(rows);
        let entry =
            encode_rows(&rows.schema(), Epoch::new(1), Generation::new(1), &[rows], Compression::None);
        table.store().put(&wal_path(id, WalPosition::new(1)), entry.unwrap()).await.unwrap();
    }
    id
}

#[tokio::test]
async fn init_over_shards_of_an_earlier_write_tier_lists_them_with_their_rows() {
    for (status, rows) in [(ShardStatus::Sealed, vec![(1, "a"), (2, "b")]), (ShardStatus::Active, vec![])] {
        let place = Place::new();
        let table = place.table(&id_value_schema(), &["id"]).await;
        let id = old_shard(&table, status, &rows).await;
        let reason = invalid(table.init_mem_wal(&Sharding::Unsharded).await);
        assert!(reason.contains(&format!("{id} ({} rows not in the base)", rows.len())), "{reason}");
        assert!(table.mem_wal().await.unwrap().is_none());
    }
}

/// What a writer that slept through the drop must meet stays: the sentinel, and every manifest (P10).
#[tokio::test]
async fn init_deletes_unnamed_sstables_of_dropped_shards_and_nothing_else() {
    let place = Place::new();
    let table = place.table(&id_value_schema(), &["id"]).await;
    let id = old_shard(&table, ShardStatus::Sealed, &[(1, "a")]).await;
    let sentinel = encode_sentinel(Epoch::new(2)).unwrap();
    table.store().put(&wal_path(id, WalPosition::new(2)), sentinel).await.unwrap();
    crate::foreign::change(&table, id, |manifest| {
        manifest.replay_after = WalPosition::new(2);
        manifest.last_seen = WalPosition::new(2);
        manifest.current_generation = Generation::new(3);
    })
    .await;
    let kept = paths_of(&table, id).await;
    assert_eq!(kept.len(), 6, "three manifests, a hint, an entry, a sentinel: {kept:?}");
    for name in ["00000001_gen_1", "00000002_gen_2", "00000003_gen_3"] {
        let file = format!("{}/bloom_filter.bin", sstable_dir(id, name));
        table.store().put(&file, vec![0_u8; 32].into()).await.unwrap();
    }
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let names = table.list_generations(id).await.unwrap();
    assert_eq!(names, ["00000003_gen_3"], "whoever writes that one is not known to have lost");
    let left = paths_of(&table, id).await;
    assert!(kept.is_subset(&left) && left.len() == kept.len() + 1, "{left:?}");

    let mem_wal = table.mem_wal().await.unwrap().unwrap();
    let shard = table.resolve_shard(&mem_wal, &ShardValue::Unsharded).await.unwrap();
    assert_ne!(shard, id, "the dropped shard serves nothing any more");
}

async fn paths_of(table: &LanceTable, shard: ShardId) -> BTreeSet<String> {
    let objects = table.store().list(&headwater_format::path::shard_dir(shard)).await.unwrap();
    objects.into_iter().map(|object| object.path).collect()
}

/// Reads find columns by name, and Lance takes a name for a path.
#[tokio::test]
async fn a_table_with_a_column_that_lance_cannot_read_by_name_is_refused() {
    for name in ["a`b", "*", ""] {
        let place = Place::new();
        let odd = Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), odd]));
        let nothing = RecordBatchIterator::new([], schema);
        Dataset::write(nothing, &place.uri(), None).await.unwrap();
        let reason = invalid(place.open().await.init_mem_wal(&Sharding::Unsharded).await);
        assert!(reason.contains(&format!("column {name:?}")) && reason.contains("rename"), "{reason}");
    }
}
