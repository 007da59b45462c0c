//! A Rust file as the checks see it: its text, and the same text with comments and literals blanked.
//!
//! Owns: telling code from comments and literals, finding items and test code. It is a lexer and a counter of
//! braces, not a parser: enough for rules about sizes and names, and quick. Does not own: any rule.

use std::ops::Range;

/// One Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path below the workspace root, with `/`.
    pub path: String,
    /// The text as it stands.
    pub text: String,
    /// The text with every comment and literal blanked; same length, same lines.
    pub code: String,
    is_test_file: bool,
    test_items: Vec<Range<usize>>,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, counted from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
}

impl Source {
    /// Reads a file's text.
    pub fn new(path: &str, text: &str) -> Self {
        let code = blank_comments_and_literals(text);
        let test_items = test_items(&code);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            is_test_file: is_test_path(path),
            test_items,
        }
    }

    /// The line, counted from 1, that the byte at `offset` stands in.
    pub fn line_of(&self, offset: usize) -> usize {
        line_of(&self.text, offset)
    }

    /// Whether the byte at `offset` belongs to test code: a test file, or an item under `#[cfg(test)]`.
    pub fn is_test(&self, offset: usize) -> bool {
        self.is_test_file || self.test_items.iter().any(|range| range.contains(&offset))
    }

    /// The items under `#[cfg(test)]`, as byte ranges.
    pub fn test_items(&self) -> &[Range<usize>] {
        &self.test_items
    }

    /// Every function with a body, nested ones too, in order.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for offset in words(&self.code, "fn") {
            let Some(rest) = self.code.get(offset + 2..) else { continue };
            let name: String = rest.trim_start().chars().take_while(|c| is_word(*c)).collect();
            if name.is_empty() {
                continue; // a function pointer type
            }
            if let Some(body) = item_body(rest) {
                let line = self.line_of(offset);
                let lines = self.line_of(offset + 2 + body.end - 1) - line + 1;
                functions.push(Function { name, line, lines });
            }
        }
        functions
    }
}

/// Whether a file is test code by its place: a `tests` folder, a `tests.rs`, a bench.
pub fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
}

/// Byte offsets of a whole word in blanked code.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(offset, _)| offset).filter(move |&offset| {
        let before = code.get(..offset).and_then(|text| text.chars().next_back());
        let after = code.get(offset + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Whether a character can be part of a Rust name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The line, counted from 1, that the byte at `offset` stands in.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// From the text after an item's keyword: the byte range of its braced body, or `None` if `;` ends it first.
pub fn item_body(rest: &str) -> Option<Range<usize>> {
    let mut depth = 0_usize;
    let mut start = None;
    for (offset, c) in rest.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' => {
                if depth == 0 && start.is_none() {
                    start = Some(offset);
                }
                depth += 1;
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0
                    && let Some(start) = start
                {
                    return Some(start..offset + 1);
                }
            }
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Items under `#[cfg(test)]` or `#[cfg(all(test, …))]`, from the attribute to the closing brace.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items = Vec::new();
    for (offset, _) in code.match_indices("#[cfg(") {
        let Some(rest) = code.get(offset..) else { continue };
        let Some(end) = rest.find(']') else { continue };
        let attribute = rest.get(..end).unwrap_or_default();
        let is_test = words(attribute, "test").next().is_some() && words(attribute, "not").next().is_none();
        let after = rest.get(end + 1..).unwrap_or_default();
        if is_test && let Some(body) = item_body(after) {
            items.push(offset..offset + end + 1 + body.end);
        }
    }
    items
}

enum Token {
    Code,
    Blank,
}

/// The text with comments and literals replaced by spaces; line breaks stay.
pub fn blank_comments_and_literals(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    let mut previous = None;
    while let Some(first) = rest.chars().next() {
        let (token, length) = next_token(rest, first, previous);
        let (taken, left) = rest.split_at(length);
        match token {
            Token::Code => code.push_str(taken),
            Token::Blank => {
                code.extend(taken.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            }
        }
        previous = taken.chars().next_back();
        rest = left;
    }
    code
}

fn next_token(rest: &str, first: char, previous: Option<char>) -> (Token, usize) {
    let all = rest.len();
    if rest.starts_with("//") {
        return (Token::Blank, rest.find('\n').unwrap_or(all));
    }
    if rest.starts_with("/*") {
        return (Token::Blank, block_comment(rest));
    }
    let starts_word = !previous.is_some_and(is_word);
    if starts_word && let Some(length) = ["r", "br", "cr"].iter().find_map(|prefix| raw_string(rest, prefix))
    {
        return (Token::Blank, length);
    }
    let length = match first {
        '"' => Some(1 + quoted(rest.get(1..).unwrap_or_default(), '"')),
        '\'' => character(rest),
        _ => None,
    };
    match length {
        Some(length) => (Token::Blank, length),
        None => (Token::Code, first.len_utf8()),
    }
}

/// Length of a block comment, nested ones included.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(left) = rest.get(at..).filter(|left| !left.is_empty()) {
        if left.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if left.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += left.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of a raw string with this prefix, if one starts here.
fn raw_string(rest: &str, prefix: &str) -> Option<usize> {
    let after = rest.strip_prefix(prefix)?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after.get(hashes..)?.strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let opening = prefix.len() + hashes + 1;
    Some(body.find(&closing).map_or(rest.len(), |end| opening + end + closing.len()))
}

/// Length of the text up to and with the closing quote; backslashes escape.
fn quoted(body: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, c) in body.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return offset + 1;
        }
    }
    body.len()
}

/// Length of a character literal, or `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    let mut characters = body.chars();
    let (first, second) = (characters.next()?, characters.next());
    (first == '\\' || second == Some('\'')).then(|| 1 + quoted(body, '\''))
}
