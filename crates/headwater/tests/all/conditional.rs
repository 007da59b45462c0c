//! Writes under a condition, once, and of some columns.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use futures::future::join_all;
use headwater::{ClientToken, Error, GetRequest, ReadLevel, ShardError, Sharding, Table, WriteOptions};

use crate::support::{Home, options, rows};

/// id: key; hits: required; note, tag: nullable.
fn wide() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("hits", DataType::Int64, false),
        Field::new("note", DataType::Utf8, true),
        Field::new("tag", DataType::Utf8, true),
    ])
}

fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn some(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.iter().map(|(_, column)| column.clone()).collect()).unwrap()
}

async fn table(home: &Home, sharding: &Sharding) -> Table {
    Table::create(&home.uri(), &wide(), &["id".to_owned()], sharding, options()).await.unwrap()
}

/// hits, note and tag of a row.
async fn row(table: &Table, id: i64) -> Option<(i64, Option<String>, Option<String>)> {
    let keys = some(&[("id", ints(&[id]))]);
    let found = table.get(&GetRequest { keys, columns: None }).await.unwrap();
    if found.num_rows() == 0 {
        return None;
    }
    let text = |name: &str| {
        let column = found[name].as_string::<i32>();
        column.is_valid(0).then(|| column.value(0).to_owned())
    };
    Some((found["hits"].as_primitive::<Int64Type>().value(0), text("note"), text("tag")))
}

fn token(name: &str) -> Option<ClientToken> {
    Some(ClientToken::new(name.as_bytes()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_upsert_keeps_the_other_columns_wherever_the_row_lies() {
    for sharding in [Sharding::Unsharded, Sharding::Bucket { column: "id".to_owned(), num_buckets: 3 }] {
        let home = Home::new();
        let table = table(&home, &sharding).await;
        let all: Vec<i64> = (0..9).collect();
        let whole = some(&[
            ("id", ints(&all)),
            ("hits", ints(&all)),
            ("note", texts(&["old"; 9])),
            ("tag", texts(&["kept"; 9])),
        ]);
        table.put(whole).await.unwrap();
        table.flush().await.unwrap();
        // One row in the SSTable, one in memory, one twice in the batch.
        table.upsert_columns(some(&[("id", ints(&[1])), ("hits", ints(&[10]))]), None).await.unwrap();
        let notes = some(&[("id", ints(&[1, 2, 2])), ("note", texts(&["new", "lost", "new"]))]);
        table.upsert_columns(notes, None).await.unwrap();
        let kept = |text: &str| Some(text.to_owned());
        assert_eq!(row(&table, 1).await, Some((10, kept("new"), kept("kept"))));
        assert_eq!(row(&table, 2).await, Some((2, kept("new"), kept("kept"))));
        assert_eq!(row(&table, 3).await, Some((3, kept("old"), kept("kept"))));
        // A new row has null where it says nothing; a required column has no null.
        table.upsert_columns(some(&[("id", ints(&[100])), ("hits", ints(&[1]))]), None).await.unwrap();
        assert_eq!(row(&table, 100).await, Some((1, None, None)));
        let lacking = some(&[("id", ints(&[1, 200])), ("note", texts(&["x", "x"]))]);
        let refused = table.upsert_columns(lacking, None).await.unwrap_err();
        let Error::Rows { column, row: at, .. } = &refused else { panic!("{refused}") };
        assert_eq!((column.as_str(), *at), ("hits", Some(1)));
        assert_eq!(row(&table, 200).await, None);
        let unknown = some(&[("id", ints(&[1])), ("hat", texts(&["x"]))]);
        assert!(table.upsert_columns(unknown, None).await.unwrap_err().to_string().contains("hat"));
        table.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_upserts_of_different_columns_lose_nothing_of_each_other() {
    let home = Home::new();
    let table = Arc::new(table(&home, &Sharding::Unsharded).await);
    table.put(some(&[("id", ints(&[7])), ("hits", ints(&[0]))])).await.unwrap();
    let writers = (0..12).map(|writer| {
        let table = Arc::clone(&table);
        async move {
            for round in 0..5 {
                let text = format!("{writer}-{round}");
                let column = if writer % 2 == 0 { "note" } else { "tag" };
                let batch = some(&[("id", ints(&[7])), (column, texts(&[text.as_str()]))]);
                table.upsert_columns(batch, None).await.unwrap();
            }
        }
    });
    join_all(writers).await;
    let (hits, note, tag) = row(&table, 7).await.unwrap();
    assert_eq!(hits, 0);
    assert!(note.unwrap().ends_with("-4") && tag.unwrap().ends_with("-4"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_counts_every_conditional_increment_that_was_acknowledged() {
    let home = Home::new();
    let table = Arc::new(table(&home, &Sharding::Unsharded).await);
    table.put(some(&[("id", ints(&[1])), ("hits", ints(&[0]))])).await.unwrap();
    let writers = (0..6).map(|_| {
        let table = Arc::clone(&table);
        async move {
            let mut done = 0;
            while done < 5 {
                let snapshot = table.read(ReadLevel::Pending).await.unwrap();
                let keys = some(&[("id", ints(&[1]))]);
                let found = snapshot.get(&GetRequest { keys, columns: None }).await.unwrap();
                let hits = found["hits"].as_primitive::<Int64Type>().value(0);
                let next = some(&[("id", ints(&[1])), ("hits", ints(&[hits + 1]))]);
                let options = WriteOptions { token: None, unchanged_since: Some(snapshot) };
                match table.put_with(next, &options).await {
                    Ok(_) => done += 1,
                    Err(Error::Shard { source: ShardError::ConditionFailed { .. }, .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }
    });
    let flushes = async {
        for _ in 0..3 {
            table.flush().await.unwrap();
        }
    };
    futures::join!(join_all(writers), flushes);
    assert_eq!(row(&table, 1).await.unwrap().0, 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_a_shard_that_is_not_open_here_vouches_for_nothing() {
    let home = Home::new();
    let first = table(&home, &Sharding::Unsharded).await;
    first.put(some(&[("id", ints(&[1])), ("hits", ints(&[1]))])).await.unwrap();
    first.abandon();
    let second = home.open().await;
    let snapshot = second.read(ReadLevel::Durable).await.unwrap();
    let options = WriteOptions { token: None, unchanged_since: Some(snapshot) };
    let next = some(&[("id", ints(&[1])), ("hits", ints(&[2]))]);
    let refused = second.put_with(next.clone(), &options).await.unwrap_err();
    assert!(matches!(refused.shard_error(), Some(ShardError::ConditionFailed { .. })), "{refused}");
    // The refused write opened the shard, so a snapshot of now knows it.
    let snapshot = second.read(ReadLevel::Durable).await.unwrap();
    let options = WriteOptions { token: None, unchanged_since: Some(snapshot) };
    second.put_with(next, &options).await.unwrap();
    assert_eq!(row(&second, 1).await.unwrap().0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_with_a_token_happens_once_over_restart_and_flush() {
    let home = Home::new();
    let schema = rows(&[(1, "a")]).schema();
    let table = Table::create(&home.uri(), &schema, &[], &Sharding::Unsharded, options()).await.unwrap();
    let once = WriteOptions { token: token("once"), unchanged_since: None };
    let ack = table.put_with(rows(&[(1, "a"), (2, "b")]), &once).await.unwrap();
    let again = table.put_with(rows(&[(1, "a"), (2, "b")]), &once).await.unwrap();
    assert_eq!(ack.shards[0].1, again.shards[0].1);
    table.abandon();
    let table = home.open().await;
    table.put_with(rows(&[(1, "a"), (2, "b")]), &once).await.unwrap();
    table.close().await.unwrap();
    let table = home.open().await;
    let told = table.put_with(rows(&[(1, "a"), (2, "b")]), &once).await.unwrap();
    assert_eq!(told.shards[0].1.position, ack.shards[0].1.position);
    assert_eq!(table.count(None).await.unwrap(), 2);
    let other = WriteOptions { token: token("another"), unchanged_since: None };
    table.put_with(rows(&[(3, "c")]), &other).await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 3);
}
