//! Initialising: what is checked, and that it happens once.

use std::sync::Arc;

use arrow_array::RecordBatchIterator;
use arrow_schema::{DataType, Field, Schema};
use headwater::{Error, Sharding, Table, TableError};
use lance::Dataset;

use crate::support::{Home, expected, options, read, rows, schema, text};

fn key(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|column| (*column).to_owned()).collect()
}

fn invalid(error: &Error) -> String {
    match error {
        Error::Table { source, .. } if matches!(**source, TableError::Invalid { .. }) => text(error),
        other => panic!("not a refusal: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_init_is_refused() {
    let home = Home::new();
    home.create(&Sharding::Unsharded).await.close().await.unwrap();
    let error = Table::init(&home.uri(), &[], &Sharding::Unsharded, options()).await.unwrap_err();
    assert!(invalid(&error).contains(&home.uri()), "{error}");
    let error = Table::create(&home.uri(), &schema(), &key(&["id"]), &Sharding::Unsharded, options())
        .await
        .unwrap_err();
    invalid(&error);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_inits_at_once_one_wins() {
    let home = Home::new();
    let batches = RecordBatchIterator::new([Ok(rows(&[(1, "a")]))], Arc::new(schema()));
    Dataset::write(batches, &home.uri(), None).await.unwrap();
    headwater_lance::LanceTable::set_key(
        &home.uri(),
        &key(&["id"]),
        &options().table,
        Arc::new(headwater::TokioEnv::new()),
    )
    .await
    .unwrap();
    let uri = home.uri();
    let attempts = (0..4).map(|_| Table::init(&uri, &[], &Sharding::Unsharded, options()));
    let ends = futures::future::join_all(attempts).await;
    let won = ends.iter().filter(|end| end.is_ok()).count();
    assert_eq!(won, 1, "{ends:?}");
    for error in ends.iter().filter_map(|end| end.as_ref().err()) {
        invalid(error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_lance_table_gets_a_key_and_a_write_tier_and_keeps_its_rows() {
    let home = Home::new();
    let batches = RecordBatchIterator::new([Ok(rows(&[(1, "a"), (2, "b")]))], Arc::new(schema()));
    Dataset::write(batches, &home.uri(), None).await.unwrap();
    let table = Table::init(&home.uri(), &key(&["id"]), &Sharding::Unsharded, options()).await.unwrap();
    assert_eq!(table.key().unwrap().columns()[0].name, "id");
    table.put(rows(&[(2, "b2")])).await.unwrap();
    assert_eq!(read(&table).await, expected(&[(2, "b2")]));
    table.close().await.unwrap();
    let dataset = Dataset::open(&home.uri()).await.unwrap();
    assert_eq!(dataset.count_rows(None).await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_a_write_tier_says_what_to_run() {
    let home = Home::new();
    let batches = RecordBatchIterator::new([Ok(rows(&[(1, "a")]))], Arc::new(schema()));
    Dataset::write(batches, &home.uri(), None).await.unwrap();
    let error = Table::open(&home.uri(), options()).await.unwrap_err();
    assert!(invalid(&error).contains("headwater init"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_not_there_is_not_found() {
    let home = Home::new();
    let error = Table::open(&home.uri(), options()).await.unwrap_err();
    let Error::Table { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(**source, TableError::NotFound { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_keys_and_shard_columns_are_refused_by_name_and_leave_no_table_behind() {
    let float = Schema::new(vec![
        Field::new("score", DataType::Float64, false),
        Field::new("name", DataType::Utf8, true),
    ]);
    let by = |column: &str| Sharding::Bucket { column: column.to_owned(), num_buckets: 4 };
    let cases = [
        (schema(), key(&["nothing"]), Sharding::Unsharded, "nothing"),
        (float, key(&["score"]), Sharding::Unsharded, "score"),
        (schema(), key(&["id", "id"]), Sharding::Unsharded, "id"),
    ];
    for (schema, key, sharding, named) in cases {
        let home = Home::new();
        let error = Table::create(&home.uri(), &schema, &key, &sharding, options()).await.unwrap_err();
        assert!(invalid(&error).contains(named), "{error}");
        assert!(!home.path().exists(), "no table is left behind: {error}");
    }
    for (sharding, named) in [
        (by("name"), "name"),
        (by("nothing"), "nothing"),
        (Sharding::Bucket { column: "id".to_owned(), num_buckets: 0 }, "buckets"),
        (Sharding::Bucket { column: "id".to_owned(), num_buckets: 1025 }, "1025"),
    ] {
        let home = Home::new();
        let error =
            Table::create(&home.uri(), &schema(), &key(&["id"]), &sharding, options()).await.unwrap_err();
        assert!(invalid(&error).contains(named), "{error}");
        assert!(!home.path().exists(), "no table is left behind: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharding_that_cannot_be_is_refused_before_the_key_of_an_existing_table_is_marked() {
    let home = Home::new();
    let batches = RecordBatchIterator::new([Ok(rows(&[(1, "a")]))], Arc::new(schema()));
    Dataset::write(batches, &home.uri(), None).await.unwrap();
    let by_name = Sharding::Bucket { column: "name".to_owned(), num_buckets: 4 };
    let error = Table::init(&home.uri(), &key(&["id"]), &by_name, options()).await.unwrap_err();
    assert!(invalid(&error).contains("name"), "{error}");
    assert_eq!(Dataset::open(&home.uri()).await.unwrap().version().version, 1, "nothing was committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_rows_are_refused_by_column_and_row_and_nothing_is_written() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(rows(&[(1, "a")])).await.unwrap();
    let nullable = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    let null_key = arrow_array::RecordBatch::try_new(
        nullable,
        vec![Arc::new(arrow_array::Int64Array::from(vec![Some(2), None]))],
    );
    let wrong_type = arrow_array::RecordBatch::try_from_iter([(
        "id",
        Arc::new(arrow_array::Int32Array::from(vec![2])) as arrow_array::ArrayRef,
    )]);
    let unknown = arrow_array::RecordBatch::try_from_iter([
        ("id", Arc::new(arrow_array::Int64Array::from(vec![2])) as arrow_array::ArrayRef),
        ("colour", Arc::new(arrow_array::Int64Array::from(vec![2])) as arrow_array::ArrayRef),
    ]);
    let no_key = arrow_array::RecordBatch::try_from_iter([(
        "name",
        Arc::new(arrow_array::StringArray::from(vec!["x"])) as arrow_array::ArrayRef,
    )]);
    for (batch, parts) in [
        (null_key, ["id", "row 1"]),
        (wrong_type, ["id", "Int32"]),
        (unknown, ["colour", "not in the table"]),
        (no_key, ["id", "missing"]),
    ] {
        let error = table.put(batch.unwrap()).await.unwrap_err();
        let Error::Shard { source: headwater::ShardError::Invalid { .. }, .. } = &error else {
            panic!("{error:?}")
        };
        for part in parts {
            assert!(error.to_string().contains(part), "{error} names {part}");
        }
    }
    assert_eq!(read(&table).await, expected(&[(1, "a")]));
    table.put(rows(&[(2, "b")])).await.expect("the writer goes on");
}
