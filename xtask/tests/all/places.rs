//! Paths of one machine.

use xtask::tidy::places::machine_paths;
use xtask::workspace::TextFile;

fn count(path: &str, text: &str) -> usize {
    machine_paths(&TextFile { path: path.to_owned(), text: text.to_owned() }).len()
}

#[test]
fn absolute_paths_into_somebodys_folders_are_found() {
    for text in ["x /home/a/b", "\"/tmp/a\"", "(/root/.cache)", "`/work/a`", "file:///Users/a"] {
        let expected = usize::from(!text.starts_with("file:"));
        assert_eq!(count("README.md", text), expected, "{text}");
        assert_eq!(count("crates/x/src/a.rs", text), expected, "{text}");
    }
    assert_eq!(machine_paths(&TextFile { path: "a".into(), text: "\n=/tmp/x".into() })[0].line, 2);
}

#[test]
fn relative_paths_addresses_and_tests_are_free() {
    for text in
        ["$(HOME)/work/a", "a/home/b", "https://example.org/home/a", "~/tmp/a", "/data/a", "{root}/tmp/a"]
    {
        assert_eq!(count("README.md", text), 0, "{text}");
    }
    assert_eq!(count("crates/x/tests/all/a.rs", "\"/tmp/a\""), 0);
}
