//! Columns that others add to the base while rows of the former ones are in SSTables or in memory.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use headwater::{Error, GetRequest, ReadLevel, ScanRequest, ShardError, Sharding, TableError};
use lance::Dataset;
use lance::dataset::NewColumnTransform;

use crate::support::{Home, keys, rows};

async fn add_column(home: &Home) {
    let new = Arc::new(Schema::new(vec![Field::new("extra", DataType::Int64, true)]));
    let mut base = Dataset::open(&home.uri()).await.unwrap();
    base.add_columns(NewColumnTransform::AllNulls(new), None, None).await.unwrap();
}

fn assert_changed(error: &Error) {
    assert!(matches!(error, Error::Table { .. }), "{error}");
    for part in ["extra", "restore the table"] {
        assert!(error.to_string().contains(part), "{part} in {error}");
    }
    assert!(!error.is_retryable());
}

/// A read refuses these SSTables, so a writer adds none.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_with_sstables_of_former_columns_takes_no_rows_until_the_columns_are_back() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    table.close().await.unwrap();
    let former = Dataset::open(&home.uri()).await.unwrap().version_id();
    add_column(&home).await;

    let table = home.open().await;
    let claimed = home.shard().await.manifest;
    assert_changed(&table.put(rows(&[(3, "c")])).await.unwrap_err());
    assert_changed(&table.open_shards().await.unwrap_err());
    assert_changed(&table.count(None).await.unwrap_err());
    let shard = home.shard().await;
    assert_eq!(shard.manifest, claimed, "refused before the claim");
    assert_eq!((shard.wal.rows, shard.sstables.len()), (2, 1));

    let mut base = Dataset::open(&home.uri()).await.unwrap().checkout_version(former).await.unwrap();
    base.restore().await.unwrap();
    let table = home.open().await;
    table.put(rows(&[(3, "c")])).await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 3);
}

/// P15: an SSTable does not change, but what it is read as part of does.
#[tokio::test(flavor = "multi_thread")]
async fn sstables_that_were_open_before_the_columns_changed_are_not_served_as_if_nothing_had() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    table.close().await.unwrap();
    let former = Dataset::open(&home.uri()).await.unwrap().version_id();
    let reader = home.open().await;
    assert_eq!(reader.count(None).await.unwrap(), 2);
    let (open, unopened) = (reader.read(ReadLevel::Durable).await.unwrap(), home.open().await);
    let not_yet_read = unopened.read(ReadLevel::Durable).await.unwrap();
    add_column(&home).await;

    for table in [&reader, &unopened] {
        table.refresh().await.unwrap();
        let get = GetRequest { keys: keys(&[1]), columns: Some(vec!["name".to_owned()]) };
        for error in [
            table.count(None).await.map(|_| ()).unwrap_err(),
            table.scan(&ScanRequest::default()).await.map(|_| ()).unwrap_err(),
            table.get(&get).await.map(|_| ()).unwrap_err(),
        ] {
            assert_changed(&error);
            let Error::Table { source, .. } = &error else { panic!("{error}") };
            assert!(matches!(**source, TableError::SchemaChanged { .. }), "{error}");
        }
    }
    // P6: snapshots of before read on, with files that are opened only now, too.
    for snapshot in [&open, &not_yet_read] {
        assert_eq!(snapshot.count(Some("name >= 'a'")).await.unwrap(), 2);
    }

    let mut base = Dataset::open(&home.uri()).await.unwrap().checkout_version(former).await.unwrap();
    base.restore().await.unwrap();
    for table in [&reader, &unopened] {
        table.refresh().await.unwrap();
        assert_eq!(table.count(None).await.unwrap(), 2);
    }
}

/// Nothing could ever be flushed again: waiting for it, or taking more rows, would go on for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_over_changed_columns_stops_the_shard_and_keeps_its_rows_in_the_wal() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    add_column(&home).await;

    // A read looks at the newest base, and so learns of it.
    let error = table.count(None).await.unwrap_err();
    let Error::Table { source, .. } = &error else { panic!("{error}") };
    assert!(matches!(**source, TableError::SchemaChanged { .. }), "{error}");
    for error in [
        table.flush().await.unwrap_err(),
        table.put(rows(&[(3, "c")])).await.unwrap_err(),
        table.close().await.unwrap_err(),
    ] {
        assert!(matches!(error.shard_error(), Some(ShardError::SchemaChanged { .. })), "{error}");
        assert!(error.to_string().contains("extra"), "{error}");
        assert!(!error.is_retryable());
    }
    assert_eq!(home.shard().await.wal.unflushed_rows, 2);
}
