//! Ids of invariants.

use xtask::source::Source;
use xtask::tidy::invariants::{page, uses};

fn good_page() -> String {
    let family = |letter: char, count: usize| {
        (1..=count).map(move |number| format!("| {letter}{number} | always |\n")).collect::<String>()
    };
    format!(
        "# Invariants\n\n| id | what |\n|---|---|\n{}{}{}",
        family('P', 18),
        family('L', 6),
        family('B', 4)
    )
}

fn messages(text: &str) -> Vec<String> {
    page(text).iter().map(ToString::to_string).collect()
}

#[test]
fn a_page_that_defines_each_id_once_passes() {
    assert!(messages(&good_page()).is_empty());
}

#[test]
fn missing_doubled_and_unknown_ids_are_found() {
    let missing = good_page().replace("| P7 | always |\n", "");
    assert_eq!(messages(&missing), ["docs/invariants.md:1: P7 is not defined"]);
    let doubled = good_page() + "| L2 | again |\n";
    assert_eq!(messages(&doubled), ["docs/invariants.md:33: L2 is defined twice"]);
    let unknown = good_page() + "| P19 | new |\n";
    assert_eq!(messages(&unknown), ["docs/invariants.md:33: P19 is not one of the invariants"]);
}

#[test]
fn ids_named_in_code_must_be_on_the_page() {
    let named = |text: &str| {
        let found = uses(&good_page(), &[Source::new("a.rs", text)]);
        found.iter().map(|finding| (finding.line, finding.message.clone())).collect::<Vec<_>>()
    };
    assert!(
        named("//! Keeps P4 and P18 (L6, B4).\nhold!(P1, a);\n// PP1 P Plus XP99 P123 p77 L1x\n").is_empty()
    );
    assert_eq!(named("\n// P19\n"), [(2, "P19 is not defined in docs/invariants.md".to_owned())]);
    assert_eq!(named("hold!(B5, a);\n").len(), 1);
}
