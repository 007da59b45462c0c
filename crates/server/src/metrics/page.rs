//! The page about metrics, for people.
//!
//! Owns: [`markdown`]. `docs/metrics.md` is what it returns; a test compares them.

use crate::metrics::declared::{ALL, Declared};

/// The text of `docs/metrics.md`.
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    for metric in ALL {
        page.push_str(&row(metric));
    }
    page.push_str(TAIL);
    page
}

fn row(metric: &Declared) -> String {
    let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
    let unit = metric.unit.map_or("", |unit| unit.name());
    format!(
        "| `{}` | {} | {unit} | {} | {} |\n",
        metric.series(),
        metric.kind.name(),
        labels.join(", "),
        metric.help
    )
}

const HEAD: &str = "\
# Metrics

`GET /metrics` of a server, in the text format of OpenMetrics. With keys in use it takes one for all
databases. Numbers of a table are summed over the shards this process writes; they begin anew when a shard is
opened again. This page is written from the code (`headwater_server::metrics::declared`), and a test compares
the two.

| series | kind | unit | labels | what it says |
|---|---|---|---|---|
";

const TAIL: &str = "
Labels: `route` is the pattern of a route, `unmatched` when there is none. `class` is `read` or `write`.
`kind` of `headwater_http_errors_total` is `unauthenticated`, `forbidden`, `not_found`, `conflict`,
`throttled`, `unavailable`, `unsupported`, `invalid` or `internal`; of `headwater_shard_errors_total` it
is `flush_failed`, `look_failed` (storage did not say whether another writer has claimed the shard),
`backpressure` (a write waited for memory or flushes) or `condition_failed`. `request` and `object` are
the classes of requests and kinds of objects of storage.
";
