//! Who may name what.

use xtask::source::Source;
use xtask::tidy::names::{is_lance, names};

fn lines(path: &str, text: &str) -> Vec<usize> {
    names(&Source::new(path, text)).iter().map(|finding| finding.line).collect()
}

#[test]
fn lance_and_datafusion_are_named_by_their_crates_only() {
    let text = "use lance_io::ObjectStore;\nuse lance::{Dataset, dataset::scanner::Scanner};\n\
                fn a(b: datafusion_common::Result<()>) {}\n";
    assert_eq!(lines("crates/engine/src/a.rs", text), [1, 2, 3]);
    assert_eq!(lines("crates/engine/tests/all/a.rs", text), [1, 2, 3]);
    assert_eq!(lines("crates/headwater/src/a.rs", text), [1, 2, 3]);
    assert!(lines("crates/headwater/tests/all/a.rs", text).is_empty());
    assert!(lines("crates/lance/src/a.rs", text).is_empty());
    assert!(lines("bench/src/a.rs", text).is_empty());
}

#[test]
fn our_own_crate_on_lance_and_words_in_comments_are_free() {
    let text = "//! As lance::Dataset does.\nuse headwater_lance::LanceTable;\nuse crate::lance::a;\n\
                fn a(balance: u8, b: balance::B, c: self::datafusion::C) {}\n";
    assert!(lines("crates/headwater/src/a.rs", text).is_empty());
    assert!(is_lance("lance") && is_lance("lance-core") && is_lance("datafusion_common"));
    assert!(!is_lance("balance") && !is_lance("lancelot") && !is_lance("headwater-lance"));
}

#[test]
fn the_product_never_calls_the_reference_engine() {
    for text in [
        "use lance::dataset::mem_wal::ShardWriter;\n",
        "use lance::dataset::{\n    Dataset,\n    mem_wal::ShardWriter,\n};\n",
        "fn a() { lance::dataset::mem_wal::open(); }\n",
        "use lance::dataset;\nfn a() { dataset::mem_wal::open(); }\n",
    ] {
        assert_eq!(lines("crates/lance/src/a.rs", text).len(), 1, "{text}");
        assert!(lines("crates/headwater/tests/all/a.rs", text).is_empty(), "{text}");
        assert!(lines("bench/src/a.rs", text).is_empty(), "{text}");
    }
}

#[test]
fn the_details_of_the_index_and_a_module_of_ours_are_no_engine() {
    let text = "use lance_index::mem_wal::MemWalIndexDetails;\nuse crate::mem_wal::MemWal;\nmod mem_wal;\n";
    assert!(lines("crates/lance/src/a.rs", text).is_empty());
}

#[test]
fn nothing_is_left_open() {
    let text =
        "fn a() {\n    todo!();\n    unimplemented!()\n}\nfn b() { dbg!(1) }\n// todo!()\n\"todo!()\"\n";
    assert_eq!(lines("crates/engine/src/a.rs", text), [2, 3, 5]);
    assert_eq!(lines("crates/cli/src/main.rs", text), [2, 3, 5]);
}

#[test]
fn libraries_touch_neither_terminal_nor_environment() {
    let text = "fn a() {\n    println!();\n    eprint!(\"\");\n    std::env::var(\"A\");\n\
                format!(\"\");\n}\n\
                #[cfg(test)]\nmod tests {\n    fn b() { println!(); std::env::var(\"A\"); }\n}\n";
    assert_eq!(lines("crates/engine/src/a.rs", text), [2, 3, 4]);
    for path in [
        "crates/cli/src/main.rs",
        "crates/sim/src/bin/sim.rs",
        "crates/engine/tests/all/a.rs",
        "xtask/src/a.rs",
    ] {
        assert!(lines(path, text).is_empty(), "{path}");
    }
}

#[test]
fn chance_hidden_in_select_is_found() {
    let text = "fn a() {\n    tokio::select! {\n        biased;\n        x = y => {}\n    }\n\
                select! { x = y => {} }\n    \
                tokio::select! {\n        // why\n        x = y => {}\n    }\n}\n";
    assert_eq!(lines("crates/engine/src/a.rs", text), [6, 7]);
    assert!(lines("crates/cli/src/a.rs", text).is_empty());
}
