//! Ids of invariants: the page defines each once, and nobody names one that is not there.

use std::collections::BTreeMap;

use crate::Finding;
use crate::source::{Source, is_word, line_of};

/// The page that defines them.
pub const PAGE: &str = "docs/invariants.md";

/// Families of ids and how many each has: safety, liveness, budgets.
const FAMILIES: [(char, usize); 3] = [('P', 18), ('L', 6), ('B', 4)];

/// The page must define every id once, in a line that opens with `| P4 |`, and no other.
pub fn page(text: &str) -> Vec<Finding> {
    let mut defined: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(id) = defined_in(line) {
            defined.entry(id).or_default().push(index + 1);
        }
    }
    let mut findings = Vec::new();
    for id in known() {
        match defined.remove(id.as_str()).as_deref() {
            None => findings.push(Finding::new(PAGE, 1, format!("{id} is not defined"))),
            Some([_, second, ..]) => {
                findings.push(Finding::new(PAGE, *second, format!("{id} is defined twice")))
            }
            Some(_) => {}
        }
    }
    for (id, lines) in defined {
        let line = lines.first().copied().unwrap_or(1);
        findings.push(Finding::new(PAGE, line, format!("{id} is not one of the invariants")));
    }
    findings
}

/// Ids named in code, comments and test names must be defined on the page. Our own tests may name others.
pub fn uses(page: &str, sources: &[Source]) -> Vec<Finding> {
    let defined: Vec<&str> = page.lines().filter_map(defined_in).collect();
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !source.path.starts_with("xtask/tests/")) {
        for (offset, id) in ids(&source.text) {
            if !defined.contains(&id) {
                let line = line_of(&source.text, offset);
                findings.push(Finding::new(&source.path, line, format!("{id} is not defined in {PAGE}")));
            }
        }
    }
    findings
}

fn known() -> impl Iterator<Item = String> {
    FAMILIES
        .into_iter()
        .flat_map(|(family, count)| (1..=count).map(move |number| format!("{family}{number}")))
}

/// The id a line of the page defines, if any.
fn defined_in(line: &str) -> Option<&str> {
    let cell = line.strip_prefix('|')?.split('|').next()?.trim();
    is_id(cell).then_some(cell)
}

fn is_id(word: &str) -> bool {
    let mut characters = word.chars();
    let family = characters.next();
    let digits = characters.as_str();
    FAMILIES.iter().any(|(letter, _)| family == Some(*letter))
        && matches!(digits.len(), 1 | 2)
        && digits.chars().all(|c| c.is_ascii_digit())
}

/// Words that read as ids, with their offsets.
fn ids(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split(|c: char| !is_word(c)).filter(|word| is_id(word)).map(|word| {
        // `split` hands out parts of `text`, so the distance of their starts is the offset.
        (word.as_ptr() as usize - text.as_ptr() as usize, word)
    })
}
