//! What pylance 14.0.2 wrote (`tests/goldens/make_goldens.py`) decodes to what it was told to write, and what
//! we compute is what it computed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, Field, FieldRef, Schema};
use bytes::Bytes;
use headwater_format::bloom::Bloom;
use headwater_format::bucket::bucket;
use headwater_format::coord::{Epoch, Generation, ManifestVersion, ShardId, WalPosition};
use headwater_format::key::KeySchema;
use headwater_format::path;
use headwater_format::schema::{
    FIELD_ID, TOMBSTONE, logical_schema, schema_difference, storage_schema, to_storage,
};
use headwater_format::shard_manifest::{ManifestError, ShardManifest, ShardStatus, SsTable};
use headwater_format::wal_entry::{self, Compression, WalBody, WalEntry, WalEntryError};
use serde_json::Value;

fn golden(name: &str) -> Bytes {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    Bytes::from(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn expected() -> Value {
    serde_json::from_slice(&golden("expected.json")).unwrap()
}

fn shard(name: &str) -> ShardId {
    expected()[name]["shard"].as_str().unwrap().parse().unwrap()
}

fn manifest(name: &str) -> ShardManifest {
    ShardManifest::decode(&golden(name)).unwrap()
}

/// Epoch, generation and the only batch of an entry.
fn rows(name: &str) -> (Epoch, Option<Generation>, RecordBatch) {
    let WalEntry { epoch, body, tokens } = wal_entry::decode(golden(name)).unwrap();
    assert_eq!(tokens, [], "{name}: the reference knows no tokens");
    let WalBody::Rows { generation, batches } = body else { panic!("{name} is a sentinel") };
    let [batch] = batches.try_into().unwrap();
    (epoch, generation, batch)
}

#[test]
fn an_entry_of_rows_is_read() {
    let (epoch, generation, batch) = rows("wal_rows.arrow");
    assert_eq!((epoch, generation), (Epoch::new(1), Some(Generation::new(1))));
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    let names: Vec<_> = batch.column(1).as_string::<i32>().iter().collect();
    assert_eq!(names, [Some("one"), Some("two"), Some("three")]);
    let scores: Vec<_> = batch.column(2).as_primitive::<Float64Type>().iter().collect();
    assert_eq!(scores, [Some(1.5), None, Some(-0.0)]);
    let tags = batch.column(3).as_list::<i32>();
    assert_eq!(tags.value(0).as_primitive::<Int32Type>().values(), &[1, 2]);
    assert!(tags.is_null(1) && tags.is_valid(2) && tags.value(2).is_empty());
    let at = batch.column(4).as_struct();
    assert!(at.is_null(1));
    let ys = at.column(1).as_primitive::<Float32Type>();
    assert_eq!((ys.value(0), ys.value(2)), (2.0, 4.0));
    assert_eq!(batch.column_by_name(TOMBSTONE).unwrap().as_boolean().true_count(), 0);
}

#[test]
fn an_entrys_schema_is_our_storage_schema_of_its_base() {
    let (_, _, batch) = rows("wal_rows.arrow");
    let schema = batch.schema();
    assert_eq!(schema.metadata().len(), 1);
    assert_eq!(schema.metadata().get("owner").map(String::as_str), Some("goldens"));
    let fields: Vec<FieldRef> = schema.fields().iter().take(5).cloned().collect();
    let name = fields[1].as_ref().clone().with_nullable(false);
    let mut base: Vec<FieldRef> = fields;
    base[1] = Arc::new(name);
    let base = Schema::new_with_metadata(base, schema.metadata().clone());
    let storage = storage_schema(&base).unwrap();
    assert_eq!(schema_difference(&storage, &schema), None);
    assert_eq!(storage.fields()[..5], schema.fields()[..5]);
    assert_eq!(to_storage(&batch, &storage).unwrap().columns(), batch.columns());
    assert_eq!(logical_schema(&storage).as_ref(), &base);
}

#[test]
fn a_tombstone_is_read() {
    let (epoch, _, batch) = rows("wal_tombstone.arrow");
    assert_eq!(epoch, Epoch::new(1));
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[2]);
    assert!((1..5).all(|column| batch.column(column).null_count() == 1));
    assert!(batch.column_by_name(TOMBSTONE).unwrap().as_boolean().value(0));
}

#[test]
fn the_sentinel_of_a_second_claim_is_read_and_written_alike() {
    let bytes = golden("wal_sentinel.arrow");
    let entry = WalEntry { epoch: Epoch::new(2), body: WalBody::FenceSentinel, tokens: Vec::new() };
    assert_eq!(wal_entry::decode(bytes.clone()), Ok(entry));
    assert_eq!(wal_entry::encode_sentinel(Epoch::new(2)).unwrap(), bytes);
}

#[test]
fn compressed_entries_hold_the_same_rows() {
    let plain = wal_entry::decode(golden("wal_rows.arrow")).unwrap();
    for name in ["wal_lz4.arrow", "wal_zstd.arrow"] {
        assert_eq!(wal_entry::decode(golden(name)).unwrap(), plain, "{name}");
    }
}

#[test]
fn an_entry_of_a_table_without_key_is_read() {
    let (_, _, batch) = rows("wal_keyless.arrow");
    assert_eq!(KeySchema::from_schema(&batch.schema()), Ok(None));
    let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["line", "number", TOMBSTONE]);
    assert!(batch.schema().field(0).is_nullable(), "the reference widens it even without deletes");
    let base = Schema::new(batch.schema().fields().iter().take(2).cloned().collect::<Vec<_>>());
    assert_eq!(schema_difference(&storage_schema(&base).unwrap(), &batch.schema()), None);
}

#[test]
fn our_entry_of_the_same_rows_says_the_same_in_fewer_bytes() {
    for name in ["wal_rows.arrow", "wal_tombstone.arrow", "wal_keyless.arrow", "wal_keys_all.arrow"] {
        let (epoch, generation, batch) = rows(name);
        let schema = batch.schema();
        let ours =
            wal_entry::encode_rows(&schema, epoch, generation.unwrap(), &[batch], Compression::None).unwrap();
        assert!(ours.len() < golden(name).len(), "{name}: {} of {} bytes", ours.len(), golden(name).len());
        assert_eq!(wal_entry::decode(ours).unwrap(), wal_entry::decode(golden(name)).unwrap(), "{name}");
    }
}

#[test]
fn every_strict_prefix_of_a_golden_entry_is_truncated() {
    for name in ["wal_rows.arrow", "wal_lz4.arrow", "wal_zstd.arrow", "wal_sentinel.arrow"] {
        let bytes = golden(name);
        for length in 0..bytes.len() {
            let found = wal_entry::decode(bytes.slice(..length));
            assert_eq!(found, Err(WalEntryError::Truncated { length }), "{name}");
        }
    }
}

#[test]
fn manifests_through_a_shards_life_are_read() {
    let claimed = manifest("manifest_claimed.binpb");
    let mut next = ShardManifest::fresh(shard("rows"), 1, BTreeMap::new(), None);
    next.writer_epoch = Epoch::new(1);
    assert_eq!(claimed, next);

    next.version = ManifestVersion::new(2);
    next.writer_epoch = Epoch::new(2);
    assert_eq!(manifest("manifest_taken_over.binpb"), next);

    let flushed = manifest("manifest_flushed.binpb");
    let name = expected()["rows"]["sstable"].as_str().unwrap().to_owned();
    assert!(
        matches!(path::parse_sstable_name(&name), Some((_, generation)) if generation == Generation::new(1))
    );
    let bytes = flushed.sstables[0].in_memory_bytes;
    assert!(bytes.is_some_and(|bytes| bytes > 0));
    next.version = ManifestVersion::new(expected()["rows"]["flushed_version"].as_u64().unwrap());
    next.current_generation = Generation::new(2);
    next.replay_after = WalPosition::new(3);
    next.last_seen = WalPosition::new(3);
    next.sstables = vec![SsTable {
        generation: Generation::new(1),
        path: name,
        in_memory_bytes: bytes,
        physical_rows: Some(4),
        primary_key_bytes: Some(32),
    }];
    assert_eq!(flushed, next);
}

#[test]
fn key_bytes_are_absent_without_a_key() {
    let [sstable] = manifest("manifest_keyless.binpb").sstables.try_into().unwrap();
    assert_eq!((sstable.physical_rows, sstable.primary_key_bytes), (Some(2), None));
    assert_eq!(sstable.path, expected()["keyless"]["sstable"].as_str().unwrap());
}

#[test]
fn a_fresh_manifest_and_the_references_claim_of_it_are_read() {
    let values = BTreeMap::from([("bucket".to_owned(), 3_i32.to_le_bytes().to_vec())]);
    let mut next = ShardManifest::fresh(shard("fresh"), 1, values, None);
    assert_eq!(manifest("by_hand_fresh.binpb"), next, "unknown tags are ignored");
    next.version = ManifestVersion::new(2);
    next.writer_epoch = Epoch::new(1);
    assert_eq!(manifest("manifest_fresh_claimed.binpb"), next);
    assert_eq!(next.status, ShardStatus::Active);
}

#[test]
fn a_golden_manifest_cut_short_is_refused_or_lacks_only_field_values() {
    let names = ["claimed", "taken_over", "flushed", "keyless", "fresh_claimed"];
    for name in names.map(|name| format!("manifest_{name}.binpb")) {
        let (bytes, whole) = (golden(&name), manifest(&name));
        for length in 0..bytes.len() {
            match ShardManifest::decode(&bytes[..length]) {
                Err(ManifestError::Undecodable { .. } | ManifestError::Missing { .. }) => {}
                Err(other) => panic!("{name} at {length}: {other}"),
                Ok(found) => {
                    assert!(!whole.shard_field_values.is_empty(), "{name} at {length}");
                    let without = ShardManifest { shard_field_values: BTreeMap::new(), ..whole.clone() };
                    assert_eq!(found, without);
                }
            }
        }
    }
}

/// Manifests in our wire order are the same message: same length, same meaning.
#[test]
fn our_bytes_of_a_golden_manifest_say_the_same() {
    for name in ["manifest_flushed.binpb", "manifest_fresh_claimed.binpb"] {
        let whole = manifest(name);
        assert_eq!(whole.encode().len(), golden(name).len(), "{name}");
        assert_eq!(ShardManifest::decode(&whole.encode()), Ok(whole));
    }
}

#[test]
fn composite_key_bytes_are_those_of_the_references_key_index() {
    for name in ["keys_hashed", "keys_all"] {
        let (_, _, batch) = rows(&format!("wal_{name}.arrow"));
        let key = KeySchema::from_schema(&batch.schema()).unwrap().unwrap();
        let encoded = key.encode(&batch).unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let found: Vec<String> = (0..encoded.len()).map(|row| hex(encoded.value(row))).collect();
        let expected: Vec<String> = serde_json::from_value(expected()[name].clone()).unwrap();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn the_references_bloom_filters_are_the_ones_we_make() {
    for name in ["keys_int64", "keys_utf8", "keys_hashed"] {
        let (_, _, batch) = rows(&format!("wal_{name}.arrow"));
        let key = KeySchema::from_schema(&batch.schema()).unwrap().unwrap();
        assert!(key.columns().iter().all(|column| column.key_type.is_hashed_by_reference()));
        let hashes = key.hashes(&batch).unwrap();
        let theirs = Bloom::from_bytes(&golden(&format!("bloom_{name}.bin"))).unwrap();
        assert!(hashes.iter().all(|hash| theirs.check(*hash)), "{name}");
        let mut ours = Bloom::with_ndv_fpp(8_192, 0.000_57);
        hashes.iter().for_each(|hash| ours.insert(*hash));
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn buckets_are_those_of_the_reference() {
    let stream = StreamReader::try_new(std::io::Cursor::new(golden("buckets.arrow")), None).unwrap();
    let [batch] = stream.collect::<Result<Vec<_>, _>>().unwrap().try_into().unwrap();
    let mut compared = 0;
    for (index, field) in batch.schema().fields().iter().enumerate() {
        let Some((name, num_buckets)) = field.name().split_once('/') else { continue };
        let found =
            bucket(batch.column_by_name(name).unwrap().as_ref(), num_buckets.parse().unwrap()).unwrap();
        let theirs = batch.column(index).as_primitive::<Int32Type>();
        let theirs: Vec<u32> = theirs.iter().map(|bucket| u32::try_from(bucket.unwrap()).unwrap()).collect();
        assert_eq!(found, theirs, "{}", field.name());
        compared += 1;
    }
    assert_eq!(compared, 4 * 22, "22 types at four numbers of buckets");
}

#[test]
fn an_entry_without_ids_or_tombstone_is_no_difference() {
    let (_, _, batch) = rows("wal_rows.arrow");
    let plain = |field: &FieldRef| Field::new(field.name(), field.data_type().clone(), field.is_nullable());
    let bare = Schema::new(batch.schema().fields().iter().take(5).map(plain).collect::<Vec<_>>());
    assert_eq!(schema_difference(&batch.schema(), &bare), None);
    assert_eq!(batch.schema().field(0).metadata().get(FIELD_ID).map(String::as_str), Some("0"));
    assert_eq!(batch.schema().field(5).data_type(), &DataType::Boolean);
}
