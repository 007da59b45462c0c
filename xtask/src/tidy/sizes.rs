//! How long a file, a function, a line and an inline test module may be.

use crate::Finding;
use crate::source::Source;
use crate::workspace::TextFile;

/// Lines of a Rust file.
pub const FILE_LINES: usize = 800;
/// Lines of a function, from `fn` to its closing brace.
pub const FUNCTION_LINES: usize = 70;
/// Columns of a line of code or script.
pub const COLUMNS: usize = 110;
/// Lines of test code inside a file of product code; more moves to a file of its own.
pub const INLINE_TEST_LINES: usize = 150;

/// Files, functions and inline tests that are too long.
pub fn sizes(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES {
        let message = format!("the file has {lines} lines, over {FILE_LINES}: is it one room?");
        findings.push(Finding::new(&source.path, 1, message));
    }
    for function in source.functions() {
        if function.lines > FUNCTION_LINES {
            let message = format!("`{}` has {} lines, over {FUNCTION_LINES}", function.name, function.lines);
            findings.push(Finding::new(&source.path, function.line, message));
        }
    }
    findings.extend(inline_tests(source));
    findings
}

fn inline_tests(source: &Source) -> Option<Finding> {
    if crate::source::is_test_path(&source.path) {
        return None;
    }
    let first = source.test_items().first()?;
    let lines: usize = source
        .test_items()
        .iter()
        .map(|item| source.text.get(item.clone()).map_or(0, |t| t.lines().count()))
        .sum();
    (lines > INLINE_TEST_LINES).then(|| {
        let message =
            format!("{lines} lines of tests, over {INLINE_TEST_LINES}: move them to a file of their own");
        Finding::new(&source.path, source.line_of(first.start), message)
    })
}

/// Lines of code and scripts that are too wide. Prose and data may be as wide as they like.
pub fn columns(file: &TextFile) -> Vec<Finding> {
    if ![".rs", ".py", ".sh"].iter().any(|end| file.path.ends_with(end)) {
        return Vec::new();
    }
    let wide = |(index, line): (usize, &str)| {
        let columns = line.chars().count();
        (columns > COLUMNS)
            .then(|| Finding::new(&file.path, index + 1, format!("{columns} columns, over {COLUMNS}")))
    };
    file.text.lines().enumerate().filter_map(wide).collect()
}
