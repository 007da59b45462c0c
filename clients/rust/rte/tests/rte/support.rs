//! A server of a test's own, and tables in it.

use std::process::Stdio;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{FixedSizeListArray, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use lancedb::query::{ExecutableQuery, QueryBase};
use lancedb::table::RTEWriteSpec;
use lancedb::table::merge::{MergeInsertBuilder, MergeResult};
use lancedb::{Connection, Table};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub const DIMENSION: i32 = 2;

/// A server of an empty directory, and a client of it.
pub struct Server {
    pub db: Connection,
    _process: Child,
    _data: TempDir,
}

impl Server {
    pub async fn start() -> Self {
        let script = std::env::var("CREATE_LANCEDB_TEST_CONNECTION_SCRIPT").expect("run `make test-clients`");
        let data = TempDir::new().unwrap();
        let command = Command::new(script)
            .arg(data.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut process = command.unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("the server says where it listens");
        let port = line.rsplit(':').next().unwrap();
        let connect = lancedb::connect("db://test").region("us-east-1").api_key("sk_localtest");
        let db = connect.host_override(&format!("http://localhost:{port}")).execute().await.unwrap();
        Self { db, _process: process, _data: data }
    }

    /// A table `t` with rows of these ids, whose key is marked as 0.41 marks it.
    pub async fn table(&self, ids: &[i64]) -> Table {
        let table = self.db.create_table("t", rows(ids, "a")).execute().await.unwrap();
        table.set_unenforced_primary_key(["id"]).await.unwrap();
        table
    }

    /// The same with a write tier.
    pub async fn tiered(&self, ids: &[i64], spec: RTEWriteSpec) -> Table {
        let table = self.table(ids).await;
        table.enable_rte(spec).await.unwrap();
        table
    }
}

pub fn schema() -> SchemaRef {
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("vector", DataType::FixedSizeList(item, DIMENSION), true),
    ]))
}

/// Rows of these ids; the vector of an id is `[id, 0]`.
pub fn rows(ids: &[i64], name: &str) -> RecordBatch {
    let names: StringArray = ids.iter().map(|id| Some(format!("{name}{id}"))).collect();
    let vectors = ids.iter().map(|id| Some([Some(*id as f32), Some(0.0)]));
    let vectors = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, DIMENSION);
    let columns: Vec<arrow_array::ArrayRef> =
        vec![Arc::new(Int64Array::from(ids.to_vec())), Arc::new(names), Arc::new(vectors)];
    RecordBatch::try_new(schema(), columns).unwrap()
}

pub async fn merge(merge: MergeInsertBuilder, batch: RecordBatch) -> lancedb::Result<MergeResult> {
    let schema = batch.schema();
    merge.execute(Box::new(RecordBatchIterator::new([Ok(batch)], schema))).await
}

/// The merge that a write tier does.
pub fn upsert(table: &Table) -> MergeInsertBuilder {
    let mut upsert = table.merge_insert(&["id"]);
    upsert.when_matched_update_all(None).when_not_matched_insert_all();
    upsert
}

pub async fn batches(query: impl ExecutableQuery) -> Vec<RecordBatch> {
    query.execute().await.unwrap().try_collect().await.unwrap()
}

/// The ids a query finds, in its order.
pub async fn ids(query: impl ExecutableQuery) -> Vec<i64> {
    let found = batches(query).await;
    found.iter().flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Ids and names of the rows a condition keeps, by id.
pub async fn read(table: &Table, condition: &str) -> Vec<(i64, String)> {
    let mut rows = Vec::new();
    for batch in batches(table.query().only_if(condition)).await {
        let ids = batch["id"].as_primitive::<Int64Type>().values().to_vec();
        let names = batch["name"].as_string::<i32>().iter().map(|name| name.unwrap().to_owned());
        rows.extend(ids.into_iter().zip(names));
    }
    rows.sort();
    rows
}

pub fn row(id: i64, name: &str) -> (i64, String) {
    (id, name.to_owned())
}

/// The status and text of what failed.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: lancedb::Result<T>, status: u16, words: &[&str]) {
    let error = result.expect_err("it was not refused");
    let text = format!("{error} {error:?}");
    match &error {
        lancedb::Error::Http { status_code: Some(told), .. } => assert_eq!(told.as_u16(), status, "{text}"),
        other => panic!("not what a server says: {other:?}"),
    }
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}
