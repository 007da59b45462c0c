//! `verify` finds nothing on a sound table, whatever it went through, and names invariant and path of
//! everything that is broken.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use headwater::coord::{Epoch, Generation, ManifestVersion, ShardId, WalPosition};
use headwater::verify::VerifyReport;
use headwater::{Error, Sharding, Table, TableOptions, TokioEnv};
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{self, Compression};
use lance::Dataset;
use lance::index::DatasetIndexExt;

use crate::support::{Home, copy, file, keys, named, options, rows, schema, text, tree};

async fn verified(home: &Home) -> Result<VerifyReport, Error> {
    let env = Arc::new(TokioEnv::new());
    headwater::verify::verify(&home.uri(), &TableOptions::default(), env, &|_| {}).await
}

#[track_caller]
fn assert_sound(report: &VerifyReport) {
    assert!(report.sound && report.findings.is_empty(), "{:#?}", report.findings);
}

/// A table with one shard that crashed. Entries 1 and 2 are generation 1, entry 3 is generation 2, entries 4
/// to 6 are only in the WAL. Both SSTables have four rows, and replace different ones of them.
struct Broken {
    home: Home,
    shard: ShardId,
}

impl Broken {
    async fn new() -> Self {
        let home = Home::new();
        let table = home.create(&Sharding::Unsharded).await;
        table.put(rows(&[(1, "a"), (2, "b"), (1, "a2")])).await.unwrap();
        table.delete(keys(&[2])).await.unwrap();
        table.flush().await.unwrap();
        table.put(rows(&[(3, "c"), (3, "c2"), (4, "d"), (5, "e")])).await.unwrap();
        table.flush().await.unwrap();
        for (id, name) in [(4, "d2"), (6, "f"), (7, "g")] {
            table.put(rows(&[(id, name)])).await.unwrap();
        }
        table.abandon();
        drop(table);
        let shard = home.shard().await.id.parse().unwrap();
        let broken = Self { home, shard };
        let manifest = broken.manifest().await;
        assert_eq!((manifest.replay_after.get(), manifest.current_generation.get()), (3, 3));
        assert_sound(&verified(&broken.home).await.unwrap());
        broken
    }

    fn at(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn entry(&self, position: u64) -> String {
        path::wal_path(self.shard, WalPosition::new(position))
    }

    fn write_entry(&self, position: u64, epoch: u64, generation: u64, batch: &RecordBatch) {
        let (epoch, generation) = (Epoch::new(epoch), Generation::new(generation));
        let batches = std::slice::from_ref(batch);
        let entry = wal_entry::encode_rows(&batch.schema(), epoch, generation, batches, Compression::None);
        fs::write(self.at(&self.entry(position)), entry.unwrap()).unwrap();
    }

    async fn manifest(&self) -> ShardManifest {
        let version = ManifestVersion::new(self.home.shard().await.manifest.unwrap().version);
        let path = path::manifest_path(self.shard, version);
        ShardManifest::decode(&fs::read(self.at(&path)).unwrap()).unwrap()
    }

    /// Writes `manifest` over the version it says it is; the path of that version.
    fn write_manifest(&self, manifest: &ShardManifest) -> String {
        let path = path::manifest_path(self.shard, manifest.version);
        fs::write(self.at(&path), manifest.encode()).unwrap();
        path
    }

    /// The SSTable of a generation, below the table.
    async fn sstable(&self, generation: u64) -> String {
        let manifest = self.manifest().await;
        let found = manifest.sstables.iter().find(|sstable| sstable.generation.get() == generation);
        path::sstable_dir(self.shard, &found.unwrap().path)
    }

    /// Something is found of `invariant` at `path`, in words that say `what`.
    async fn assert_found(&self, invariant: &str, path: &str, what: &str) {
        let before = tree(&self.home.path());
        let report = verified(&self.home).await.unwrap();
        let found = report.findings.iter().any(|finding| {
            finding.invariant == invariant && finding.path == path && finding.found.contains(what)
        });
        assert!(found, "{invariant} {path} {what:?} in {:#?}", report.findings);
        assert!(!report.sound);
        assert!(report.findings.iter().all(|finding| !finding.advice.is_empty()));
        assert_eq!(tree(&self.home.path()), before, "nothing was written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_table_gives_no_finding_and_says_what_was_checked() {
    let broken = Broken::new().await;
    let report = verified(&broken.home).await.unwrap();
    assert_sound(&report);
    let checked = report.checked;
    assert_eq!((checked.shards, checked.entries, checked.sentinels, checked.entry_rows), (1, 6, 0, 11));
    let of_sstables = (checked.sstables, checked.sstable_rows, checked.replaced_rows, checked.tombstones);
    assert_eq!(of_sstables, (2, 8, 3, 1));
    assert!(checked.manifests >= 4, "created, claimed, two publishes: {checked:?}");
    assert_eq!(report.key_indexes.len(), 1);

    // Another writer takes the shard over, with its fence, and goes on.
    let table = broken.home.open().await;
    table.open_shards().await.unwrap();
    table.put(named(10..40)).await.unwrap();
    let report = verified(&broken.home).await.unwrap();
    assert_sound(&report);
    assert_eq!((report.checked.entries, report.checked.sentinels), (8, 1));
    table.put(named(40..50)).await.expect("the writer was not disturbed");
    table.close().await.unwrap();
    let report = verified(&broken.home).await.unwrap();
    assert_sound(&report);
    assert_eq!(report.checked.sstables, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_table_is_sound_and_nothing_was_checked() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let report = verified(&home).await.unwrap();
    assert_sound(&report);
    assert_eq!(report.checked, headwater::verify::report::Checked::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_version_0_1_is_sound() {
    let home = Home::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/0.1/table.lance"), &home.path());
    let report = verified(&home).await.unwrap();
    assert_sound(&report);
    assert_eq!(report.checked.sstables, 2);
}

fn composite(rows: impl IntoIterator<Item = (i64, i64)>) -> RecordBatch {
    let rows: Vec<(i64, i64)> = rows.into_iter().collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|(key, _)| format!("key-{}", key / 5)))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|(key, _)| (key % 5) as i32))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, n)| *n))),
    ];
    RecordBatch::try_new(composite_schema(), columns).unwrap()
}

fn composite_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, false),
        Field::new("part", DataType::Int32, false),
        Field::new("n", DataType::Int64, true),
    ]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_composite_key_over_buckets_with_replaced_and_deleted_rows_is_sound() {
    let home = Home::new();
    let key = ["k".to_owned(), "part".to_owned()];
    let sharding = Sharding::Bucket { column: "k".to_owned(), num_buckets: 4 };
    let table = Table::create(&home.uri(), &composite_schema(), &key, &sharding, options()).await.unwrap();
    for round in 0..3 {
        table.put(composite((0..100).map(|key| (key, round)))).await.unwrap();
        table.put(composite((40..60).map(|key| (key, round + 100)))).await.unwrap();
        table.delete(composite((0..10).map(|key| (key, 0))).project(&[0, 1]).unwrap()).await.unwrap();
        table.flush().await.unwrap();
    }
    table.put(composite((90..120).map(|key| (key, 7)))).await.unwrap();
    table.abandon();
    drop(table);
    let report = verified(&home).await.unwrap();
    assert_sound(&report);
    assert_eq!(report.checked.sstable_rows, 3 * 130);
    assert_eq!(report.checked.replaced_rows, 3 * 30);
    assert_eq!(report.checked.tombstones, 3 * 10);
    assert!(report.checked.shards > 1, "{:?}", report.checked);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_only_table_is_sound() {
    let home = Home::new();
    let table = Table::create(&home.uri(), &schema(), &[], &Sharding::Unsharded, options()).await.unwrap();
    table.put(rows(&[(1, "a"), (1, "a")])).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(1, "a")])).await.unwrap();
    table.abandon();
    drop(table);
    let report = verified(&home).await.unwrap();
    assert_sound(&report);
    assert_eq!((report.checked.sstable_rows, report.checked.replaced_rows), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_table_with_a_write_tier_is_an_error_not_a_sound_table() {
    let home = Home::new();
    let error = verified(&home).await.unwrap_err();
    assert!(text(&error).contains(&home.uri()), "{error}");
    let batches = arrow_array::RecordBatchIterator::new([Ok(rows(&[(1, "a")]))], Arc::new(schema()));
    Dataset::write(batches, &home.uri(), None).await.unwrap();
    let error = verified(&home).await.unwrap_err();
    assert!(text(&error).contains("headwater init"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_in_the_wal_is_found_from_the_replay_cursor_on() {
    for hole in [3, 5] {
        let broken = Broken::new().await;
        fs::remove_file(broken.at(&broken.entry(hole))).unwrap();
        broken.assert_found("P8", &broken.entry(hole), "missing").await;
    }
    let broken = Broken::new().await;
    fs::remove_file(broken.at(&broken.entry(1))).unwrap();
    assert_sound(&verified(&broken.home).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_entry_is_found() {
    let broken = Broken::new().await;
    let whole = fs::read(broken.at(&broken.entry(6))).unwrap();
    for keep in [0, whole.len() / 2, whole.len() - 1] {
        fs::write(broken.at(&broken.entry(6)), &whole[..keep]).unwrap();
        broken.assert_found("P8", &broken.entry(6), "wal entry").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_does_not_belong_where_it_lies_is_found() {
    let broken = Broken::new().await;
    let batch = rows(&[(9, "i")]);
    broken.write_entry(6, 99, 3, &batch);
    broken.assert_found("P7", &broken.entry(6), "99").await;
    broken.write_entry(6, 0, 3, &batch);
    broken.assert_found("P7", &broken.entry(6), "follow").await;
    broken.write_entry(6, 1, 2, &batch);
    broken.assert_found("P11", &broken.entry(6), "generation 2").await;
    broken.write_entry(6, 1, 5, &batch);
    broken.assert_found("P11", &broken.entry(6), "generation 5").await;
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let foreign = RecordBatch::try_from_iter([("temperature", column)]).unwrap();
    broken.write_entry(6, 1, 3, &foreign);
    broken.assert_found("P15", &broken.entry(6), "temperature").await;
    broken.write_entry(6, 1, 3, &batch);
    assert_sound(&verified(&broken.home).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_gone_or_no_manifest_is_found() {
    let broken = Broken::new().await;
    let newest = broken.manifest().await;
    let path = path::manifest_path(broken.shard, newest.version);
    let whole = fs::read(broken.at(&path)).unwrap();
    fs::write(broken.at(&path), &whole[..whole.len() - 3]).unwrap();
    broken.assert_found("P8", &path, "manifest").await;
    let other = ShardManifest { version: newest.version.next(), ..newest.clone() };
    fs::write(broken.at(&path), other.encode()).unwrap();
    broken.assert_found("P8", &path, "its name says").await;
    let other = ShardManifest { shard_id: ShardId::new(uuid::Uuid::from_u128(7)), ..newest };
    fs::write(broken.at(&path), other.encode()).unwrap();
    broken.assert_found("P8", &path, "of shard").await;
    fs::write(broken.at(&path), whole).unwrap();

    let second = path::manifest_path(broken.shard, ManifestVersion::new(2));
    fs::remove_file(broken.at(&second)).unwrap();
    broken.assert_found("P8", &second, "missing").await;

    fs::remove_dir_all(broken.at(&path::manifest_dir(broken.shard))).unwrap();
    broken.assert_found("P8", &path::manifest_dir(broken.shard), "no manifest").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_goes_back_on_the_one_before_is_found() {
    let broken = Broken::new().await;
    let newest = broken.manifest().await;
    let path = broken.write_manifest(&ShardManifest { writer_epoch: Epoch::ZERO, ..newest.clone() });
    broken.assert_found("P7", &path, "epoch falls").await;
    broken.write_manifest(&ShardManifest { last_seen: WalPosition::new(1), ..newest.clone() });
    broken.assert_found("P8", &path, "below the replay cursor").await;
    broken.write_manifest(&ShardManifest { replay_after: WalPosition::ZERO, ..newest });
    broken.assert_found("P11", &path, "replay cursor falls").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_cursor_that_is_not_the_end_of_the_published_generations_is_found() {
    let broken = Broken::new().await;
    let newest = broken.manifest().await;
    let low = ShardManifest { replay_after: WalPosition::new(2), ..newest.clone() };
    broken.write_manifest(&low);
    broken.assert_found("P11", &broken.entry(3), "above the replay cursor").await;
    let high = ShardManifest { replay_after: WalPosition::new(5), last_seen: WalPosition::new(5), ..newest };
    broken.write_manifest(&high);
    broken.assert_found("P11", &broken.entry(4), "below the replay cursor").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn generations_that_are_no_unbroken_run_are_found() {
    let broken = Broken::new().await;
    let newest = broken.manifest().await;
    let beyond = ShardManifest { current_generation: Generation::new(9), ..newest.clone() };
    let path = broken.write_manifest(&beyond);
    broken.assert_found("P11", &path, "generations 3 to 8").await;
    broken.write_manifest(&ShardManifest { current_generation: Generation::new(2), ..newest.clone() });
    broken.assert_found("P11", &path, "sstables").await;
    let mut dropped = newest.clone();
    dropped.sstables.remove(0);
    broken.write_manifest(&dropped);
    broken.assert_found("P11", &path, "generation 1 is missing").await;
    let mut unsorted = newest;
    unsorted.sstables.reverse();
    broken.write_manifest(&unsorted);
    broken.assert_found("P11", &path, "sstables").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sstable_that_lacks_a_file_is_found() {
    let broken = Broken::new().await;
    let sstable = broken.sstable(1).await;
    let whole = broken.home.path().with_file_name("whole");
    copy(&broken.at(&sstable), &whole);
    let data = file(&broken.at(&format!("{sstable}/data")), "");
    let data = format!("data/{}", data.file_name().unwrap().to_string_lossy());
    for (lost, named) in [
        ("bloom_filter.bin", "bloom_filter.bin"),
        (data.as_str(), data.as_str()),
        ("_deletions", "_deletions"),
        ("_pk_index", "_pk_index"),
        ("_pk_index/page_lookup.lance", "_pk_index"),
        ("_pk_index/page_data.lance", "_pk_index"),
        ("_versions", "_versions"),
    ] {
        let path = broken.at(&format!("{sstable}/{lost}"));
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.unwrap();
        broken.assert_found("P9", &format!("{sstable}/{named}"), "").await;
        copy(&whole, &broken.at(&sstable));
    }
    fs::remove_dir_all(broken.at(&sstable)).unwrap();
    broken.assert_found("P9", &sstable, "no files").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sstable_whose_files_do_not_agree_is_found() {
    let broken = Broken::new().await;
    let (first, second) = (broken.sstable(1).await, broken.sstable(2).await);
    let whole = broken.home.path().with_file_name("whole");
    copy(&broken.at(&first), &whole);
    let restore = || copy(&whole, &broken.at(&first));

    let bloom = format!("{first}/bloom_filter.bin");
    let size = fs::read(broken.at(&bloom)).unwrap().len();
    fs::write(broken.at(&bloom), vec![0; size]).unwrap();
    broken.assert_found("P9", &bloom, "denies the keys of 4 rows").await;
    fs::write(broken.at(&bloom), b"short").unwrap();
    broken.assert_found("P9", &bloom, "32").await;
    restore();

    let sidecar = format!("{first}/_pk_index");
    copy(&broken.at(&format!("{second}/_pk_index")), &broken.at(&sidecar));
    broken.assert_found("P9", &sidecar, "does not know 4 rows").await;
    restore();

    let deletions = |sstable: &str| file(&broken.at(&format!("{sstable}/_deletions")), "0-1-");
    fs::copy(deletions(&second), deletions(&first)).unwrap();
    broken.assert_found("P9", &format!("{first}/_deletions"), "does not mark the row at offset 1").await;
    restore();

    let data = file(&broken.at(&format!("{first}/data")), "");
    let content = fs::read(&data).unwrap();
    fs::write(&data, &content[..content.len() / 2]).unwrap();
    let named = format!("{first}/data/{}", data.file_name().unwrap().to_string_lossy());
    broken.assert_found("P9", &named, "bytes").await;
    restore();

    let mut miscounted = broken.manifest().await;
    miscounted.sstables[0].physical_rows = Some(99);
    broken.write_manifest(&miscounted);
    broken.assert_found("P9", &first, "99").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_lost_the_write_tier_or_its_key_index_is_found() {
    let broken = Broken::new().await;
    let dataset = Dataset::open(&broken.home.uri()).await.unwrap();
    let indexes = dataset.load_indices().await.unwrap();
    let key = indexes.iter().find(|index| index.name == "headwater_key").unwrap();
    let lookup = format!("_indices/{}/page_lookup.lance", key.uuid);
    let content = fs::read(broken.at(&lookup)).unwrap();
    fs::remove_file(broken.at(&lookup)).unwrap();
    broken.assert_found("P16", &lookup, "headwater_key").await;
    fs::write(broken.at(&lookup), content).unwrap();

    let mut dataset = dataset;
    dataset.drop_index("__lance_mem_wal").await.unwrap();
    broken.assert_found("P16", "_versions", "no MemWAL index").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_the_wrong_shard_are_found_in_sstables_and_in_the_wal() {
    let home = Home::new();
    let table = home.create(&Sharding::Bucket { column: "id".to_owned(), num_buckets: 2 }).await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(1, "a2")])).await.unwrap();
    table.abandon();
    drop(table);
    let shard: ShardId = home.shard().await.id.parse().unwrap();
    let broken = Broken { home, shard };
    assert_sound(&verified(&broken.home).await.unwrap());

    let mut moved = broken.manifest().await;
    for value in moved.shard_field_values.values_mut() {
        value[0] ^= 1;
    }
    broken.write_manifest(&moved);
    let sstable = broken.sstable(1).await;
    broken.assert_found("P16", &sstable, "the row at offset 0").await;
    broken.assert_found("P16", &broken.entry(2), "it holds rows of bucket").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_shards_that_serve_one_value_are_found() {
    let broken = Broken::new().await;
    let twin = ShardId::new(uuid::Uuid::from_u128(u128::MAX));
    let manifest = broken.manifest().await;
    let created =
        ShardManifest::fresh(twin, manifest.shard_spec_id, manifest.shard_field_values.clone(), None);
    fs::create_dir_all(broken.at(&path::manifest_dir(twin))).unwrap();
    fs::write(broken.at(&path::manifest_path(twin, created.version)), created.encode()).unwrap();
    broken.assert_found("P7", &path::shard_dir(twin), &broken.shard.to_string()).await;
}
