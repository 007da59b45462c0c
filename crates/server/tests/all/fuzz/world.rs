//! The tables that requests are about, and whether they are as they were.

use arrow_array::RecordBatch;
use arrow_cast::pretty::pretty_format_batches;
use serde_json::{Value, json};

use super::arrow::{rows, stream};
use crate::support::{Server, upload};

/// Tables without and with a write tier.
pub const TABLES: [&str; 2] = ["plain", "tier"];
/// With more rows than this a table is made anew.
const MAX_ROWS: usize = 400;

/// A server with tables in it: `plain` has an index, `tier` rows in its base, in SSTables and in memtables of
/// several shards.
pub struct World {
    pub server: Server,
    pub address: String,
    /// What each table was when it was made.
    made: Vec<Shape>,
}

/// What must not change when a request is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    names: Value,
    shapes: Vec<Shape>,
    rows: Vec<String>,
}

/// A table without its rows.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    described: Value,
    spec: Value,
    stats: Value,
    indexes: Value,
}

impl World {
    pub async fn new() -> Self {
        let server = Server::start().await;
        let address = server.url.strip_prefix("http://").unwrap().to_owned();
        let mut world = Self { server, address, made: Vec::new() };
        for table in TABLES {
            world.make(table).await;
        }
        world.made = world.shapes().await;
        world
    }

    async fn make(&self, table: &str) {
        let at = |route: &str| format!("/v1/table/{table}/{route}");
        let server = &self.server;
        server.send(&at("drop"), &[], "").await.ok();
        server.send(&at("create"), &[], upload(&[rows(0..20, "a")])).await.ok();
        let index = json!({ "column": "id", "index_type": "BTREE" });
        server.post(&at("create_index"), index).await.ok();
        if table == "plain" {
            return;
        }
        let sharding = json!({ "mode": "bucket", "column": "id", "num_buckets": 2 });
        server.post(&at("enable_rte"), json!({ "sharding": sharding })).await.ok();
        server.send(&at("insert"), &[], stream(&[rows(10..40, "b")], None)).await.ok();
        server.send(&at("flush"), &[], "").await.ok();
        server.send(&at("insert"), &[], stream(&[rows(30..60, "c")], None)).await.ok();
    }

    /// Everything there is.
    pub async fn state(&self) -> Result<State, String> {
        let mut rows = Vec::new();
        for table in TABLES {
            rows.push(self.rows(table).await?);
        }
        let names = self.server.get("/v1/table/?limit=10000").await.json();
        Ok(State { names, shapes: self.shapes().await, rows })
    }

    /// What can be told without reading rows: no row changes without it.
    pub async fn is_as(&self, state: &State) -> Result<(), String> {
        let names = self.server.get("/v1/table/?limit=10000").await.json();
        same("the names of tables", &state.names, &names)?;
        for (table, (before, after)) in TABLES.iter().zip(state.shapes.iter().zip(&self.shapes().await)) {
            same(&format!("table {table}"), before, after)?;
        }
        Ok(())
    }

    async fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for table in TABLES {
            let ask = async |route: &str, body: Value| {
                let reply = self.server.post(&format!("/v1/table/{table}/{route}"), body).await;
                match reply.status {
                    200 => reply.json(),
                    status => json!([status, reply.text()]),
                }
            };
            shapes.push(Shape {
                described: ask("describe", json!({})).await,
                spec: ask("get_rte_spec", json!({})).await,
                stats: ask("get_rte_stats", json!({ "include_sstable_rows": true })).await,
                indexes: ask("index/list", json!({})).await["indexes"].as_array().map_or(0, Vec::len).into(),
            });
        }
        shapes
    }

    async fn rows(&self, table: &str) -> Result<String, String> {
        let order = json!([{ "column_name": "id" }]);
        let query = json!({ "k": i64::MAX, "prefilter": true, "vector": [], "order_by": order });
        let reply = self.server.post(&format!("/v1/table/{table}/query/"), query).await;
        match reply.status {
            200 => Ok(pretty_format_batches(&batches(reply.rows())).unwrap().to_string()),
            // A table that a request took away, or its column of ids: what is left can be counted, or there
            // is none.
            _ => {
                let counted = self.server.post(&format!("/v1/table/{table}/count_rows/"), json!({})).await;
                match counted.status {
                    200 | 404 => Ok(counted.text()),
                    status => Err(format!("table {table} cannot be read: {status} {}", counted.text())),
                }
            }
        }
    }

    /// Makes tables anew that are no longer what requests are made for.
    pub async fn mend(&self) {
        let names = self.server.get("/v1/table/?limit=10000").await.json();
        for name in names["tables"].as_array().unwrap().iter().filter_map(Value::as_str) {
            if !TABLES.contains(&name) {
                self.server.send(&format!("/v1/table/{name}/drop"), &[], "").await.ok();
            }
        }
        for (place, shape) in self.shapes().await.iter().enumerate() {
            let made = &self.made[place];
            let lines = self.rows(TABLES[place]).await.unwrap().lines().count();
            let alike = shape.described["schema"] == made.described["schema"] && shape.spec == made.spec;
            if !alike || shape.indexes != made.indexes || !(20..MAX_ROWS).contains(&lines) {
                self.make(TABLES[place]).await;
            }
        }
    }
}

fn batches(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    batches.into_iter().filter(|batch| batch.num_rows() > 0).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, before: &T, after: &T) -> Result<(), String> {
    match before == after {
        true => Ok(()),
        false => Err(format!("{what} changed\nfrom {before:?}\nto   {after:?}")),
    }
}
