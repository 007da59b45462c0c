//! What a module opens with, and what a `mod.rs` may hold.

use crate::Finding;
use crate::source::{Source, item_body};

/// Rust files without a `//!` head, and `mod.rs` files with code in them.
pub fn heads(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The tests of a module, in a file beside it, are introduced by the module.
    let is_beside = source.path.ends_with("/tests.rs");
    if !is_beside && !opens_with_head(&source.text) {
        let message = "a module opens with `//!`: what it owns, what it does not, who calls it";
        findings.push(Finding::new(&source.path, 1, message));
    }
    if source.path.ends_with("/mod.rs") {
        findings.extend(code_in_contents_page(source));
    }
    findings
}

/// Whether the first thing in a file, inner attributes aside, is a head.
fn opens_with_head(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("#!["))
        .is_some_and(|line| line.starts_with("//!"))
}

/// The first item in a `mod.rs` that is neither `mod …;` nor `use …;`.
fn code_in_contents_page(source: &Source) -> Option<Finding> {
    let mut offset = 0;
    loop {
        let rest = source.code.get(offset..)?;
        let blank = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        offset += blank;
        if rest.is_empty() {
            return None;
        }
        if rest.starts_with('#') {
            offset += attribute_length(rest)?;
            continue;
        }
        if !is_contents_line(rest) {
            let message = "a `mod.rs` holds docs, `mod …;` and `use …;` lines only";
            return Some(Finding::new(&source.path, source.line_of(offset), message));
        }
        offset += rest.find(';')? + 1;
    }
}

fn attribute_length(rest: &str) -> Option<usize> {
    let open = rest.find('[')?;
    let mut depth = 0_usize;
    for (offset, c) in rest.char_indices().skip_while(|(offset, _)| *offset < open) {
        match c {
            '[' => depth += 1,
            ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(offset + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the item that starts here is `[pub[(…)]] mod name;` or `[pub[(…)]] use …;`.
fn is_contents_line(rest: &str) -> bool {
    let mut item = rest;
    if let Some(after) = item.strip_prefix("pub") {
        let after = after.trim_start();
        item = match after.strip_prefix('(') {
            Some(scoped) => scoped.split_once(')').map_or("", |(_, item)| item).trim_start(),
            None => after,
        };
    }
    if item.starts_with("use ") {
        return true;
    }
    item.strip_prefix("mod ").is_some_and(|item| item_body(item).is_none())
}
