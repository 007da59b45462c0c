//! What a module opens with, and what a `mod.rs` may hold.

use xtask::source::Source;
use xtask::tidy::heads::heads;

fn count(path: &str, text: &str) -> usize {
    heads(&Source::new(path, text)).len()
}

#[test]
fn a_module_opens_with_a_head() {
    assert_eq!(count("src/a.rs", "//! What it owns.\nfn a() {}\n"), 0);
    assert_eq!(count("src/a.rs", "#![allow(dead_code)]\n\n//! What it owns.\n"), 0);
    assert_eq!(count("src/a.rs", "fn a() {}\n//! Too late.\n"), 1);
    assert_eq!(count("src/a.rs", "/// Docs of an item.\nfn a() {}\n"), 1);
    assert_eq!(count("src/a.rs", ""), 1);
    assert_eq!(count("tests/all/a.rs", "fn a() {}\n"), 1);
    assert_eq!(count("src/a/tests.rs", "fn a() {}\n"), 0, "introduced by the module beside it");
}

#[test]
fn a_contents_page_holds_docs_mod_and_use_lines() {
    let good = "//! Head.\n\n/// Docs.\npub mod a;\nmod b; // why\n\
                #[cfg(any(test, feature = \"x\"))]\npub(crate) mod c;\n\
                pub use a::{\n    A,\n    B,\n};\nuse b::C;\npub(in crate::x) use b::D;\n";
    assert_eq!(count("src/a/mod.rs", good), 0);
}

#[test]
fn code_in_a_contents_page_is_found_at_its_line() {
    for code in ["fn f() {}", "pub struct S;", "mod inner {\n}", "pub const X: u8 = 1;", "impl A {}", "x!();"]
    {
        let text = format!("//! Head.\nmod a;\n{code}\n");
        let found = heads(&Source::new("src/a/mod.rs", &text));
        assert_eq!(found.len(), 1, "{code}");
        assert_eq!(found[0].line, 3, "{code}");
        assert_eq!(count("src/a/lib.rs", &text), 0, "{code}");
    }
}
