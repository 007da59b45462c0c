//! Who may name what: Lance and DataFusion, the reference engine, the terminal, the environment.

use crate::Finding;
use crate::source::{Source, is_word, words};

/// Crates whose product code names Lance and DataFusion.
const LANCE_CRATES: [&str; 4] = ["lance", "index", "query", "server"];
/// Crates whose tests may name them too.
const LANCE_TESTS: [&str; 1] = ["headwater"];
/// Crates that own a process: they may print and read the environment.
const PROCESSES: [&str; 2] = ["cli", "xtask"];
/// Crates that run in simulation, where every choice must come from `Env`.
const SIMULATED: [&str; 3] = ["store", "engine", "sim"];

/// Everything the rules about names say of a file.
pub fn names(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(lance(source));
    findings.extend(reference_engine(source));
    findings.extend(left_open(source));
    if !PROCESSES.contains(&crate_of(&source.path)) && !is_program(&source.path) {
        findings.extend(terminal(source));
        findings.extend(environment(source));
    }
    if SIMULATED.contains(&crate_of(&source.path)) {
        findings.extend(unbiased_select(source));
    }
    findings
}

/// The folder name of the crate a file belongs to: `crates/store/src/…` → `store`.
fn crate_of(path: &str) -> &str {
    let mut parts = path.split('/');
    match parts.next() {
        Some("crates") => parts.next().unwrap_or_default(),
        Some(first) => first,
        None => "",
    }
}

/// Whether a file is the source of a program rather than of a library.
fn is_program(path: &str) -> bool {
    path.contains("/src/bin/") || path.contains("/examples/") || path.ends_with("/build.rs")
}

fn lance(source: &Source) -> Vec<Finding> {
    let owner = crate_of(&source.path);
    if LANCE_CRATES.contains(&owner) || owner == "bench" {
        return Vec::new();
    }
    let tests_may = LANCE_TESTS.contains(&owner);
    roots(&source.code)
        .filter(|(_, root)| is_lance(root))
        .filter(|(offset, _)| !(tests_may && source.is_test(*offset)))
        .map(|(offset, root)| {
            let message = format!("`{root}` is named by crates {} only", LANCE_CRATES.join(", "));
            Finding::new(&source.path, source.line_of(offset), message)
        })
        .collect()
}

/// Whether a crate of this name belongs to Lance or DataFusion. Hyphens or underscores, both will do.
pub fn is_lance(name: &str) -> bool {
    ["lance", "datafusion"].iter().any(|family| {
        name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '-']))
    })
}

/// First segments of paths (`lance_io` of `lance_io::object_store`), with their offsets.
fn roots(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices("::").filter_map(|(end, _)| {
        let before = code.get(..end)?;
        let start = before.char_indices().rev().take_while(|(_, c)| is_word(*c)).last()?.0;
        let path_goes_on = before.get(..start)?.ends_with("::");
        (!path_goes_on).then_some((start, before.get(start..)?))
    })
}

/// The reference implementation is a peer to measure and test against, never a part of the product.
fn reference_engine(source: &Source) -> Vec<Finding> {
    if crate_of(&source.path) == "bench" {
        return Vec::new();
    }
    words(&source.code, "mem_wal")
        .filter(|offset| !source.is_test(*offset))
        .filter(|offset| {
            let before = source.code.get(..*offset).unwrap_or_default();
            let statement = before.rfind(';').map_or(before, |end| before.get(end + 1..).unwrap_or_default());
            let path: String = statement.chars().filter(|c| !c.is_whitespace()).collect();
            let imported = statement.trim_start().starts_with("use ") && path.contains("uselance::");
            imported || path.ends_with("lance::dataset::") || path.ends_with("dataset::")
        })
        .map(|offset| {
            let message = "the product never calls the reference engine, `lance::dataset::mem_wal`";
            Finding::new(&source.path, source.line_of(offset), message)
        })
        .collect()
}

fn left_open(source: &Source) -> Vec<Finding> {
    let why = "nothing is left open in the code";
    macros(source, &["todo", "unimplemented", "dbg"])
        .map(|(line, name, _)| said(source, line, name, why))
        .collect()
}

fn terminal(source: &Source) -> Vec<Finding> {
    let why = "a library does not touch the terminal: return a value, or use tracing";
    macros(source, &["println", "print", "eprintln", "eprint"])
        .filter(|(_, _, is_test)| !is_test)
        .map(|(line, name, _)| said(source, line, name, why))
        .collect()
}

fn environment(source: &Source) -> Vec<Finding> {
    source
        .code
        .match_indices("env::var")
        .filter(|(offset, _)| !source.is_test(*offset))
        .map(|(offset, _)| {
            let message = "a library does not read the environment: take a setting";
            Finding::new(&source.path, source.line_of(offset), message)
        })
        .collect()
}

/// `select!` draws the branch it polls first from a generator of its own, unless it is told not to.
fn unbiased_select(source: &Source) -> Vec<Finding> {
    words(&source.code, "select")
        .filter_map(|offset| {
            let rest = source.code.get(offset + "select".len()..)?.strip_prefix('!')?;
            let body = rest.trim_start().trim_start_matches(['{', '(']).trim_start();
            let line = source.line_of(offset);
            (!body.starts_with("biased;")).then(|| {
                Finding::new(&source.path, line, "`select!` opens with `biased;`: chance comes from Env only")
            })
        })
        .collect()
}

/// Calls of these macros: line, name, whether in test code.
fn macros<'a>(source: &'a Source, names: &'a [&str]) -> impl Iterator<Item = (usize, &'a str, bool)> + 'a {
    names.iter().flat_map(move |name| {
        words(&source.code, name)
            .filter(|offset| source.code.get(offset + name.len()..).is_some_and(|rest| rest.starts_with('!')))
            .map(move |offset| (source.line_of(offset), *name, source.is_test(offset)))
    })
}

fn said(source: &Source, line: usize, name: &str, why: &str) -> Finding {
    Finding::new(&source.path, line, format!("`{name}!`: {why}"))
}
