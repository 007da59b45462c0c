//! All rules over all files.

use std::path::Path;

use super::{heads, invariants, manifests, names, places, sizes};
use crate::source::Source;
use crate::workspace::{self, TextFile};
use crate::{CheckError, Finding};

/// Everything the rules have to say about the workspace at `root`, sorted by place.
///
/// # Errors
///
/// When a file cannot be read, or a Cargo manifest is no TOML.
pub fn check(root: &Path) -> Result<Vec<Finding>, CheckError> {
    let files = workspace::text_files(root)?;
    let mut findings = Vec::new();
    for file in &files {
        check_file(file, &mut findings)?;
    }
    findings.extend(manifests::unit_tests(&files)?);
    let sources: Vec<Source> = files.iter().filter(|file| is_rust(file)).map(source).collect();
    let page = files.iter().find(|file| file.path == invariants::PAGE).map_or("", |file| file.text.as_str());
    findings.extend(invariants::page(page));
    findings.extend(invariants::uses(page, &sources));
    findings.sort();
    Ok(findings)
}

fn check_file(file: &TextFile, findings: &mut Vec<Finding>) -> Result<(), CheckError> {
    findings.extend(places::machine_paths(file));
    findings.extend(sizes::columns(file));
    if file.path.ends_with("Cargo.toml") {
        findings.extend(manifests::manifest(file)?);
    }
    if is_rust(file) {
        let source = source(file);
        findings.extend(sizes::sizes(&source));
        findings.extend(heads::heads(&source));
        findings.extend(names::names(&source));
    }
    Ok(())
}

fn is_rust(file: &TextFile) -> bool {
    file.path.ends_with(".rs")
}

fn source(file: &TextFile) -> Source {
    Source::new(&file.path, &file.text)
}
