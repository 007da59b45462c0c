//! Paths of one machine have no place in the tree.

use crate::Finding;
use crate::source::is_test_path;
use crate::workspace::TextFile;

/// Top folders that belong to somebody's machine.
const FOLDERS: [&str; 5] = ["root", "home", "work", "tmp", "Users"];

/// Absolute paths into a home or scratch folder, in any text but tests.
pub fn machine_paths(file: &TextFile) -> Vec<Finding> {
    if is_test_path(&file.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for folder in FOLDERS {
            if names_folder(line, &format!("/{folder}/")) {
                let message = format!("an absolute path below /{folder} belongs to one machine");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// Whether the path starts here, and is not the middle of a longer one or of an address.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(offset, _)| {
        let before = line.get(..offset).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| {
            c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')' | '/' | '~' | '*')
        })
    })
}
