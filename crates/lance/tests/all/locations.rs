//! Where derived paths lead: always below the table, always through its own object store.

use std::path::Path;
use std::sync::Arc;

use headwater_engine::table::{TableError, TableIo};
use headwater_format::path::sstable_dir;
use headwater_lance::{Connection, LanceTable, Sharding};

use crate::recorder::Recorder;
use crate::support::*;

fn a_row() -> Vec<Step> {
    vec![Step::Rows(id_value_rows(&[(1, "a")]))]
}

/// Regression: lance#6713, lance#7735.
#[tokio::test]
async fn every_path_below_a_table_goes_through_the_tables_own_object_store() {
    let recorder = Recorder::default();
    let connection = Connection::default().with_wrapper(Arc::new(recorder.clone()));
    let uri = "memory://bucket/some where/table.lance/?";
    let key = names(&["id"]);
    let table =
        LanceTable::create_with(&connection, uri, &id_value_schema(), &key, &options(), env()).await.unwrap();
    assert_eq!(table.uri(), "memory://bucket/some where/table.lance");
    let mem_wal = table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let root = table.store().root().to_string();
    let puts = recorder.take_puts();
    assert!(!puts.is_empty());
    for path in &puts {
        assert!(path.starts_with(&format!("{root}/")), "{path} is not below the table");
    }

    write(&table, &frozen(&table, a_row())).await.unwrap();
    let directory = sstable_dir(shard(), &name());
    let puts = recorder.take_puts();
    let mut kinds: Vec<String> = puts
        .iter()
        .map(|path| {
            let below =
                path.strip_prefix(&format!("{root}/{directory}/")).expect("below the generation").to_owned();
            below.split('/').next().unwrap().to_owned()
        })
        .collect();
    kinds.sort();
    assert_eq!(kinds, ["_pk_index", "_pk_index", "_versions", "bloom_filter.bin", "data"]);
    assert!(puts.last().unwrap().contains("_versions"), "the manifest is written last: {puts:?}");

    let value = headwater_lance::ShardValue::Unsharded;
    let shard = table.resolve_shard(&mem_wal, &value).await.unwrap();
    let puts = recorder.take_puts();
    assert!(puts[0].contains(&format!("_mem_wal/{shard}/manifest/")), "{puts:?}");
    let reader = table.open_sstable(crate::support::shard(), &sstable()).await.unwrap();
    assert_eq!(cells(&reader.scan().await.unwrap(), &["value"]), [row(&["a"])]);
}

#[tokio::test]
async fn an_open_generation_is_read_without_opening_it_again() {
    let recorder = Recorder::default();
    let connection = Connection::default().with_wrapper(Arc::new(recorder.clone()));
    let key = names(&["id"]);
    let uri = "memory://bucket/table.lance";
    let table =
        LanceTable::create_with(&connection, uri, &id_value_schema(), &key, &options(), env()).await.unwrap();
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    write(&table, &frozen(&table, a_row())).await.unwrap();
    table.warm(shard(), &sstable()).await.unwrap();
    assert!(!recorder.take().is_empty());
    table.open_sstable(shard(), &sstable()).await.unwrap();
    assert_eq!(recorder.take(), [""; 0]);
}

#[tokio::test]
async fn spaces_and_trailing_slashes_in_a_local_path_lead_to_the_same_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my tables").join("a b");
    let plain = path.to_str().unwrap().to_owned();
    let schema = id_value_schema();
    let table =
        LanceTable::create(&format!("{plain}//"), &schema, &names(&["id"]), &options(), env()).await.unwrap();
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    write(&table, &frozen(&table, a_row())).await.unwrap();
    assert!(path.join(sstable_dir(shard(), &name())).join("_versions").is_dir());

    for uri in [
        plain.clone(),
        format!("{plain}/"),
        format!("file://{plain}/?"),
        format!("file://{plain}?"),
        format!("file:{plain}"),
        format!("file://localhost{plain}"),
    ] {
        let table = LanceTable::open(&uri, &options(), env()).await.unwrap();
        assert!(table.mem_wal().await.unwrap().is_some(), "{uri}");
        let reader = table.open_sstable(shard(), &sstable()).await.unwrap();
        assert_eq!(reader.physical_rows(), 1, "{uri}");
        assert!(
            table
                .store()
                .exists(&format!("{}/bloom_filter.bin", sstable_dir(shard(), &name())))
                .await
                .unwrap()
        );
    }
}

#[tokio::test]
async fn a_location_that_names_no_table_is_refused() {
    for uri in ["", "/", "s3://", "memory:///"] {
        let reason = invalid(LanceTable::open(uri, &options(), env()).await);
        assert!(reason.contains("names no table"), "{uri}: {reason}");
    }
    for uri in ["file://t.lance", "file://host/t.lance", "file-object-store://t.lance", "FILE://t.lance"] {
        let reason = invalid(LanceTable::open(uri, &options(), env()).await);
        assert!(reason.contains("three slashes") && reason.contains(uri), "{uri}: {reason}");
        let schema = id_value_schema();
        let reason = invalid(LanceTable::create(uri, &schema, &names(&["id"]), &options(), env()).await);
        assert!(reason.contains("three slashes"), "{uri}: {reason}");
    }
    assert!(!Path::new("/t.lance").exists(), "nothing was touched");
    for uri in ["file:t.lance", "data:t.lance", "s3:bucket/t.lance"] {
        let reason = invalid(LanceTable::open(uri, &options(), env()).await);
        assert!(reason.contains(&format!("./{uri}")), "{uri}: {reason}");
    }
    for uri in ["ftp://host/t.lance", "s3+ddb://bucket/t.lance?ddbTableName=t"] {
        let reason = invalid(LanceTable::open(uri, &options(), env()).await);
        assert!(reason.contains("not supported") && reason.contains("file://"), "{uri}: {reason}");
        assert!(!reason.contains(".rs"), "no place in the source of Lance: {reason}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "no table").unwrap();
    let reason = invalid(LanceTable::open(file.to_str().unwrap(), &options(), env()).await);
    assert!(reason.contains("is a file"), "{reason}");
    let nowhere = dir.path().join("nowhere");
    let missing = LanceTable::open(nowhere.to_str().unwrap(), &options(), env()).await;
    assert!(matches!(missing, Err(TableError::NotFound { .. })), "{missing:?}");
    assert!(!Path::new(&nowhere).exists(), "opening creates nothing");
}
