//! This workspace keeps its own rules.

use xtask::{Finding, tidy, workspace};

fn list(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("\n  {finding}")).collect()
}

#[test]
fn the_workspace_is_tidy() {
    let findings = tidy::check(&workspace::root()).unwrap();
    assert!(findings.is_empty(), "{} to mend:{}", findings.len(), list(&findings));
}

#[test]
fn the_walk_finds_this_file_and_nothing_that_is_built() {
    let files = workspace::text_files(&workspace::root()).unwrap();
    assert!(files.iter().any(|file| file.path == "xtask/tests/all/workspace.rs"));
    assert!(files.iter().all(|file| !file.path.split('/').any(|part| part == "target" || part == ".git")));
}
