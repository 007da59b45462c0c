//! One connection to the server, used as LanceDB's client uses it.
//!
//! Owns: [`Client`]: headers, paths, what a good reply is. It has one connection, which is kept alive, as
//! long as one request is sent at a time. Does not own: what is sent when (`load`), encoding rows (`wire`).

use std::io::Cursor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use arrow_ipc::reader::FileReader;
use bytes::Bytes;
use futures::stream;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::data;
use crate::server::process::Process;

/// The merge every upsert is.
const UPSERT: &str = "on=id&when_matched_update_all=true&when_not_matched_insert_all=true\
                      &when_not_matched_by_source_delete=false";
/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Ids of requests; each is used once.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// See the module.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    /// A connection to `process`, opened with the first request.
    pub fn new(process: &Process) -> Result<Self> {
        let headers = [
            ("accept", "*/*"),
            ("accept-encoding", "gzip"),
            ("user-agent", "LanceDB-Rust-Client/0.40.0"),
            ("x-api-key", process.key()),
            ("x-lancedb-database", "bench"),
        ];
        let headers = headers
            .into_iter()
            .map(|(name, value)| Ok((HeaderName::from_static(name), HeaderValue::from_str(value)?)));
        let headers = headers.collect::<Result<HeaderMap>>()?;
        let http = reqwest::Client::builder()
            .default_headers(headers)
            .no_proxy()
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(TIMEOUT)
            .timeout(TIMEOUT)
            .build()?;
        Ok(Self { http, url: process.url().to_owned() })
    }

    /// So many of them.
    pub fn several(process: &Process, count: usize) -> Result<Vec<Self>> {
        (0..count).map(|_| Self::new(process)).collect()
    }

    /// Sends rows to be added to a table or put in place of those with their keys.
    pub async fn upsert(&self, table: &str, body: Body) -> Result<()> {
        self.post(&format!("{table}/merge_insert/?{UPSERT}"), body).await?;
        Ok(())
    }

    /// Sends rows to be added to a table.
    pub async fn insert(&self, table: &str, body: Body) -> Result<()> {
        self.post(&format!("{table}/insert/"), body).await?;
        Ok(())
    }

    /// Asks for the row with a key; there has to be one.
    pub async fn look_up(&self, table: &str, key: i64) -> Result<()> {
        let filter = format!("{} = {key}", data::KEY);
        let reply = self.post_json(&format!("{table}/query/"), &query(1, Some(&filter))).await?;
        let rows = FileReader::try_new(Cursor::new(reply), None)?
            .map(|batch| batch.map(|batch| batch.num_rows()))
            .sum::<Result<usize, _>>()?;
        ensure!(rows == 1, "{rows} rows have the key {key}");
        Ok(())
    }

    /// Asks for all rows; the reply has begun.
    pub async fn scan(&self, table: &str) -> Result<Response> {
        let body = query(i64::MAX, None).to_string();
        self.send(&format!("{table}/query/"), Body::from(body), Some("application/json")).await
    }

    /// Counts the rows of a table.
    pub async fn count(&self, table: &str) -> Result<u64> {
        let reply = self.post_json(&format!("{table}/count_rows/"), &json!({ "version": null })).await?;
        Ok(serde_json::from_slice(&reply)?)
    }

    /// Asks whether it is there.
    pub async fn ping(&self) -> Result<()> {
        let reply = self.http.get(format!("{}/healthz", self.url)).send().await?;
        reply.error_for_status()?.bytes().await?;
        Ok(())
    }

    /// Sends a JSON request about a table. The reply's body.
    pub async fn post_json(&self, path: &str, body: &Value) -> Result<Bytes> {
        let reply = self.send(path, Body::from(body.to_string()), Some("application/json")).await?;
        Ok(reply.bytes().await?)
    }

    /// Sends a request about a table, as `name/query/`. The reply's body.
    pub async fn post(&self, path: &str, body: Body) -> Result<Bytes> {
        Ok(self.send(path, body, None).await?.bytes().await?)
    }

    async fn send(&self, path: &str, body: Body, content_type: Option<&str>) -> Result<Response> {
        let mut state = REQUESTS.fetch_add(1, Ordering::Relaxed);
        let id = Uuid::from_u64_pair(data::mixed(&mut state), data::mixed(&mut state));
        let mut request = self.http.post(format!("{}/v1/table/{path}", self.url));
        request = request.header("x-request-id", id.to_string()).body(body);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let reply = request.send().await.with_context(|| path.to_owned())?;
        let status = reply.status();
        if status.is_success() {
            return Ok(reply);
        }
        let text = reply.text().await.unwrap_or_default();
        anyhow::bail!("{path}: {status}: {text}")
    }
}

/// The body of a query as clients send it.
fn query(k: i64, filter: Option<&str>) -> Value {
    let mut query = json!({ "k": k, "prefilter": true, "version": null, "vector": [] });
    if let (Some(filter), Some(query)) = (filter, query.as_object_mut()) {
        query.insert("filter".to_owned(), json!(filter));
    }
    query
}

/// A body of chunks that are there already.
pub fn chunked(chunks: &[Bytes]) -> Body {
    Body::wrap_stream(stream::iter(chunks.to_vec().into_iter().map(Ok::<_, std::convert::Infallible>)))
}
