//! How long things may be.

use xtask::source::Source;
use xtask::tidy::sizes::{COLUMNS, FILE_LINES, FUNCTION_LINES, INLINE_TEST_LINES, columns, sizes};
use xtask::workspace::TextFile;

fn function_of(lines: usize) -> String {
    format!("fn long() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
}

fn messages(path: &str, text: &str) -> Vec<String> {
    sizes(&Source::new(path, text)).iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_at_the_limit_passes_and_one_line_more_does_not() {
    assert!(messages("a.rs", &"mod a;\n".repeat(FILE_LINES)).is_empty());
    let found = messages("a.rs", &"mod a;\n".repeat(FILE_LINES + 1));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("a.rs:1: the file has 801 lines"), "{found:?}");
}

#[test]
fn a_function_at_the_limit_passes_and_one_line_more_does_not() {
    assert!(messages("a.rs", &function_of(FUNCTION_LINES)).is_empty());
    let found = messages("a.rs", &format!("\n{}", function_of(FUNCTION_LINES + 1)));
    assert_eq!(found, ["a.rs:2: `long` has 71 lines, over 70"]);
}

#[test]
fn many_inline_tests_belong_in_a_file_of_their_own() {
    let tests =
        |lines: usize| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    mod a;\n".repeat(lines - 3));
    assert!(messages("src/a.rs", &tests(INLINE_TEST_LINES)).is_empty());
    assert_eq!(messages("src/a.rs", &tests(INLINE_TEST_LINES + 1)).len(), 1);
    assert!(messages("src/a/tests.rs", &tests(INLINE_TEST_LINES + 1)).is_empty());
}

#[test]
fn wide_lines_are_found_in_code_and_not_in_prose() {
    let file = |path: &str, width: usize| TextFile {
        path: path.to_owned(),
        text: format!("a\n{}\n", "é".repeat(width)),
    };
    assert!(columns(&file("a.rs", COLUMNS)).is_empty());
    assert_eq!(columns(&file("a.rs", COLUMNS + 1))[0].to_string(), "a.rs:2: 111 columns, over 110");
    assert_eq!(columns(&file("scripts/a.py", COLUMNS + 1)).len(), 1);
    assert!(columns(&file("README.md", COLUMNS + 1)).is_empty());
}
