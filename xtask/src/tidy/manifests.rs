//! What a crate's manifest may say: who depends on Lance, and no tests that nobody would run.

use toml::Table;

use super::names::is_lance;
use crate::workspace::TextFile;
use crate::{CheckError, Finding};

/// Crates that may depend on Lance and DataFusion.
const LANCE_CRATES: [&str; 5] =
    ["headwater-lance", "headwater-index", "headwater-query", "headwater-server", "headwater-bench"];
/// Crates that may for their tests.
const LANCE_TESTS: [&str; 1] = ["headwater"];

/// Everything the rules say of one `Cargo.toml`.
///
/// # Errors
///
/// [`CheckError::Manifest`] when it is no TOML.
pub fn manifest(file: &TextFile) -> Result<Vec<Finding>, CheckError> {
    let table: Table =
        file.text.parse().map_err(|source| CheckError::Manifest { path: file.path.clone(), source })?;
    let Some(name) = table.get("package").and_then(|package| package.get("name")?.as_str()) else {
        return Ok(Vec::new()); // the workspace itself
    };
    let mut findings = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let may =
            LANCE_CRATES.contains(&name) || (section == "dev-dependencies" && LANCE_TESTS.contains(&name));
        let Some(Some(dependencies)) = table.get(section).map(|value| value.as_table()) else { continue };
        for dependency in dependencies.keys().filter(|dependency| !may && is_lance(dependency)) {
            let message = format!("{name} may not have `{dependency}` in [{section}]");
            findings.push(Finding::new(&file.path, line_of(&file.text, dependency), message));
        }
    }
    let doctest = table.get("lib").and_then(|lib| lib.get("doctest")?.as_bool());
    let is_program =
        ["bin", "test"].iter().any(|kind| table.contains_key(*kind)) && !table.contains_key("lib");
    if doctest != Some(false) && !is_program {
        let message = "`make test` runs no doc tests: say `doctest = false` in [lib], and test the example";
        findings.push(Finding::new(&file.path, 1, message));
    }
    Ok(findings)
}

/// Unit tests that nobody runs: of libraries that turn them off.
///
/// # Errors
///
/// [`CheckError::Manifest`] when a manifest is no TOML.
pub fn unit_tests(files: &[TextFile]) -> Result<Vec<Finding>, CheckError> {
    let mut findings = Vec::new();
    for file in files {
        let Some(folder) = file.path.strip_suffix("Cargo.toml") else { continue };
        let table: Table =
            file.text.parse().map_err(|source| CheckError::Manifest { path: file.path.clone(), source })?;
        if table.get("lib").and_then(|lib| lib.get("test")?.as_bool()) != Some(false) {
            continue;
        }
        let sources = format!("{folder}src/");
        for source in files.iter().filter(|source| source.path.starts_with(&sources)) {
            if let Some(line) = source.text.lines().position(|line| line.trim() == "#[cfg(test)]") {
                let message = format!("these tests are never run: {} says `test = false`", file.path);
                findings.push(Finding::new(&source.path, line + 1, message));
            }
        }
    }
    Ok(findings)
}

fn line_of(text: &str, dependency: &str) -> usize {
    text.lines().position(|line| line.trim_start().starts_with(dependency)).map_or(1, |index| index + 1)
}
