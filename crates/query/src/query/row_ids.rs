//! Row ids, which a table with a write tier does not have.
//!
//! Owns: what refuses them. A row is first in a memtable, then in an SSTable, then in the base, and has
//! another address in each: no id of it could be used by a later request. Its key can.

use arrow_schema::Schema;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::error::QueryError;

/// What Lance calls ids and places of rows.
const NAMES: [&str; 3] = ["_rowid", "_rowaddr", "_rowoffset"];

/// Refuses `name` if it stands for a row id.
pub(super) fn refuse_name(name: &str, table: &Schema) -> Result<(), QueryError> {
    match NAMES.contains(&name) && table.field_with_name(name).is_err() {
        true => Err(QueryError::RowIds { asked: name.to_owned() }),
        false => Ok(()),
    }
}

/// Refuses SQL that names row ids. What is no SQL is left for the parser to say.
pub(super) fn refuse_in(text: &str, table: &Schema) -> Result<(), QueryError> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().unwrap_or_default();
    let mut words = tokens.iter().filter_map(|token| match token {
        Token::Word(word) if word.quote_style != Some('"') => Some(word.value.as_str()),
        _ => None,
    });
    words.try_for_each(|word| refuse_name(word, table))
}
