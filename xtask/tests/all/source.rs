//! Telling code from comments and literals, functions from function types, tests from product.

use xtask::source::{Source, blank_comments_and_literals};

/// Asserts that nothing of the marked text is left, and that lengths and lines stay.
fn assert_blank(text: &str, left: &str) {
    let code = blank_comments_and_literals(text);
    assert_eq!(code.len(), text.len(), "{text}");
    assert_eq!(code.lines().count(), text.lines().count(), "{text}");
    let squeezed: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(squeezed.join(" "), left, "{text}");
}

#[test]
fn comments_are_blank() {
    assert_blank("a // b { c\nd", "a d");
    assert_blank("a /* b /* c */ d */ e", "a e");
    assert_blank("/// docs\nfn a() {}", "fn a() {}");
    assert_blank("a /* never closed", "a");
}

#[test]
fn literals_are_blank() {
    assert_blank(r#"a("b // c", d)"#, "a( , d)");
    assert_blank(r#"a("\"{", b)"#, "a( , b)");
    assert_blank("a(r\"\\\", b)", "a( , b)");
    assert_blank("a(r#\"{ \" }\"#, b)", "a( , b)");
    assert_blank("a(br##\"\"# \"##, b)", "a( , b)");
    assert_blank("a(b\"{\", b'{', '{')", "a(b , b , )");
    assert_blank(r"a('\'', '\\', b)", "a( , , b)");
    assert_blank("a(\"é{ö\", b)", "a( , b)");
}

#[test]
fn lifetimes_and_raw_names_are_code() {
    assert_blank("fn a<'b>(c: &'b str) {}", "fn a<'b>(c: &'b str) {}");
    assert_blank("r#type + error", "r#type + error");
    assert_blank("&'static str", "&'static str");
}

#[test]
fn functions_are_found_with_their_lines() {
    let text = "trait T {\n    fn declared(&self);\n    fn given(&self) {\n\
                \n        let f: fn(u8) = g;\n    }\n}\n\
                fn brackets(a: [u8; 2]) -> Result<(), E>\nwhere\n    E: X,\n\
                {\n    fn inner() {}\n    \"}\";\n}\n";
    let found: Vec<_> =
        Source::new("a.rs", text).functions().into_iter().map(|f| (f.name, f.line, f.lines)).collect();
    let expected = [("given", 3, 4), ("brackets", 8, 7), ("inner", 12, 1)]
        .map(|(name, line, n)| (name.to_owned(), line, n));
    assert_eq!(found, expected);
}

#[test]
fn items_under_cfg_test_are_test_code() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n\
                #[cfg(all(test, unix))]\nfn d() {}\n#[cfg(not(test))]\nfn e() {}\n\
                #[cfg(test)]\nmod f;\nfn g() {}\n";
    let source = Source::new("crates/x/src/lib.rs", text);
    let is_test = |name: &str| source.is_test(text.find(&format!("fn {name}")).unwrap());
    let found: Vec<bool> = ["a", "b", "c", "d", "e", "g"].map(is_test).to_vec();
    assert_eq!(found, [false, true, false, true, false, false]);
}

#[test]
fn files_in_tests_folders_are_test_code() {
    for path in ["crates/x/tests/all/a.rs", "crates/x/src/a/tests.rs", "crates/x/src/tests/a.rs"] {
        assert!(Source::new(path, "fn a() {}").is_test(3), "{path}");
    }
    assert!(!Source::new("crates/x/src/testsuite.rs", "fn a() {}").is_test(3));
}
