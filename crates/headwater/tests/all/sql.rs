//! SQL over snapshots: what is pushed into which source, what is answered without reading, what is refused.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_cast::pretty::pretty_format_batches;
use arrow_schema::{DataType, Field, Schema};
use futures::{StreamExt, TryStreamExt};
use headwater::{QueryError, ReadLevel, ReadSnapshot, Sharding, SqlSession, SqlSettings, Table};
use lance::Dataset;
use lance::dataset::WriteParams;

use crate::support::{Home, keys, named, options, rows};

/// Rows 0 to 19 in the base; 15 to 24 in an SSTable, of which 20 is replaced in it; 24 to 29 in memory, where
/// 3 and 16 are deleted.
async fn three_tiers(home: &Home) -> Table {
    let base = named(0..20);
    let batches = RecordBatchIterator::new([Ok(base.clone())], base.schema());
    let params = WriteParams { max_rows_per_file: 8, ..WriteParams::default() };
    Dataset::write(batches, &home.uri(), Some(params)).await.unwrap();
    let table = Table::init(&home.uri(), &["id".to_owned()], &Sharding::Unsharded, options()).await.unwrap();
    table.put(rows(&[(20, "soon replaced")])).await.unwrap();
    table.put(named(15..25)).await.unwrap();
    table.flush().await.unwrap();
    table.put(named(24..30)).await.unwrap();
    table.delete(keys(&[3, 16])).await.unwrap();
    table
}

async fn snapshot(table: &Table) -> ReadSnapshot {
    table.read(ReadLevel::Durable).await.unwrap()
}

async fn session(table: &Table) -> SqlSession {
    let session = SqlSession::new(&SqlSettings::default()).unwrap();
    session.register("t", &snapshot(table).await).unwrap();
    session
}

async fn ask(session: &SqlSession, sql: &str) -> Result<Vec<RecordBatch>, QueryError> {
    session.sql(sql).await?.try_collect().await.map_err(QueryError::from)
}

async fn answer(session: &SqlSession, sql: &str) -> String {
    let rows = ask(session, sql).await.unwrap();
    pretty_format_batches(&rows).unwrap().to_string()
}

async fn numbers(session: &SqlSession, sql: &str) -> Vec<i64> {
    let rows = ask(session, sql).await.unwrap();
    let columns = rows.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    columns.flatten().collect()
}

/// A plan without what differs from run to run.
fn stable(plan: &str, table: &Table) -> String {
    let mut plan = plan.to_owned();
    for shard in table.stats().shards.keys() {
        plan = plan.replace(&shard.to_string(), "SHARD");
    }
    plan.trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_sources_hidden_rows_keys_and_filters() {
    let home = Home::new();
    let table = three_tiers(&home).await;
    let snapshot = snapshot(&table).await;
    let session = session(&table).await;
    let version = snapshot.base_version();
    let plan = session.explain("SELECT name FROM t WHERE id IN (3, 16, 24) LIMIT 5").await.unwrap();
    let filter = "filter=id = Int64(3) OR id = Int64(16) OR id = Int64(24)";
    let shown = |source: &str| format!("    SourceExec: {source}, ");
    let expected = [
        "GlobalLimitExec: skip=0, fetch=5".to_owned(),
        "  ConcatExec: sources=3".to_owned(),
        shown("base") + &format!("version={version}, rows=20, hidden=6, {filter} (by lance), limit=5"),
        shown("sstable, shard=SHARD, generation=1, rows=11, hidden=2, live=8")
            + &format!("keys=3, {filter}, limit=5"),
        shown("memtable, shard=SHARD, generation=2, rows=8, live=6") + &format!("keys=3, {filter}, limit=5"),
    ];
    assert_eq!(stable(&plan, &table), expected.join("\n"));
    // A condition that can fail on a hidden row is asked of the rows that are left.
    let plan = session.explain("SELECT name FROM t WHERE 10 / id > 1").await.unwrap();
    assert!(plan.contains("filter=Int64(10) / id > Int64(1)\n"), "{plan}");
    // What only DataFusion can tell stays above the sources.
    let plan = session.explain("SELECT name FROM t WHERE random() > 2").await.unwrap();
    assert!(plan.contains("FilterExec: random()"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_rows_is_answered_without_reading_any() {
    let home = Home::new();
    let table = three_tiers(&home).await;
    let session = session(&table).await;
    for sql in ["SELECT count(*) FROM t", "SELECT count(1) AS n FROM t"] {
        let plan = session.explain(sql).await.unwrap();
        assert!(plan.contains("PlaceholderRowExec") && !plan.contains("SourceExec"), "{plan}");
        assert_eq!(numbers(&session, sql).await, [28]);
    }
    assert_eq!(table.count(None).await.unwrap(), 28);
    assert_eq!(numbers(&session, "SELECT count(*) FROM t WHERE id >= 0").await, [28]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_found_in_the_tier_that_has_its_newest_row() {
    let home = Home::new();
    let table = three_tiers(&home).await;
    let session = session(&table).await;
    for id in -1..31 {
        let found = format!("SELECT id FROM t WHERE id = {id} AND name LIKE 'name of%'");
        let found = numbers(&session, &found).await;
        let there = (0..30).contains(&id) && id != 3 && id != 16;
        assert_eq!(found, if there { vec![id] } else { vec![] }, "{id}");
    }
    let some = "SELECT id FROM t WHERE id IN (29, 3, 1, 17, 1, 24, 100) AND id <> 1 ORDER BY id";
    assert_eq!(numbers(&session, some).await, [17, 24, 29]);
    let many: Vec<String> = (0..2_000).map(|id| id.to_string()).collect();
    let many = format!("SELECT count(*) FROM t WHERE id IN ({})", many.join(", "));
    assert_eq!(numbers(&session, &many).await, [28]);
    assert_eq!(numbers(&session, "SELECT id FROM t WHERE id = NULL OR id = 17").await, [17]);
    assert_eq!(
        numbers(&session, "SELECT id FROM t WHERE id = 1 OR name = 'name of 2' ORDER BY id").await,
        [1, 2]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_several_columns_are_looked_up_when_all_are_named() {
    let home = Home::new();
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, false),
        Field::new("part", DataType::Int32, false),
        Field::new("n", DataType::Int64, true),
    ]));
    let batch = |rows: &[(&str, i32, i64)]| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| Some(row.0)).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int32Array>()),
            Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Int64Array>()),
        ];
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    let key = ["part".to_owned(), "k".to_owned()];
    let table = Table::create(&home.uri(), &schema, &key, &Sharding::Unsharded, options()).await.unwrap();
    table.put(batch(&[("a", 1, 1), ("a", 2, 2), ("b", 1, 3), ("b", 2, 4)])).await.unwrap();
    table.flush().await.unwrap();
    table.put(batch(&[("b", 2, 40), ("c", 1, 5)])).await.unwrap();
    let session = session(&table).await;
    for (filter, keys, expected) in [
        ("k = 'b' AND part = 2", "keys=1,", vec![40]),
        ("part IN (1, 2) AND k IN ('a', 'c')", "keys=4,", vec![1, 2, 5]),
        ("part = 1 AND k IN ('a', 'b', 'c', 'd') AND n > 1", "keys=4,", vec![3, 5]),
        ("k = 'b'", "", vec![3, 40]),
        ("k = 'b' OR part = 1", "", vec![1, 3, 5, 40]),
    ] {
        let sql = format!("SELECT n FROM t WHERE {filter} ORDER BY n");
        assert_eq!(numbers(&session, &sql).await, expected, "{filter}");
        let plan = session.explain(&sql).await.unwrap();
        assert_eq!(plan.contains("keys="), !keys.is_empty(), "{plan}");
        assert!(plan.contains(keys), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_tables_are_asked_together_each_at_one_moment() {
    let (home, other) = (Home::new(), Home::new());
    let table = three_tiers(&home).await;
    let second = other.create(&Sharding::Unsharded).await;
    second.put(rows(&[(1, "one"), (3, "three"), (24, "two dozen")])).await.unwrap();
    let session = session(&table).await;
    session.register("Other", &snapshot(&second).await).unwrap();
    second.delete(keys(&[24])).await.unwrap();
    let sql = "SELECT t.id, o.name FROM t JOIN \"Other\" o ON o.id = t.id ORDER BY 1";
    let expected = "\
+----+-----------+
| id | name      |
+----+-----------+
| 1  | one       |
| 24 | two dozen |
+----+-----------+";
    assert_eq!(answer(&session, sql).await, expected);
    assert_eq!(session.tables(), ["Other", "t"]);
    let error = session.register("t", &snapshot(&second).await).unwrap_err();
    assert!(error.to_string().contains("two tables are called \"t\""), "{error}");
    let error = ask(&session, "SELECT * FROM other").await.unwrap_err().to_string();
    assert!(error.contains("there is no table \"other\"") && error.contains("\"Other\""), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_query_is_refused_with_what_is_wrong() {
    let home = Home::new();
    let table = three_tiers(&home).await;
    let session = session(&table).await;
    let path = home.path().with_extension("csv");
    let copy = format!("COPY (SELECT 1) TO '{}'", path.display());
    let external = format!("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{}'", path.display());
    let chain = |what: &str, times: usize| what.repeat(times);
    let adding = format!("SELECT 1{}", chain("+1", 5_000));
    let asking = format!("SELECT id{} FROM t", chain(" IS NULL", 5_000));
    let casting = format!("SELECT id{} FROM t", chain("::bigint", 5_000));
    let nested = format!("SELECT {}1{}", chain("(", 5_000), chain(")", 5_000));
    let subqueries = format!("SELECT * FROM {}t{}", chain("(SELECT * FROM ", 300), chain(")", 300));
    let united = format!("SELECT 1{}", chain(" UNION ALL SELECT 1", 2_000));
    for (sql, part) in [
        ("", "SQL"),
        ("SELEC 1", "SELEC"),
        ("SELECT id FROM t WHERE", "EOF"),
        ("SELECT colour FROM t", "colour"),
        ("SELECT id FROM t WHERE colour = 1", "colour"),
        ("SELECT no_such(id) FROM t", "no_such"),
        ("SELECT * FROM nowhere", "there is no table \"nowhere\", there is t"),
        ("SELECT * FROM '/etc/passwd'", "there is no table"),
        ("SELECT 1; SELECT 2", "single"),
        ("SELECT sum(name) FROM t", "sum"),
        ("SELECT id FROM t WHERE id = ?", "laceholder"),
        ("INSERT INTO t VALUES (1, 'x')", "queries read"),
        ("UPDATE t SET name = 'x'", "queries read"),
        ("DELETE FROM t", "queries read"),
        ("DROP TABLE t", "queries read"),
        ("CREATE TABLE x AS SELECT 1", "queries read"),
        ("CREATE VIEW v AS SELECT 1", "queries read"),
        ("SET datafusion.execution.batch_size = 1", "queries read"),
        ("EXPLAIN ANALYZE INSERT INTO t VALUES (1, 'x')", "queries read"),
        ("PREPARE p AS SELECT 1", "queries read"),
        (&copy, "queries read"),
        (&external, "queries read"),
        (&adding, "operators in a row"),
        (&asking, "words"),
        (&casting, "operators in a row"),
        (&nested, "nests too deep"),
        (&subqueries, "nests too deep"),
        (&united, "unites more than"),
    ] {
        let shown: String = sql.chars().take(80).collect();
        let error = ask(&session, sql).await.expect_err(&shown);
        let said = error.to_string();
        assert!(matches!(error, QueryError::Sql { .. }), "{shown}: {error:?}");
        assert!(said.contains(part), "{shown}: {said}");
        assert!(!said.contains(".rs:") && !said.contains("internal error"), "{shown}: {said}");
    }
    assert!(!path.exists());
    // What reads is answered.
    for sql in ["SHOW TABLES", "DESCRIBE t", "EXPLAIN SELECT * FROM t", "VALUES (1), (2)", "SELECT 1"] {
        assert!(!ask(&session, sql).await.unwrap().is_empty(), "{sql}");
    }
    let analyzed = answer(&session, "EXPLAIN ANALYZE SELECT * FROM t WHERE id > 20").await;
    assert!(analyzed.contains("output_rows=") && analyzed.contains("SourceExec: memtable"), "{analyzed}");
}

/// As deep as is allowed still fits on the stack of a thread.
async fn deep(query: impl Fn(usize) -> String, times: usize) {
    let home = Home::new();
    let table = three_tiers(&home).await;
    let times = std::env::var("DEPTH").ok().and_then(|times| times.parse().ok()).unwrap_or(times);
    let query = query(times);
    assert_eq!(numbers(&session(&table).await, &query).await, [1], "{query}");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_ors_as_may_be_are_answered() {
    deep(|times| format!("SELECT id FROM t WHERE id = 1{}", " OR id = 1".repeat(times)), 240).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_ands_as_may_be_are_answered() {
    deep(|times| format!("SELECT id FROM t WHERE id = 1{}", " AND id < 100".repeat(times)), 240).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_long_a_sum_as_may_be_is_answered() {
    deep(|times| format!("SELECT id{} FROM t WHERE id = 1", "+0".repeat(times)), 240).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_parentheses_as_may_be_are_answered() {
    let query = |times| format!("SELECT {}id{} FROM t WHERE id = 1", "(".repeat(times), ")".repeat(times));
    deep(query, 30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_deep_subqueries_as_may_be_are_answered() {
    let query = |times| {
        let (head, tail) = ("(SELECT * FROM ".repeat(times), ")".repeat(times));
        format!("SELECT id FROM {head}t{tail} WHERE id = 1")
    };
    deep(query, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_long_a_union_as_may_be_is_answered() {
    let query = |times| format!("SELECT DISTINCT * FROM (SELECT 1{})", " UNION ALL SELECT 1".repeat(times));
    deep(query, 60).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_joins_as_may_be_are_answered() {
    let query = |times| {
        let joins: String = (0..times).map(|n| format!(" JOIN t t{n} ON t{n}.id = a.id")).collect();
        format!("SELECT a.id FROM t a{joins} WHERE a.id = 1")
    };
    deep(query, 60).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_postfixes_as_may_be_are_answered() {
    let query =
        |times| format!("SELECT id FROM t WHERE id = 1 AND (id{} IS NOT NULL)", " IS NULL".repeat(times));
    deep(query, 450).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_deep_a_case_as_may_be_is_answered() {
    let query = |times| {
        let (head, tail) = ("CASE WHEN id > 100 THEN 1 ELSE ".repeat(times), " END".repeat(times));
        format!("SELECT id FROM t WHERE id = 1 AND {head}id{tail} = 1")
    };
    deep(query, 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_needs_more_memory_than_it_may_use_says_so() {
    let session = SqlSession::new(&SqlSettings { memory_bytes: 24 << 20 }).unwrap();
    let many = "generate_series(1, 3000000)";
    let joined = format!("SELECT count(*) FROM {many} a(x) JOIN {many} b(y) ON x = y");
    let error = ask(&session, &joined).await.unwrap_err();
    assert!(matches!(error, QueryError::Memory { .. }), "{error:?}");
    // With room for its rows and little more a sort is answered.
    let session = SqlSession::new(&SqlSettings { memory_bytes: 64 << 20 }).unwrap();
    let many = "generate_series(1, 500000)";
    let sorted = numbers(&session, &format!("SELECT x FROM {many} a(x) ORDER BY x % 1000 DESC, x")).await;
    assert_eq!((sorted.len(), sorted[0], sorted[499_999]), (500_000, 999, 500_000));
}

/// Of 200 files with one row each.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_is_arithmetic_and_limits_and_offsets_are_exact_over_many_files() {
    let home = Home::new();
    let base = named(0..200);
    let batches = RecordBatchIterator::new([Ok(base.clone())], base.schema());
    let params = WriteParams { max_rows_per_file: 1, ..WriteParams::default() };
    Dataset::write(batches, &home.uri(), Some(params)).await.unwrap();
    let table = Table::init(&home.uri(), &["id".to_owned()], &Sharding::Unsharded, options()).await.unwrap();
    table.put(named(0..3)).await.unwrap();
    let session = session(&table).await;
    let plan = session.explain("SELECT count(*) FROM t").await.unwrap();
    assert!(plan.contains("PlaceholderRowExec") && !plan.contains("SourceExec: base"), "{plan}");
    assert_eq!(numbers(&session, "SELECT count(*) FROM t").await, [200]);
    assert_eq!(numbers(&session, "SELECT id FROM t LIMIT 0").await.len(), 0);
    assert_eq!(numbers(&session, "SELECT id FROM t LIMIT 5").await.len(), 5);
    let mut rows = session.sql("SELECT id, name FROM t").await.unwrap();
    assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
    drop(rows);
    assert_eq!(numbers(&session, "SELECT id FROM t OFFSET 198").await.len(), 2);
}
