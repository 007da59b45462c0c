//! What dependencies may be licensed under, and where they may come from.
//!
//! Owns: the allow list and reading `cargo metadata`. Does not own: what is depended on (the manifests).
//! Every package is looked at, those of other platforms and of tests too.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::{CheckError, Finding};

/// Licences that let anybody use, change and pass on the whole, with or without naming its source.
const PERMISSIVE: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages under the MPL-2.0, whose files stay under it when they are changed. We use them as they are.
const UNCHANGED_MPL: [&str; 1] = ["option-ext"];

/// The one place packages come from.
const REGISTRY: &str = "/crates.io-index";

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

/// A package as `cargo metadata` describes it; only what the check needs.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    /// Unique in one run of cargo.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// An SPDX expression.
    pub license: Option<String>,
    /// Where it comes from; `None` for a folder of this machine.
    pub source: Option<String>,
}

/// Licence and source of every package the workspace at `root` may ever build.
///
/// # Errors
///
/// [`CheckError::Metadata`] when cargo cannot resolve the workspace.
pub fn check(root: &Path) -> Result<Vec<Finding>, CheckError> {
    let failed = |reason: String| CheckError::Metadata { reason };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--all-features"])
        .current_dir(root)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(findings(&metadata.packages, &metadata.workspace_members))
}

/// What is wrong with these packages, given the ids of those that are ours.
pub fn findings(packages: &[Package], ours: &[String]) -> Vec<Finding> {
    let foreign = packages.iter().filter(|package| !ours.contains(&package.id));
    let mut findings: Vec<Finding> =
        foreign.flat_map(|package| [source(package), licence(package)]).flatten().collect();
    findings.sort();
    findings
}

fn source(package: &Package) -> Option<Finding> {
    let from = package.source.as_deref().unwrap_or("a folder of this machine");
    let from_registry = from.starts_with("registry+") && from.ends_with(REGISTRY);
    (!from_registry).then(|| finding(package, &format!("comes from {from}, not from the registry")))
}

fn licence(package: &Package) -> Option<Finding> {
    let Some(expression) = package.license.as_deref() else {
        return Some(finding(package, "states no licence"));
    };
    let mpl = UNCHANGED_MPL.contains(&package.name.as_str());
    let allowed = |licence: &str| PERMISSIVE.contains(&licence) || (mpl && licence == "MPL-2.0");
    match is_allowed(expression, &allowed) {
        Some(true) => None,
        Some(false) => Some(finding(package, &format!("is under {expression}, which is not on the list"))),
        None => Some(finding(package, &format!("states `{expression}`, which is no licence expression"))),
    }
}

fn finding(package: &Package, what: &str) -> Finding {
    Finding::new("Cargo.lock", 1, format!("{} {} {what}", package.name, package.version))
}

/// Whether a licence expression lets us choose licences that are all allowed; `None` when it cannot be read.
///
/// `AND` binds closer than `OR`; the old `MIT/Apache-2.0` means `OR`.
pub fn is_allowed(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let verdict = either(&mut words, allowed)?;
    words.next().is_none().then_some(verdict)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut verdict = both(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        verdict |= both(words, allowed)?;
    }
    Some(verdict)
}

fn both(words: &mut Words<'_>, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut verdict = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        verdict &= one(words, allowed)?;
    }
    Some(verdict)
}

fn one(words: &mut Words<'_>, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    match words.next()? {
        "(" => {
            let verdict = either(words, allowed)?;
            words.next_if_eq(&")")?;
            Some(verdict)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        licence if words.next_if_eq(&"WITH").is_some() => {
            Some(allowed(&format!("{licence} WITH {}", words.next()?)))
        }
        licence => Some(allowed(licence)),
    }
}
