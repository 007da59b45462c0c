//! Client tokens: the names clients give their writes, so that a repeated one is told from a new one.
//!
//! Owns: [`ClientToken`], and the list of tokens of an entry ([`EntryToken`]) with its text. Does not own:
//! how long a token is remembered, or what a repeated one is answered (`headwater-engine`). Keeps P12
//! readable: an entry says which of its rows came with which token.
//!
//! # Text
//! Field metadata [`TOKENS`] of `_tombstone`, a JSON list in row order, absent when there is none:
//! `[{"token":"00ff","first":0,"rows":2,"at_ms":1700000000000}]`. `token` is hexadecimal, `first` the
//! first of its rows in the entry, counted from 0 over all batches, `at_ms` the writer's clock when it
//! accepted them, in milliseconds since 1970.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Metadata of the `_tombstone` field of an entry: its client tokens.
pub const TOKENS: &str = "headwater:tokens";
/// Most bytes of a token.
pub const MAX_TOKEN_BYTES: usize = 64;

/// A name a client gives a write, so that sending it again writes it once. Opaque bytes; cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientToken(Arc<[u8]>);

/// Bytes that are no client token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a client token of {length} bytes, it must have 1 to {MAX_TOKEN_BYTES}")]
pub struct TokenError {
    /// How many bytes there are.
    pub length: usize,
}

impl ClientToken {
    /// The token with these bytes.
    ///
    /// # Errors
    /// [`TokenError`] unless there are 1 to [`MAX_TOKEN_BYTES`].
    pub fn new(bytes: &[u8]) -> Result<Self, TokenError> {
        match bytes.len() {
            1..=MAX_TOKEN_BYTES => Ok(Self(bytes.into())),
            length => Err(TokenError { length }),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let pairs = text.as_bytes().chunks(2);
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        Self::new(&bytes?).ok()
    }
}

/// Hexadecimal.
impl fmt::Display for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientToken({self})")
    }
}

/// A token of an entry, and the rows that came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryToken {
    /// The token.
    pub token: ClientToken,
    /// The first of its rows in the entry, from 0.
    pub first: u64,
    /// How many rows; at least one.
    pub rows: u64,
    /// The writer's clock when it accepted them, in milliseconds since 1970.
    pub at_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    token: String,
    first: u64,
    rows: u64,
    at_ms: u64,
}

/// The text of a list of tokens.
///
/// # Errors
/// What the JSON writer said; it has no reason to.
pub(crate) fn write_list(tokens: &[EntryToken]) -> Result<String, serde_json::Error> {
    let listed = tokens.iter().map(|EntryToken { token, first, rows, at_ms }| Listed {
        token: token.to_string(),
        first: *first,
        rows: *rows,
        at_ms: *at_ms,
    });
    serde_json::to_string(&listed.collect::<Vec<_>>())
}

/// The tokens listed in `text`, of an entry of `rows` rows; none when it is no such list, or one of rows the
/// entry does not have. Members we do not know are ignored.
pub(crate) fn read_list(text: &str, rows: u64) -> Option<Vec<EntryToken>> {
    let listed: Vec<Listed> = serde_json::from_str(text).ok()?;
    let token = |listed: Listed| {
        let Listed { token, first, rows: count, at_ms } = listed;
        let fits = count > 0 && first.checked_add(count).is_some_and(|end| end <= rows);
        Some(EntryToken { token: ClientToken::parse(&token)?, first, rows: count, at_ms }).filter(|_| fits)
    };
    listed.into_iter().map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(bytes: &[u8]) -> ClientToken {
        ClientToken::new(bytes).unwrap()
    }

    #[test]
    fn a_token_has_one_to_sixty_four_bytes() {
        assert_eq!(ClientToken::new(b""), Err(TokenError { length: 0 }));
        assert_eq!(ClientToken::new(&[7; 65]), Err(TokenError { length: 65 }));
        assert_eq!(token(&[7; 64]).bytes(), [7; 64]);
        assert_eq!(token(b"\x00\xffa").to_string(), "00ff61");
    }

    #[test]
    fn a_list_is_the_text_the_page_shows_and_comes_back() {
        let tokens = [
            EntryToken { token: token(b"\x00\xff"), first: 0, rows: 2, at_ms: 1_700_000_000_000 },
            EntryToken { token: token(b"a"), first: 3, rows: 1, at_ms: 0 },
        ];
        let text = write_list(&tokens).unwrap();
        let first = r#"[{"token":"00ff","first":0,"rows":2,"at_ms":1700000000000}"#;
        assert_eq!(text, format!(r#"{first},{{"token":"61","first":3,"rows":1,"at_ms":0}}]"#));
        assert_eq!(read_list(&text, 4).as_deref(), Some(&tokens[..]));
        assert_eq!(read_list(&text, 3), None, "it has no fourth row");
    }

    #[test]
    fn text_that_is_no_list_of_tokens_is_none() {
        for text in [
            "",
            "{}",
            "[1]",
            r#"[{"token":"","first":0,"rows":1,"at_ms":0}]"#,
            r#"[{"token":"0","first":0,"rows":1,"at_ms":0}]"#,
            r#"[{"token":"0g","first":0,"rows":1,"at_ms":0}]"#,
            r#"[{"token":"00","first":0,"rows":0,"at_ms":0}]"#,
            r#"[{"token":"00","first":18446744073709551615,"rows":1,"at_ms":0}]"#,
        ] {
            assert_eq!(read_list(text, 9), None, "{text}");
        }
        let more = r#"[{"token":"00","first":0,"rows":1,"at_ms":0,"new":[]}]"#;
        assert!(read_list(more, 1).is_some());
    }
}
