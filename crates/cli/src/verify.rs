//! `headwater verify`: whether what is on storage is sound, claiming nothing. The rules are the library's;
//! here the report is printed, and turned into an exit code.

use std::io::IsTerminal;

use clap::Args;
use headwater::verify::VerifyReport;
use headwater::verify::report::{Checked, Finding};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Failure;
use crate::index::coverage;
use crate::output::{self, counted};
use crate::progress;
use crate::{Format, Global};

/// Reads every shard manifest, WAL entry and SSTable; writes nothing and disturbs no writer. Ends with 1 when
/// something is broken.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Path or URI of the table
    table: String,
    /// How the findings are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub async fn run(global: &Global, args: &VerifyArgs) -> Result<(), Failure> {
    let bar = std::io::stderr().is_terminal().then(bar);
    let show = |so_far: &Checked| {
        if let Some(bar) = &bar {
            bar.set_message(summary(so_far));
        }
    };
    let options = global.table_options(&args.table)?;
    let verified = headwater::verify::verify(&args.table, &options, global.env(), &show).await;
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let report = verified?;
    match args.format {
        Format::Json => output::json(&report)?,
        _ => output::line(&human(&report))?,
    }
    match report.findings.len() as u64 {
        0 => Ok(()),
        findings => Err(Failure::Broken { table: report.table, findings }),
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(progress::EVERY);
    bar
}

fn human(report: &VerifyReport) -> String {
    let mut lines =
        vec![format!("table     {}", report.table), format!("base      version {}", report.base_version)];
    for index in &report.key_indexes {
        lines.push(format!("index     {}: {}", index.name, coverage(index.covered, index.fragments)));
    }
    lines.push(match report.checked.shards {
        // A shard is made by the first row for it.
        0 if report.sound => "checked   the base; there are no shards: nothing was written yet".to_owned(),
        _ => format!("checked   {}", summary(&report.checked)),
    });
    lines.push(match report.findings.len() as u64 {
        0 => "sound     nothing is wrong".to_owned(),
        findings => format!("BROKEN    {}", counted(findings, "finding")),
    });
    for Finding { invariant, path, found, advice } in &report.findings {
        lines.push(String::new());
        lines.push(format!("{invariant:<4}{path}"));
        lines.push(format!("    {found}"));
        lines.push(format!("    {advice}"));
    }
    lines.join("\n")
}

/// `2 shards, 9 manifests, 12 WAL entries with 100 rows, 3 SSTables with 80 rows`.
fn summary(checked: &Checked) -> String {
    let entries = match checked.entries {
        1 => "1 WAL entry".to_owned(),
        entries => format!("{} WAL entries", output::count(entries)),
    };
    format!(
        "{}, {}, {entries} with {}, {} with {}",
        counted(checked.shards, "shard"),
        counted(checked.manifests, "manifest"),
        counted(checked.entry_rows, "row"),
        counted(checked.sstables, "SSTable"),
        counted(checked.sstable_rows, "row"),
    )
}
