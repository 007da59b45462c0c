//! `headwater sql` and `explain`: queries over one table or several, base, SSTables and WAL together.

use serde_json::{Value, json};

use crate::support::{Home, command, ndjson, run, run_with};

/// Rows 0 to 49 in an SSTable; 40 to 59, as "new 40" and so on, in the WAL only.
fn two_tiers() -> Home {
    let home = Home::with_table(&[]);
    run(&["ingest", &home.table(), &home.parquet("old.parquet", 0..50)]).ok();
    let new: String = (40..60).map(|id| format!("{{\"id\": {id}, \"name\": \"new {id}\"}}\n")).collect();
    run_with(&["ingest", &home.table(), "-", "--no-flush"], new.as_bytes()).ok();
    home
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn one_table_is_called_by_its_location() {
    let home = two_tiers();
    let query = "SELECT name LIKE 'new%' AS new, count(*) AS rows FROM \"table\" GROUP BY 1 ORDER BY 1";
    let ended = run(&["sql", query, &home.table()]).ok();
    let expected = "\
+-------+------+
| new   | rows |
+-------+------+
| false | 40   |
| true  | 20   |
+-------+------+
";
    assert_eq!((ended.stdout.as_str(), ended.stderr.trim()), (expected, "2 rows"));
    let ended = run(&["sql", query, &home.table(), "--format", "json"]).ok();
    assert_eq!(
        json_lines(&ended.stdout),
        [json!({"new": false, "rows": 40}), json!({"new": true, "rows": 20})]
    );
    assert_eq!(ended.stderr, "");
    let ended = run(&["sql", query, &home.table(), "--format", "csv"]).ok();
    assert_eq!(ended.stdout, "new,rows\nfalse,40\ntrue,20\n");
    let ended = run(&["sql", "SELECT id FROM \"table\" WHERE id < 0", &home.table()]).ok();
    assert!(ended.stdout.contains("| id |") && ended.stderr.contains("0 rows"), "{ended:?}");
}

#[test]
fn several_tables_are_named() {
    let home = two_tiers();
    let other = home.name("Other Rows.v2.lance");
    run(&["init", &other, "--schema", &home.name("columns.parquet"), "--key", "id"]).ok();
    run_with(&["ingest", &other, "-"], ndjson(58..62).as_bytes()).ok();
    let (t, o) = (format!("t={}", home.table()), format!("o={other}"));
    let query = "SELECT t.id, t.name, o.name AS other FROM t JOIN o ON t.id = o.id ORDER BY 1";
    let ended = run(&["sql", query, "--table", &t, "--table", &o, "--format", "csv"]).ok();
    assert_eq!(ended.stdout, "id,name,other\n58,new 58,name of 58\n59,new 59,name of 59\n");
    let query = "SELECT max(id) AS last FROM t UNION ALL SELECT max(id) FROM \"Other Rows\" ORDER BY 1";
    let ended = run(&["sql", query, &other, "--table", &t, "--format", "csv"]).ok();
    assert_eq!(ended.stdout, "last\n59\n61\n");
    run(&["sql", "SELECT 1", "--table", &t, "--table", &format!("t={other}")])
        .failed(2, &["two tables", "t"]);
    run(&["sql", "SELECT 1", "--table", &format!("t={}", home.name("nothing"))]).failed(1, &["nothing"]);
    assert_eq!(run(&["sql", "SELECT 1 AS one", "--format", "csv"]).ok().stdout, "one\n1\n");
}

#[test]
fn a_plan_names_sources_and_what_is_hidden_of_them() {
    let home = two_tiers();
    let query = "SELECT name FROM t WHERE id = 45";
    let ended = run(&["explain", query, "--table", &format!("t={}", home.table())]).ok();
    for part in [
        "SourceExec: base, version=",
        "SourceExec: sstable, shard=",
        "rows=50, hidden=10, live=40, keys=1, filter=id = Int64(45)",
        "SourceExec: memtable, shard=",
        "rows=20, live=20, keys=1",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn what_is_no_query_is_refused() {
    let home = two_tiers();
    let table = format!("t={}", home.table());
    let ask = |query: &str| run(&["sql", query, "--table", &table]);
    ask("SELECT").failed(1, &["query: "]);
    ask("SELECT colour FROM t").failed(1, &["colour", "t.id", "t.name"]);
    ask("SELECT * FROM flights").failed(1, &["no table \"flights\"", "there is t"]);
    ask("DELETE FROM t").failed(1, &["queries read", "SELECT"]);
    ask("SELECT 10 / (id - 3) FROM t").failed(1, &["ivide by zero"]);
    run(&["explain", "DROP TABLE t", "--table", &table]).failed(1, &["queries read"]);
    run(&["sql"]).failed(2, &["SQL"]);
    assert_eq!(ask("SELECT count(*) AS n FROM t").ok().stdout.matches("60").count(), 1);
}

#[test]
fn a_query_claims_nothing() {
    let home = two_tiers();
    let before = home.inspect()["shards"][0]["manifest"].clone();
    let table = format!("t={}", home.table());
    let ended = run(&["sql", "SELECT count(*) AS n FROM t", "--table", &table, "--format", "csv"]).ok();
    assert_eq!(ended.stdout, "n\n60\n");
    assert_eq!(home.inspect()["shards"][0]["manifest"], before);
    for name in ["sql", "explain"] {
        let help = command(&[name, "--help"]).output().unwrap().stdout;
        let help = String::from_utf8(help).unwrap();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("Claims no shard"), "{help}");
    }
}
