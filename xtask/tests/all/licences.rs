//! Licences and sources of dependencies.

use xtask::licences::{Package, findings, is_allowed};

const REGISTRY: &str = "registry+https://example.org/crates.io-index";

fn package(license: Option<&str>, source: Option<&str>) -> Package {
    Package {
        id: "a".to_owned(),
        name: "a".to_owned(),
        version: "1.0.0".to_owned(),
        license: license.map(str::to_owned),
        source: source.map(str::to_owned),
    }
}

fn verdict(expression: &str) -> Option<bool> {
    is_allowed(expression, &|licence| {
        matches!(licence, "MIT" | "Apache-2.0" | "Apache-2.0 WITH LLVM-exception")
    })
}

#[test]
fn one_allowed_side_of_or_is_enough_and_and_needs_both() {
    for expression in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-3.0",
        "MIT AND Apache-2.0",
        "(GPL-3.0 OR MIT) AND Apache-2.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        "GPL-3.0 AND GPL-2.0 OR MIT",
    ] {
        assert_eq!(verdict(expression), Some(true), "{expression}");
    }
    for expression in
        ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR MIT) AND GPL-2.0", "MIT WITH Other-exception"]
    {
        assert_eq!(verdict(expression), Some(false), "{expression}");
    }
}

#[test]
fn what_is_no_expression_is_not_guessed_at() {
    for expression in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "AND MIT", "MIT WITH"] {
        assert_eq!(verdict(expression), None, "{expression}");
    }
}

#[test]
fn a_permissive_package_of_the_registry_passes() {
    assert!(findings(&[package(Some("MIT OR Apache-2.0"), Some(REGISTRY))], &[]).is_empty());
}

#[test]
fn other_sources_and_other_licences_are_found() {
    let message = |package: Package| findings(&[package], &[]).first().map(|finding| finding.message.clone());
    let git = "git+https://example.org/a";
    assert_eq!(
        message(package(Some("MIT"), Some(git))).unwrap(),
        format!("a 1.0.0 comes from {git}, not from the registry")
    );
    assert!(message(package(Some("MIT"), None)).unwrap().contains("a folder of this machine"));
    assert!(message(package(None, Some(REGISTRY))).unwrap().ends_with("states no licence"));
    assert!(message(package(Some("GPL-3.0-only"), Some(REGISTRY))).unwrap().contains("not on the list"));
    assert!(message(package(Some("MIT OR"), Some(REGISTRY))).unwrap().contains("no licence expression"));
}

#[test]
fn our_own_crates_are_not_asked() {
    assert!(findings(&[package(None, None)], &["a".to_owned()]).is_empty());
}
