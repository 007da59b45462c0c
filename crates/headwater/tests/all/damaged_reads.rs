//! Reads of damaged tables end with a typed error that names the file, never with a panic (P14).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headwater::{Error, GetRequest, Sharding, Table, TableError, TableOptions, TokioEnv};

use crate::support::{Home, keys, named, options};

/// A table with rows in the base, in an SSTable and in the WAL.
async fn table(home: &Home) {
    let made = home.create(&Sharding::Unsharded).await;
    made.close().await.unwrap();
    let batches = arrow_array::RecordBatchIterator::new([Ok(named(0..10))], named(0..1).schema());
    let append = lance::dataset::WriteParams {
        mode: lance::dataset::WriteMode::Append,
        ..lance::dataset::WriteParams::default()
    };
    lance::Dataset::write(batches, &home.uri(), Some(append)).await.unwrap();
    let table = home.open().await;
    table.put(named(5..12)).await.unwrap();
    table.flush().await.unwrap();
    table.put(named(8..14)).await.unwrap();
    table.abandon();
}

fn only(directory: &Path) -> PathBuf {
    let mut found: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Count, filter and get; the errors of those that fail. None of them may panic.
async fn errors(home: &Home) -> Vec<Error> {
    let table = match Table::open(&home.uri(), options()).await {
        Ok(table) => table,
        Err(error) => return vec![error],
    };
    let get = GetRequest { keys: keys(&[1, 6, 9, 99]), columns: None };
    let ends = [
        table.count(None).await.map(|_| ()),
        table.count(Some("name > 'a'")).await.map(|_| ()),
        table.get(&get).await.map(|_| ()),
    ];
    ends.into_iter().filter_map(Result::err).collect()
}

/// What `verify` finds: invariants and paths.
async fn findings(home: &Home) -> Vec<(String, String)> {
    let env = Arc::new(TokioEnv::new());
    let report = headwater::verify::verify(&home.uri(), &TableOptions::default(), env, &|_| {}).await;
    let findings = report.unwrap().findings.into_iter();
    findings.map(|finding| (finding.invariant.to_string(), finding.path.to_string())).collect()
}

fn is_corrupt(error: &Error, part: &str) -> bool {
    let Error::Table { source, .. } = error else { return false };
    matches!(&**source, TableError::Corrupt { .. }) && error.to_string().contains(part)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_file_that_is_gone_is_named() {
    let home = Home::new();
    table(&home).await;
    let file = only(&home.path().join("data"));
    fs::remove_file(&file).unwrap();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let errors = errors(&home).await;
    assert!(!errors.is_empty());
    assert!(errors.iter().all(|error| is_corrupt(error, &name)), "{errors:?}");
    assert_eq!(findings(&home).await, [("P16".to_owned(), format!("data/{name}"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_file_that_was_cut_short_is_found() {
    let home = Home::new();
    table(&home).await;
    assert_eq!(findings(&home).await, []);
    let file = only(&home.path().join("data"));
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(findings(&home).await, [("P16".to_owned(), format!("data/{name}"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_a_base_file_that_was_cut_or_emptied_names_it() {
    for part in [0, 2] {
        let home = Home::new();
        table(&home).await;
        let file = only(&home.path().join("data"));
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() * part / 4]).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let errors = errors(&home).await;
        assert!(!errors.is_empty());
        for error in errors {
            assert!(is_corrupt(&error, &name) && !error.is_retryable(), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_sidecar_is_corrupt_by_name() {
    for name in ["page_lookup.lance", "page_data.lance"] {
        let home = Home::new();
        table(&home).await;
        let shard = home.shard_dir().await;
        let sstable = &home.shard().await.sstables[0].path;
        fs::write(shard.join(sstable).join("_pk_index").join(name), b"").unwrap();
        let errors = errors(&home).await;
        assert!(!errors.is_empty());
        assert!(errors.iter().all(|error| is_corrupt(error, "_pk_index")), "{errors:?}");
    }
}

/// Whoever restores files is to restore the right one.
#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_names_rows_there_are_not_is_named_and_not_the_data_file() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    for ids in [0..10, 20..22] {
        table.put(named(ids)).await.unwrap();
        table.flush().await.unwrap();
    }
    table.close().await.unwrap();
    let shard = home.shard_dir().await;
    let sstables = home.shard().await.sstables;
    let sidecar = |place: usize| shard.join(&sstables[place].path).join("_pk_index");
    for name in ["page_lookup.lance", "page_data.lance"] {
        fs::copy(sidecar(0).join(name), sidecar(1).join(name)).unwrap();
    }
    // Or nobody would ask the sidecar for such a key.
    let bloom = |place: usize| shard.join(&sstables[place].path).join("bloom_filter.bin");
    fs::copy(bloom(0), bloom(1)).unwrap();
    let table = home.open().await;
    let error = table.get(&GetRequest { keys: keys(&[9]), columns: None }).await.unwrap_err();
    for part in [sstables[1].path.as_str(), "_pk_index", "row 9"] {
        assert!(is_corrupt(&error, part), "{part} in {error}");
    }
}

/// Nor does a writer that looks at the columns of SSTables before it claims their shard.
#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_of_an_sstable_that_was_cut_is_no_panic_and_stops_no_writer() {
    let home = Home::new();
    table(&home).await;
    let sstable = home.shard_dir().await.join(&home.shard().await.sstables[0].path);
    let manifest = only(&sstable.join("_versions"));
    let bytes = fs::read(&manifest).unwrap();
    fs::write(&manifest, &bytes[..bytes.len() / 2]).unwrap();
    assert!(!errors(&home).await.is_empty());
    home.open().await.put(named(20..21)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_manifest_that_was_cut_or_overwritten_is_no_panic() {
    let damages: [fn(Vec<u8>) -> Vec<u8>; 3] = [
        |bytes| bytes[..bytes.len() / 2].to_vec(),
        |mut bytes| {
            let end = bytes.len();
            bytes[end - 12..].iter_mut().for_each(|byte| *byte ^= 0xff);
            bytes
        },
        |mut bytes| {
            bytes[..4].iter_mut().for_each(|byte| *byte ^= 0xff);
            bytes
        },
    ];
    for damage in damages {
        let home = Home::new();
        table(&home).await;
        let versions = fs::read_dir(home.path().join("_versions")).unwrap();
        let manifests = versions.map(|entry| entry.unwrap().path());
        // Names count down: the newest version has the smallest.
        let newest = manifests.filter(|path| path.extension().is_some_and(|of| of == "manifest")).min();
        let newest = newest.unwrap();
        let damaged = damage(fs::read(&newest).unwrap());
        fs::write(&newest, damaged).unwrap();
        let errors = errors(&home).await;
        assert!(!errors.is_empty());
        for error in errors {
            assert!(!error.is_retryable(), "{error}");
        }
    }
}
