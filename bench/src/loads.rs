//! Runs under load, as tables and JSON show them.
//!
//! Owns: [`Load`]. Does not own: running them (`server::load`).

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::report::{Case, number};
use crate::server::load::Outcome;

/// One run: how long one kind of its requests took.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    workload: String,
    case: String,
    who: String,
    /// Requests a second that were due, of all kinds; none where clients wait for answers.
    offered: Option<f64>,
    /// Good answers a second, of all kinds.
    achieved: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    /// Requests of this kind.
    requests: u64,
    errors: u64,
    unsent: u64,
}

/// Milliseconds below which a share of the requests is.
pub fn quantile_ms(histogram: &Histogram<u64>, share: f64) -> f64 {
    histogram.value_at_quantile(share) as f64 / 1e3
}

/// The latencies in a histogram, one by one, as samples have them.
pub fn latencies_ms(histogram: &Histogram<u64>) -> Vec<f64> {
    let each = histogram.iter_recorded().flat_map(|step| {
        let count = usize::try_from(step.count_since_last_iteration()).unwrap_or(0);
        std::iter::repeat_n(step.value_iterated_to() as f64 / 1e3, count)
    });
    each.collect()
}

impl Load {
    /// The requests in `histogram`, which is one of `outcome`.
    pub fn new(
        case: Case<'_>,
        who: &str,
        offered: Option<f64>,
        outcome: &Outcome,
        histogram: &Histogram<u64>,
    ) -> Self {
        Self {
            workload: case.workload.to_owned(),
            case: case.case.to_owned(),
            who: who.to_owned(),
            offered,
            achieved: outcome.achieved,
            p50_ms: quantile_ms(histogram, 0.5),
            p99_ms: quantile_ms(histogram, 0.99),
            p999_ms: quantile_ms(histogram, 0.999),
            max_ms: histogram.max() as f64 / 1e3,
            requests: histogram.len(),
            errors: outcome.errors,
            unsent: outcome.unsent,
        }
    }

    /// A line of progress.
    pub fn shown(&self) -> String {
        format!(
            "{}, {}: {}: {} of {} a second, p50 {} ms, p99 {} ms, {} errors, {} unsent",
            self.workload,
            self.case,
            self.who,
            number(self.achieved),
            self.offered.map_or("all".to_owned(), number),
            number(self.p50_ms),
            number(self.p99_ms),
            self.errors,
            self.unsent,
        )
    }
}

/// All of them.
pub fn table(loads: &[Load]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(vec![
        "",
        "case",
        "who",
        "offered/s",
        "answered/s",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "requests",
        "errors",
        "unsent",
    ]);
    for load in loads {
        table.add_row(vec![
            load.workload.clone(),
            load.case.clone(),
            load.who.clone(),
            load.offered.map(number).unwrap_or_default(),
            number(load.achieved),
            number(load.p50_ms),
            number(load.p99_ms),
            number(load.p999_ms),
            number(load.max_ms),
            load.requests.to_string(),
            load.errors.to_string(),
            load.unsent.to_string(),
        ]);
    }
    table
}
