//! What a written generation looks like on storage, to us and to everybody else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use headwater_engine::table::TableIo;
use headwater_format::bloom::Bloom;
use headwater_format::coord::RowOffset;
use headwater_format::path::sstable_dir;

use crate::support::*;

/// Keys 1, 2, 3, 1, 3 with values a, b, c, a2, c2.
fn five_rows() -> Vec<Step> {
    vec![
        Step::Rows(id_value_rows(&[(1, "a"), (2, "b"), (3, "c")])),
        Step::Rows(id_value_rows(&[(1, "a2"), (3, "c2")])),
    ]
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

#[tokio::test]
async fn a_generation_is_a_plain_dataset_at_version_1_with_the_newest_row_of_each_key() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let written = write(&table, &frozen(&table, five_rows())).await.unwrap();
    assert_eq!((written.physical_rows, written.replaced_rows), (5, 2));

    let dataset = plain_dataset(&place).await;
    assert_eq!(dataset.version_id(), 1);
    let newest = cells(&scan_plain(&dataset).await, &["id", "value", "_tombstone"]);
    assert_eq!(newest, [row(&["2", "b", "false"]), row(&["1", "a2", "false"]), row(&["3", "c2", "false"])]);
    assert_eq!(dataset.count_deleted_rows().await.unwrap(), 2);
    let fragments = dataset.fragments();
    assert_eq!((fragments.len(), fragments[0].physical_rows), (1, Some(5)));
    dataset.validate().await.unwrap();
}

/// The cut (P4): what newer generations replace is the business of reads, never of files.
#[tokio::test]
async fn rows_replaced_by_a_newer_generation_stay_in_the_file() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let frozen = frozen(&table, five_rows());
    assert!(frozen.supersede(RowOffset::new(1), frozen.end_seq()));
    let written = write(&table, &frozen).await.unwrap();
    assert_eq!((written.physical_rows, written.replaced_rows), (5, 2));
    let live = cells(&scan_plain(&plain_dataset(&place).await).await, &["id"]);
    assert_eq!(live, [row(&["2"]), row(&["1"]), row(&["3"])]);
}

#[tokio::test]
async fn a_generation_consists_of_exactly_its_documented_files() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let written = write(&table, &frozen(&table, five_rows())).await.unwrap();

    let root = PathBuf::from(format!("{}/{}", place.uri(), sstable_dir(shard(), &name())));
    let files = files_below(&root);
    let kind = |path: &PathBuf| {
        let relative = path.strip_prefix(&root).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_str().unwrap().to_owned();
        (first, path.extension().and_then(|extension| extension.to_str()).unwrap().to_owned())
    };
    let kinds: Vec<_> = {
        let mut kinds: Vec<_> = files.iter().map(kind).collect();
        kinds.sort();
        kinds
    };
    let expected = [
        ("_deletions", "bin"),
        ("_pk_index", "lance"),
        ("_pk_index", "lance"),
        ("_versions", "manifest"),
        ("bloom_filter.bin", "bin"),
        ("data", "lance"),
    ];
    let expected: Vec<_> = expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    assert_eq!(kinds, expected);
    assert!(root.join("_versions/18446744073709551614.manifest").exists());
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert_eq!(written.file_bytes, bytes);
}

#[tokio::test]
async fn the_sidecar_answers_for_every_key_written_and_for_no_other() {
    let place = Place::new();
    let table = place.id_value_table().await;
    write(&table, &frozen(&table, five_rows())).await.unwrap();
    let reader = table.open_sstable(shard(), &sstable()).await.unwrap();
    assert_eq!(reader.physical_rows(), 5);
    let found = reader.find_keys(&ids(&[3, 0, 1, 4, 2, 1])).await.unwrap();
    let offsets = |found: &[RowOffset]| found.iter().map(|offset| offset.get()).collect::<Vec<_>>();
    let found: Vec<_> = found.iter().map(|found| offsets(found)).collect();
    assert_eq!(found, [vec![2, 4], vec![], vec![0, 3], vec![], vec![1], vec![0, 3]]);
}

/// Regression: lance#9035. A table with a key and no other index.
#[tokio::test]
async fn the_sidecar_of_a_large_generation_has_every_row() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let rows: Vec<(i64, &str)> = (0..20_000).map(|n| ((n * 7_919) % 15_000 - 7_000, "x")).collect();
    let steps = rows.chunks(997).map(|chunk| Step::Rows(id_value_rows(chunk))).collect();
    let written = write(&table, &frozen(&table, steps)).await.unwrap();
    assert_eq!((written.physical_rows, written.replaced_rows), (20_000, 5_000));

    let reader = table.open_sstable(shard(), &sstable()).await.unwrap();
    let asked: Vec<i64> = (-7_100..8_100).collect();
    let answers = reader.find_keys(&ids(&asked)).await.unwrap();
    let mut expected: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for ((id, _), offset) in rows.iter().zip(0..) {
        expected.entry(*id).or_default().push(offset);
    }
    for (id, answer) in asked.iter().zip(answers) {
        let expected = expected.get(id).cloned().unwrap_or_default();
        let found: Vec<u32> = answer.iter().map(|offset| offset.get()).collect();
        assert_eq!(found, expected, "key {id}");
    }
}

#[tokio::test]
async fn the_bloom_filter_has_every_key_and_is_sized_for_the_rows_there_are() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let rows: Vec<(i64, &str)> = (0..50_000).map(|n| (n, "x")).collect();
    write(&table, &frozen(&table, vec![Step::Rows(id_value_rows(&rows))])).await.unwrap();
    let path = format!("{}/{}/bloom_filter.bin", place.uri(), sstable_dir(shard(), &name()));
    let bloom = Bloom::from_bytes(&std::fs::read(path).unwrap()).unwrap();
    let key = table.key().unwrap();
    let there = key.hashes(&ids(&(0..50_000).collect::<Vec<_>>())).unwrap();
    assert!(there.iter().all(|hash| bloom.check(*hash)));
    let absent = key.hashes(&ids(&(1_000_000..1_050_000).collect::<Vec<_>>())).unwrap();
    let wrong = absent.iter().filter(|hash| bloom.check(**hash)).count();
    assert!(wrong < 50, "{wrong} of 50,000 absent keys are said to be there");
}

#[tokio::test]
async fn a_delete_is_a_row_with_the_key_nulls_and_a_tombstone() {
    let place = Place::new();
    let table = place.id_value_table().await;
    let steps = vec![Step::Rows(id_value_rows(&[(1, "a"), (2, "b")])), Step::Deletes(ids(&[1, 9]))];
    let written = write(&table, &frozen(&table, steps)).await.unwrap();
    assert_eq!((written.physical_rows, written.replaced_rows), (4, 1));
    let dataset = plain_dataset(&place).await;
    let live = cells(&scan_plain(&dataset).await, &["id", "value", "_tombstone"]);
    assert_eq!(live, [row(&["2", "b", "false"]), row(&["1", "", "true"]), row(&["9", "", "true"])]);
    dataset.validate().await.unwrap();
}

#[tokio::test]
async fn the_generation_keeps_the_storage_version_of_the_base_and_needs_no_reader_beyond_deletions() {
    let place = Place::new();
    let table = place.id_value_table().await;
    write(&table, &frozen(&table, five_rows())).await.unwrap();
    let base = place.dataset().await;
    let dataset = plain_dataset(&place).await;
    let (generation, base) = (dataset.manifest(), base.manifest());
    assert_eq!(generation.data_storage_format, base.data_storage_format);
    assert_eq!(generation.schema.metadata, base.schema.metadata);
    assert_eq!(generation.reader_feature_flags, 1, "deletion files only");
    assert_eq!(generation.max_fragment_id, Some(0));
    let nullable: Vec<bool> = generation.schema.fields.iter().map(|field| field.nullable).collect();
    assert_eq!(nullable, [false, true, false]);
}

#[tokio::test]
async fn listing_generations_names_directories_whether_published_or_not() {
    let place = Place::new();
    let table = place.id_value_table().await;
    assert!(table.list_generations(shard()).await.unwrap().is_empty());
    write(&table, &frozen(&table, five_rows())).await.unwrap();
    table.write_sstable(shard(), "00000001_gen_1", &frozen(&table, five_rows())).await.unwrap();
    let found: BTreeSet<String> = table.list_generations(shard()).await.unwrap().into_iter().collect();
    assert_eq!(found, BTreeSet::from([name(), "00000001_gen_1".to_owned()]));
}
