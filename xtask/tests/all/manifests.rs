//! What a crate's manifest may say.

use xtask::tidy::manifests::{manifest, unit_tests};
use xtask::workspace::TextFile;

fn messages(text: &str) -> Vec<String> {
    let file = TextFile { path: "crates/x/Cargo.toml".to_owned(), text: text.to_owned() };
    manifest(&file).unwrap().iter().map(ToString::to_string).collect()
}

fn crate_with(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\n[lib]\ndoctest = false\n{rest}")
}

#[test]
fn lance_is_a_dependency_of_its_crates_only() {
    let both = "[dependencies]\nlance.workspace = true\n[dev-dependencies]\ndatafusion-common = \"1\"\n";
    let found = messages(&crate_with("headwater-engine", both));
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], "crates/x/Cargo.toml:6: headwater-engine may not have `lance` in [dependencies]");
    assert!(messages(&crate_with("headwater-lance", both)).is_empty());
    assert_eq!(messages(&crate_with("headwater", both)).len(), 1);
    assert!(
        messages(&crate_with("headwater-engine", "[dependencies]\nheadwater-lance = \"1\"\n")).is_empty()
    );
}

#[test]
fn a_library_turns_doc_tests_off() {
    assert_eq!(messages("[package]\nname = \"a\"\n").len(), 1);
    assert_eq!(messages("[package]\nname = \"a\"\n[lib]\ndoctest = true\n").len(), 1);
    for kind in ["bin", "test"] {
        assert!(messages(&format!("[package]\nname = \"a\"\n[[{kind}]]\nname = \"a\"\n")).is_empty());
    }
}

#[test]
fn a_workspace_manifest_is_no_crate_and_broken_toml_is_an_error() {
    assert!(messages("[workspace]\nmembers = []\n").is_empty());
    let file = TextFile { path: "Cargo.toml".to_owned(), text: "[package\n".to_owned() };
    assert!(manifest(&file).unwrap_err().to_string().starts_with("Cargo.toml is no valid manifest"));
}

#[test]
fn a_library_with_unit_tests_runs_them() {
    let files = |rest: &str, source: &str| {
        let file = |path: &str, text: String| TextFile { path: path.to_owned(), text };
        [
            file("crates/x/Cargo.toml", crate_with("x", rest)),
            file("crates/x/src/a.rs", source.to_owned()),
            file("crates/xy/src/a.rs", "#[cfg(test)]\n".to_owned()),
        ]
    };
    let found = unit_tests(&files("test = false\n", "fn f() {}\n\n#[cfg(test)]\nmod tests {}\n")).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].to_string().starts_with("crates/x/src/a.rs:3: these tests are never run"), "{found:?}");
    assert!(unit_tests(&files("", "#[cfg(test)]\nmod tests {}\n")).unwrap().is_empty());
    assert!(unit_tests(&files("test = false\n", "fn f() {}\n")).unwrap().is_empty());
}
