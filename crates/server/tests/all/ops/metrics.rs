//! The metrics page: what is declared is what is told, and what the documentation says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use headwater::{OpenOptions, Sharding, Table};
use headwater_server::app::OpenTable;
use headwater_server::auth::Auth;
use headwater_server::metrics::{CONTENT_TYPE, Kind, declared, page};

use super::toy::{Running, Toy, config};

/// A metric as a page tells it.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    unit: Option<String>,
    /// Labels and value of each sample, by the sample's name.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split("\",").filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once("=\"").unwrap();
            (name.to_owned(), value.trim_end_matches('"').to_owned())
        })
        .collect()
}

/// Reads a page in the text format of OpenMetrics, and refuses what is none.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            current = name.to_owned();
            let before =
                families.insert(current.clone(), Family { help: help.to_owned(), ..Family::default() });
            assert!(before.is_none(), "{name} twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            families.get_mut(&current).unwrap().kind = rest.split_once(' ').unwrap().1.to_owned();
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            families.get_mut(&current).unwrap().unit = Some(rest.split_once(' ').unwrap().1.to_owned());
        } else if line != "# EOF" {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, inside) = series.split_once('{').unwrap_or((series, ""));
            assert!(name.starts_with(&current), "{line} within {current}");
            let labels = labels(inside.trim_end_matches('}'));
            let family = families.get_mut(&current).unwrap();
            family.samples.push((name.to_owned(), labels, value.parse().unwrap()));
        }
    }
    families
}

impl Family {
    /// The value of the one sample of that name with that label.
    fn value(&self, name: &str, label: (&str, &str)) -> f64 {
        let named = self.samples.iter().filter(|(sample, labels, _)| {
            sample == name && labels.get(label.0).map(String::as_str) == Some(label.1)
        });
        let values: Vec<f64> = named.map(|(_, _, value)| *value).collect();
        assert_eq!(values.len(), 1, "{name} {label:?} in {:?}", self.samples);
        values[0]
    }
}

async fn a_table_that_was_written(home: &Path) -> OpenTable {
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let uri = home.join("t.lance").display().to_string();
    let table =
        Table::create(&uri, &schema, &["id".to_owned()], &Sharding::Unsharded, OpenOptions::default()).await;
    let table = table.unwrap();
    let rows = |ids: [i64; 3]| {
        RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from_iter_values(ids))])
    };
    table.put(rows([1, 2, 3]).unwrap()).await.unwrap();
    table.put(rows([3, 4, 5]).unwrap()).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows([5, 6, 7]).unwrap()).await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 7);
    let stats = table.stats();
    table.close().await.unwrap();
    OpenTable { database: "demo".to_owned(), table: "a \"table\"".to_owned(), stats }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_declared_is_told_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let toy = Toy { tables: vec![a_table_that_was_written(home.path()).await], ..Toy::default() };
    let running = Running::with(config(|_| {}), Auth::Open, toy).await;
    let mut connection = running.connect().await;
    connection.send("POST", "/v1/table/t/insert/", &[], b"rows").await;
    connection.send("POST", "/v1/table/t/insert", &[], b"rows").await;
    assert_eq!(connection.send("POST", "/nowhere", &[], b"").await.status, 404);
    let reply = connection.send("GET", "/metrics", &[], b"").await;
    assert_eq!(reply.header("content-type"), Some(CONTENT_TYPE));
    let families = parse(reply.text());
    let told: BTreeSet<&str> = families.keys().map(String::as_str).collect();
    let names: Vec<String> = declared::ALL.iter().map(|metric| metric.family()).collect();
    assert_eq!(told, names.iter().map(String::as_str).collect());
    for metric in declared::ALL {
        let family = &families[&metric.family()];
        assert_eq!(family.help, format!("{}.", metric.help), "{}", metric.name);
        assert_eq!(family.kind, metric.kind.name(), "{}", metric.name);
        assert_eq!(family.unit.as_deref(), metric.unit.map(|unit| unit.name()), "{}", metric.name);
        assert!(!family.samples.is_empty(), "{}", metric.name);
        for (name, labels, _) in &family.samples {
            let labels: BTreeSet<&str> =
                labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
            assert_eq!(labels, metric.labels.iter().copied().collect(), "{name}");
            let suffixes: &[&str] = match metric.kind {
                Kind::Counter => &["_total"],
                Kind::Gauge => &[""],
                Kind::Histogram => &["_sum", "_count", "_bucket"],
            };
            let of_family = name.strip_prefix(&metric.family()).unwrap();
            assert!(suffixes.contains(&of_family), "{name}");
        }
    }
    the_numbers_are_those_of_the_table(&families);
    the_numbers_are_those_of_the_requests(&families);
}

fn the_numbers_are_those_of_the_table(families: &BTreeMap<String, Family>) {
    let of_table = ("database", "demo");
    let value = |family: &str, name: &str| families[family].value(name, of_table);
    assert_eq!(value("headwater_rows", "headwater_rows_total"), 9.0);
    assert_eq!(value("headwater_ack_duration_seconds", "headwater_ack_duration_seconds_count"), 3.0);
    assert!(value("headwater_ack_duration_seconds", "headwater_ack_duration_seconds_sum") > 0.0);
    assert_eq!(value("headwater_group_puts", "headwater_group_puts_sum"), 3.0);
    assert_eq!(value("headwater_wal_entries", "headwater_wal_entries_total"), 3.0);
    assert_eq!(value("headwater_wal_pending_rows", "headwater_wal_pending_rows"), 0.0);
    assert_eq!(value("headwater_wal_lag_entries", "headwater_wal_lag_entries"), 1.0);
    assert_eq!(value("headwater_flush_duration_seconds", "headwater_flush_duration_seconds_count"), 1.0);
    assert_eq!(value("headwater_sstables", "headwater_sstables"), 1.0);
    assert!(value("headwater_shadows_bytes", "headwater_shadows_bytes") > 0.0);
    let memtables = value("headwater_memtables_bytes", "headwater_memtables_bytes");
    let indexes = value("headwater_memtable_indexes_bytes", "headwater_memtable_indexes_bytes");
    assert!(0.0 < indexes && indexes < memtables, "{indexes} of {memtables}");
    assert_eq!(families["headwater_shards"].value("headwater_shards", ("status", "serving")), 1.0);
    let wal_puts = families["headwater_storage_requests"]
        .samples
        .iter()
        .find(|(_, labels, _)| labels["request"] == "put" && labels["object"] == "wal");
    assert!(wal_puts.unwrap().2 >= 3.0, "one a put: {wal_puts:?}");
}

fn the_numbers_are_those_of_the_requests(families: &BTreeMap<String, Family>) {
    let requests = &families["headwater_http_requests"];
    let name = "headwater_http_requests_total";
    let inserts = requests.value(name, ("route", "/v1/table/{id}/insert"));
    assert_eq!(inserts, 2.0, "with and without the slash is one route");
    assert_eq!(requests.value(name, ("status", "404")), 1.0);
    assert_eq!(
        families["headwater_http_errors"].value("headwater_http_errors_total", ("kind", "not_found")),
        1.0
    );
    let connections = &families["headwater_http_connections"].samples;
    assert_eq!(connections[0].2, 1.0);
}

#[test]
fn the_page_of_the_documentation_is_the_one_the_code_writes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let written = page::markdown();
    if std::env::var_os("HEADWATER_WRITE_DOCS").is_some() {
        std::fs::write(&file, &written).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(there, written, "run this test with HEADWATER_WRITE_DOCS=1 to write docs/metrics.md anew");
}
