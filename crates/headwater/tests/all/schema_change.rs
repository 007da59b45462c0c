//! Columns that others add to the base while rows of the former ones are in memory.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use headwater::{Error, ShardError, Sharding, TableError};
use lance::Dataset;
use lance::dataset::NewColumnTransform;

use crate::support::{Home, rows};

/// Nothing could ever be flushed again: waiting for it, or taking more rows, would go on for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_over_changed_columns_stops_the_shard_and_keeps_its_rows_in_the_wal() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a"), (2, "b")])).await.unwrap();
    let new = Arc::new(Schema::new(vec![Field::new("extra", DataType::Int64, true)]));
    let mut base = Dataset::open(&home.uri()).await.unwrap();
    base.add_columns(NewColumnTransform::AllNulls(new), None, None).await.unwrap();

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
