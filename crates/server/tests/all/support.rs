//! A server that listens, and a client that sends exactly what it is told.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, FixedSizeListArray, Int64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::FutureExt;
use headwater::{EnvRef, OpenOptions, TableOptions, TokioEnv};
use headwater_server::auth::Auth;
use headwater_server::config::{Config, Limits};
use headwater_server::{Service, serve};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server of an empty directory of its own.
pub struct Server {
    pub url: String,
    pub service: Arc<Service>,
    pub dir: Arc<TempDir>,
    client: reqwest::Client,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Vec<u8>,
}

impl Server {
    pub async fn start() -> Self {
        Self::start_in(Arc::new(TempDir::new().unwrap())).await
    }

    pub async fn start_in(dir: Arc<TempDir>) -> Self {
        let path = dir.path().to_owned();
        Self { dir, ..Self::start_of(&path).await }
    }

    /// Of a directory that stays when the server has gone.
    pub async fn start_of(path: &Path) -> Self {
        Self::start_at(path.to_str().unwrap(), local(), |_| {}).await
    }

    pub async fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        let dir = Arc::new(TempDir::new().unwrap());
        let path = dir.path().to_str().unwrap().to_owned();
        Self { dir, ..Self::start_at(&path, local(), change).await }
    }

    /// Of what is at `data`.
    pub async fn start_at(data: &str, options: OpenOptions, change: impl FnOnce(&mut Limits)) -> Self {
        let dir = Arc::new(TempDir::new().unwrap());
        let env: EnvRef = Arc::new(TokioEnv::new());
        let service = Service::new(data, options, env.clone()).await.unwrap();
        let mut config = Config { port: 0, no_auth: true, ..Config::default() };
        change(&mut config.limits);
        let app = headwater_server::app::of(service.clone());
        let server = serve::Server::bind(&config, Auth::Open, app, env.clone()).await.unwrap();
        let url = server.url();
        let serving = async move {
            server.run(futures::stream::pending()).await.unwrap();
        };
        env.spawn("server", serving.boxed()).detach();
        Self { url, service, dir, client: reqwest::Client::new() }
    }

    /// Sends a request as LanceDB's client does, with these headers besides.
    pub async fn send(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Reply {
        let mut request = self.client.post(format!("{}{path}", self.url)).header("x-lancedb-database", "db");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        reply(request.body(body.into()).send().await.unwrap()).await
    }

    /// Sends a request about another database.
    pub async fn of_database(&self, database: &str, path: &str) -> Reply {
        let request = self.client.post(format!("{}{path}", self.url)).header("x-lancedb-database", database);
        reply(request.body("{}").send().await.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        let request = self.client.get(format!("{}{path}", self.url)).header("x-lancedb-database", "db");
        reply(request.send().await.unwrap()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(path, &[], body.to_string()).await
    }

    /// A table `t` of these ids, each with a name.
    pub async fn with_table(ids: &[i64]) -> Self {
        let server = Self::start().await;
        server.send("/v1/table/t/create/?mode=create", &[], upload(&[rows(ids, "a")])).await.ok();
        server
    }

    /// A table `t` with a write tier and these ids in its base.
    pub async fn with_tier(ids: &[i64], spec: Value) -> Self {
        let server = Self::with_table(ids).await;
        let spec = json!({ "sharding": spec });
        server.post("/v1/table/t/enable_rte/", spec).await.ok();
        server
    }

    pub async fn insert(&self, batch: RecordBatch) -> Reply {
        self.send("/v1/table/t/insert/", &[], upload(&[batch])).await
    }

    pub async fn upsert(&self, batch: RecordBatch, more: &str) -> Reply {
        let flags = "on=id&when_matched_update_all=true&when_not_matched_insert_all=true";
        self.send(&format!("/v1/table/t/merge_insert/?{flags}{more}"), &[], upload(&[batch])).await
    }

    pub async fn count(&self) -> i64 {
        self.post("/v1/table/t/count_rows/", json!({ "version": null })).await.json().as_i64().unwrap()
    }

    /// Ids and names of the rows of `t`, by id.
    pub async fn table(&self) -> Vec<(i64, String)> {
        let query = json!({ "k": i64::MAX, "prefilter": true, "version": null, "vector": [] });
        let mut found = pairs(&self.post("/v1/table/t/query/", query).await.rows());
        found.sort();
        found
    }
}

/// A power cut is no part of these tests.
fn local() -> OpenOptions {
    let table = TableOptions { fsync: false, ..TableOptions::default() };
    OpenOptions { table, ..OpenOptions::default() }
}

async fn reply(response: reqwest::Response) -> Reply {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Reply { status, headers, body: response.bytes().await.unwrap().to_vec() }
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text());
        self
    }

    #[track_caller]
    pub fn json(self) -> Value {
        let reply = self.ok();
        serde_json::from_slice(&reply.body).unwrap()
    }

    #[track_caller]
    pub fn rows(self) -> Vec<RecordBatch> {
        let reply = self.ok();
        assert_eq!(reply.headers["content-type"], "application/vnd.apache.arrow.file");
        let file = FileReader::try_new(std::io::Cursor::new(reply.body), None).unwrap();
        file.map(Result::unwrap).collect()
    }

    /// The error of a reply with this status: its code and text.
    #[track_caller]
    pub fn refused(self, status: u16) -> (u64, String) {
        assert_eq!(self.status, status, "{}", self.text());
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        (body["code"].as_u64().unwrap(), body["error"].as_str().unwrap().to_owned())
    }
}

pub fn schema() -> SchemaRef {
    let marker = [("lance-schema:unenforced-primary-key:position".to_owned(), "1".to_owned())];
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true).with_metadata(marker.into()),
        Field::new("name", DataType::Utf8, true),
    ]))
}

pub fn rows(ids: &[i64], name: &str) -> RecordBatch {
    let names: StringArray = ids.iter().map(|id| Some(format!("{name}{id}"))).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(ids.to_vec())), Arc::new(names)]).unwrap()
}

pub fn pairs(batches: &[RecordBatch]) -> Vec<(i64, String)> {
    let mut pairs = Vec::new();
    for batch in batches {
        let ids = batch.column_by_name("id").unwrap().as_any().downcast_ref::<Int64Array>().unwrap();
        let names = batch.column_by_name("name").unwrap().as_any().downcast_ref::<StringArray>().unwrap();
        pairs.extend(ids.values().iter().zip(names).map(|(id, name)| (*id, name.unwrap().to_owned())));
    }
    pairs
}

pub fn pair(id: i64, name: &str) -> (i64, String) {
    (id, format!("{name}{id}"))
}

/// As clients send rows: a stream, each batch packed with LZ4.
pub fn upload(batches: &[RecordBatch]) -> Vec<u8> {
    let packed = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), packed).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

/// Ids, each with the vector `[id, 0]`; the id is the key.
pub fn vectors(ids: Range<i64>) -> RecordBatch {
    let vectors = ids.clone().map(|id| Some(vec![Some(id as f32), Some(0.0)]));
    let vectors = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, 2);
    let vector = Field::new("v", vectors.data_type().clone(), true);
    let schema = Schema::new(vec![schema().field(0).clone(), vector]);
    let ids = Int64Array::from_iter_values(ids);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(vectors)]).unwrap()
}

pub fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec()).collect()
}
