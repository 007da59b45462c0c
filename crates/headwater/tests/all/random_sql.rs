//! Random SQL over every layout of tiers gives what DataFusion gives over a plain Lance table of the live
//! rows (P13). `HEADWATER_SQL_QUERIES` says how many queries a layout is asked, `HEADWATER_SQL_SEED` where
//! they begin; a failure names both.

mod grammar;
pub mod layout;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use headwater::{QueryError, ReadLevel, ReadSnapshot, SqlSession, SqlSettings, Table};
use lance::Dataset;
use lance::datafusion::LanceTableProvider;

use crate::support::options;
use grammar::{Grammar, Query, Shape};
use layout::{Key, Layout, Tiers};

/// Rows as text, in the order they came.
type Answer = Vec<Vec<String>>;

fn text(batches: &[RecordBatch]) -> Answer {
    let format = FormatOptions::new().with_null("null");
    let rows = batches.iter().flat_map(|batch| {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &format).unwrap()).collect();
        (0..batch.num_rows())
            .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect())
            .collect::<Vec<Vec<String>>>()
    });
    rows.collect()
}

fn sorted(mut rows: Answer) -> Answer {
    rows.sort();
    rows
}

/// The same tables, ours and plain.
struct Sides {
    ours: SqlSession,
    plain: SessionContext,
}

impl Sides {
    fn new() -> Self {
        Self { ours: SqlSession::new(&SqlSettings::default()).unwrap(), plain: SessionContext::new() }
    }

    async fn add(&self, name: &str, ours: &ReadSnapshot, plain_uri: &str) {
        self.ours.register(name, ours).unwrap();
        let dataset = Arc::new(Dataset::open(plain_uri).await.unwrap());
        let plain = LanceTableProvider::new(dataset, false, false);
        self.plain.register_table(name, Arc::new(plain)).unwrap();
    }

    async fn ours(&self, sql: &str) -> Result<Answer, String> {
        let rows = self.ours.sql(sql).await.map_err(|error| error.to_string())?;
        let rows: Result<Vec<RecordBatch>, _> = rows.try_collect().await;
        rows.map(|rows| text(&rows)).map_err(|error| QueryError::from(error).to_string())
    }

    async fn plain(&self, sql: &str) -> Result<Answer, String> {
        let rows = self.plain.sql(sql).await.map_err(|error| error.to_string())?;
        rows.collect().await.map(|rows| text(&rows)).map_err(|error| error.to_string())
    }

    /// What is wrong with our answer.
    async fn check(&self, query: &Query) -> Result<(), String> {
        let (ours, plain) = (self.ours(&query.sql).await, self.plain(&query.whole).await);
        let (ours, plain) = match (ours, plain) {
            (Ok(ours), Ok(plain)) => (ours, plain),
            // No query of the grammar fails.
            (ours, plain) => return Err(format!("ours: {ours:?}\nplain: {plain:?}")),
        };
        let same = match query.shape {
            Shape::Rows => sorted(ours.clone()) == sorted(plain.clone()),
            Shape::Ordered => ours == plain,
            // Which rows it keeps is not said.
            Shape::Part { limit, offset } => {
                let wanted = plain.len().saturating_sub(offset).min(limit);
                ours.len() == wanted && is_part(&ours, &plain)
            }
        };
        if same { Ok(()) } else { Err(format!("ours: {ours:?}\nplain: {plain:?}")) }
    }
}

fn is_part(part: &Answer, all: &Answer) -> bool {
    let mut left = sorted(all.clone());
    part.iter().all(|row| match left.binary_search(row) {
        Ok(place) => {
            left.remove(place);
            true
        }
        Err(_) => false,
    })
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Asks random queries of tables with these tiers, of one for each kind of key.
async fn ask(layout: Layout) {
    for key in [Key::Id, Key::TextAndInt] {
        ask_of(layout, key).await;
    }
}

/// Asks as its writer and as a reader from storage.
async fn ask_of(layout: Layout, key: Key) {
    let (queries, seed) = (setting("HEADWATER_SQL_QUERIES", 40), setting("HEADWATER_SQL_SEED", 1));
    let tiers = Tiers::build(layout, key, seed).await;
    let other = Tiers::build(Layout::BaseSsTablesMemtable, Key::Id, seed + 1).await;
    let by_writer = tiers.table.read(ReadLevel::Durable).await.unwrap();
    let reader = Table::open(tiers.table.uri(), options()).await.unwrap();
    let by_reader = reader.read(ReadLevel::Durable).await.unwrap();
    let second = other.table.read(ReadLevel::Durable).await.unwrap();
    for (who, snapshot) in [("writer", &by_writer), ("reader", &by_reader)] {
        let sides = Sides::new();
        sides.add("t", snapshot, &tiers.plain()).await;
        sides.add("u", &second, &other.plain()).await;
        let mut grammar = Grammar::new(key, seed * 1_000 + u64::from(who == "reader"));
        for number in 0..queries {
            let query = grammar.query();
            if let Err(difference) = sides.check(&query).await {
                let plan = sides.ours.explain(&query.sql).await;
                panic!(
                    "{layout:?}, key {key:?}, {who}, HEADWATER_SQL_SEED={seed}, query {number}:\n\
                     {}\n{difference}\n{}",
                    query.sql,
                    plan.unwrap_or_else(|error| error.to_string())
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_base_alone() {
    ask(Layout::Base).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_memtables_alone() {
    ask(Layout::Memtables).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_base_and_sstables() {
    ask(Layout::BaseSsTables).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_base_sstables_and_memtable() {
    ask(Layout::BaseSsTablesMemtable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_base_with_deleted_rows_and_stable_row_ids() {
    ask(Layout::DeletedStable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_base_with_keys_twice() {
    ask(Layout::KeysTwice).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_shards_with_memtables_that_freeze() {
    ask(Layout::Shards).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_table_whose_rows_are_all_deleted() {
    ask(Layout::Emptied).await;
}
