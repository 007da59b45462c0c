//! What was found: lines of figures, verdicts against targets, as tables and as JSON.
//!
//! Owns: [`Report`]. Does not own: the figures. A ratio is taken round by round, because neighbours in time
//! met the same machine; its median is what is judged.

use std::collections::BTreeMap;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use serde::Serialize;

use crate::console;
use crate::loads::{self, Load};
use crate::machine::Machine;
use crate::picture::Chart;
use crate::race::{Counts, Sample, Spread, percentile, sorted};

/// What a figure is about.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The workload's id.
    pub workload: &'static str,
    /// Which of its cases.
    pub case: &'a str,
    /// The unit of the figures.
    pub unit: &'static str,
}

/// One figure of one side.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    workload: String,
    case: String,
    who: String,
    unit: String,
    value: Spread,
    /// Milliseconds of a put, over all rounds.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// WAL entries of a round (median), and their bytes per byte acknowledged.
    wal_entries: Option<f64>,
    wal_bytes_per_byte: Option<f64>,
    /// Object-store requests by class and kind of object, where they were counted.
    requests: Counts,
}

/// What a target asks for.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Target {
    fn met(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::AtMost(bound) => format!("≤ {}", number(bound)),
            Self::AtLeast(bound) => format!("≥ {}", number(bound)),
        }
    }
}

/// A figure held against a target, or shown without one.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    workload: String,
    case: String,
    what: String,
    value: Spread,
    target: Option<Target>,
    met: Option<bool>,
}

/// Everything found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    machine: Machine,
    quick: bool,
    rounds: usize,
    lines: Vec<Line>,
    loads: Vec<Load>,
    verdicts: Vec<Verdict>,
    notes: Vec<String>,
    /// What `--svg` draws.
    charts: Vec<Chart>,
    /// The most kibibytes the process had resident during each workload, its data included.
    peak_resident_kib: BTreeMap<String, u64>,
}

impl Report {
    /// An empty report.
    pub fn new(rounds: usize, quick: bool) -> Self {
        Self {
            machine: Machine::this(),
            quick,
            rounds,
            lines: Vec::new(),
            loads: Vec::new(),
            verdicts: Vec::new(),
            notes: Vec::new(),
            charts: Vec::new(),
            peak_resident_kib: BTreeMap::new(),
        }
    }

    /// Adds the samples of each side, named in the same order.
    pub fn add(&mut self, case: Case<'_>, who: &[String], samples: &[Vec<Sample>]) {
        for (who, samples) in who.iter().zip(samples) {
            let latencies = sorted(samples.iter().flat_map(|sample| sample.latencies_ms.iter().copied()));
            let put = |share| (!latencies.is_empty()).then(|| percentile(&latencies, share));
            let wal: Vec<_> = samples.iter().filter_map(|sample| Some((sample.wal?, sample))).collect();
            let median = |values: Vec<f64>| (!values.is_empty()).then(|| Spread::of(values).median);
            let entries = wal.iter().map(|(wal, _)| wal.entries as f64).collect();
            let bytes = wal.iter().filter(|(_, sample)| sample.payload_bytes > 0);
            let bytes = bytes.map(|(wal, sample)| wal.bytes as f64 / sample.payload_bytes as f64).collect();
            self.push(Line {
                workload: case.workload.to_owned(),
                case: case.case.to_owned(),
                who: who.clone(),
                unit: case.unit.to_owned(),
                value: Spread::of_values(samples),
                p50_ms: put(0.5),
                p99_ms: put(0.99),
                wal_entries: median(entries),
                wal_bytes_per_byte: median(bytes),
                requests: Counts::new(),
            });
        }
    }

    /// Adds the requests one side made.
    pub fn add_requests(&mut self, case: Case<'_>, who: &str, requests: Counts) {
        let total: u64 = requests.values().sum();
        self.push(Line {
            workload: case.workload.to_owned(),
            case: case.case.to_owned(),
            who: who.to_owned(),
            unit: case.unit.to_owned(),
            value: Spread::of([total as f64]),
            p50_ms: None,
            p99_ms: None,
            wal_entries: None,
            wal_bytes_per_byte: None,
            requests,
        });
    }

    fn push(&mut self, line: Line) {
        let (workload, case, who) = (&line.workload, &line.case, &line.who);
        console::note(&format!("{workload}, {case}: {who}: {} {}", number(line.value.median), line.unit));
        self.lines.push(line);
    }

    /// Adds a run under load.
    pub fn load(&mut self, load: Load) {
        console::note(&load.shown());
        self.loads.push(load);
    }

    /// Holds a figure against a target.
    pub fn judge(&mut self, case: Case<'_>, what: &str, value: Spread, target: Option<Target>) {
        let met = target.map(|target| target.met(value.median));
        self.verdicts.push(Verdict {
            workload: case.workload.to_owned(),
            case: case.case.to_owned(),
            what: what.to_owned(),
            value,
            target,
            met,
        });
    }

    /// Says something the figures do not.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        console::note(&text);
        self.notes.push(text);
    }

    /// Adds a chart to the picture.
    pub fn chart(&mut self, chart: Chart) {
        self.charts.push(chart);
    }

    /// The charts of the picture.
    pub fn charts(&self) -> &[Chart] {
        &self.charts
    }

    /// Remembers what the process had resident during a workload.
    pub fn resident(&mut self, workload: &str, peak_kib: Option<u64>) {
        self.peak_resident_kib.extend(peak_kib.map(|kib| (workload.to_owned(), kib)));
    }

    /// Prints everything.
    pub fn print(&self) {
        let machine = &self.machine;
        console::say(&format!(
            "{}, {}, {} threads, {} of memory, {} rounds{}",
            machine.system,
            machine.processor.as_deref().unwrap_or("unknown processor"),
            machine.threads,
            machine.memory_kib.map_or("unknown".to_owned(), |kib| format!("{} MiB", kib / 1024)),
            self.rounds,
            if self.quick { ", quick: figures are rough" } else { "" },
        ));
        if !machine.release {
            console::say("NOT A RELEASE BUILD: these figures mean nothing");
        }
        if !self.lines.is_empty() {
            console::say(&self.lines_table().to_string());
        }
        if !self.loads.is_empty() {
            console::say(&loads::table(&self.loads).to_string());
        }
        if !self.verdicts.is_empty() {
            console::say(&self.verdicts_table().to_string());
        }
        for (workload, kib) in &self.peak_resident_kib {
            console::say(&format!("{workload}: the process had {} MiB resident at most", kib / 1024));
        }
        for note in &self.notes {
            console::say(note);
        }
    }

    fn lines_table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        table.set_header(vec![
            "",
            "case",
            "who",
            "median",
            "unit",
            "min … max",
            "put p50 ms",
            "put p99 ms",
            "WAL entries",
            "WAL B/B",
            "requests",
        ]);
        for line in &self.lines {
            table.add_row(vec![
                line.workload.clone(),
                line.case.clone(),
                line.who.clone(),
                number(line.value.median),
                line.unit.clone(),
                range(&line.value),
                optional(line.p50_ms),
                optional(line.p99_ms),
                optional(line.wal_entries),
                optional(line.wal_bytes_per_byte),
                counts(&line.requests),
            ]);
        }
        table
    }

    fn verdicts_table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        table.set_header(vec!["", "case", "what", "median", "min … max", "target", "met"]);
        for verdict in &self.verdicts {
            let met = match verdict.met {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "",
            };
            table.add_row(vec![
                verdict.workload.clone(),
                verdict.case.clone(),
                verdict.what.clone(),
                number(verdict.value.median),
                range(&verdict.value),
                verdict.target.map(Target::shown).unwrap_or_default(),
                met.to_owned(),
            ]);
        }
        table
    }
}

fn range(value: &Spread) -> String {
    if value.samples < 2 {
        return String::new();
    }
    format!("{} … {}", number(value.min), number(value.max))
}

fn optional(value: Option<f64>) -> String {
    value.map(number).unwrap_or_default()
}

fn counts(counts: &Counts) -> String {
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

/// Three digits that matter, no more.
pub fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        small if small >= 1.0 => format!("{value:.2}"),
        zero if zero == 0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}
