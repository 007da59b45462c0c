//! The rows write workloads write: an int64 key and 100 bytes of text. The rows of read workloads (`rows`)
//! are made of the same keys and text.
//!
//! Owns: schema, keys, text, batches. The same number always makes the same row. Keys are spread over 31 bits
//! by a permutation, so that neither side profits from sorted input. Text is drawn from common English words,
//! the frequent ones more often, so that it compresses like text and not like noise or like zeros.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

/// The key column.
pub const KEY: &str = "id";
/// Bytes of text in a row.
pub const TEXT_BYTES: usize = 100;
/// Payload of a row: key and text.
pub const ROW_BYTES: u64 = 108;
/// A row no workload writes: puts the first-time costs before the clock starts.
const WARM_UP_ROW: u64 = 2_000_000_000;

/// The frequent ones first.
const WORDS: &str = "the of and to in is that it was for on are as with his they \
    at be this from have or by one had not but what all were when we there can an your which their \
    said if do will each about how up out them then she many some so these would other into has more \
    her two like him see time could no make than first been its who now people my made over did down \
    only way find use may water long little very after words called just where most know get through \
    back much before go good new write our used me man too any day same right look think also around \
    another came come work three word must because does part even place well such here take why \
    things help put years different away again off went old number great tell men say small every \
    found still between name should home big give air line set own under read last never us left end \
    along while might next sound below saw something thought both few those always looked show large \
    often together asked house world going want school important until form food keep children feet \
    land side without boy once animals life enough took sometimes four head above kind began almost \
    live page got earth need far hand high year mother light parts country father let night \
    following picture being study second eyes soon times story boys since white days ever paper hard \
    near sentence better best across during today others however sure means knew try told young \
    miles sun ways thing whole hear example heard several change answer room sea against top turned \
    learn point city play toward five using himself usually";

/// The columns, as the table is made with them.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new(KEY, DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
    ]))
}

/// The columns with Lance's marker on the key: how a table is told its key without our help.
pub fn marked_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![marked_key(), Field::new("text", DataType::Utf8, true)]))
}

/// The key column with Lance's marker.
pub fn marked_key() -> Field {
    let marker = [("lance-schema:unenforced-primary-key".to_owned(), "true".to_owned())];
    Field::new(KEY, DataType::Int64, false).with_metadata(HashMap::from(marker))
}

/// `count` batches of `rows` rows each, from row number `first` on. Each batch owns its buffers.
pub fn batches(first: u64, count: usize, rows: usize) -> Result<Vec<RecordBatch>, ArrowError> {
    let words = words();
    (0..count).map(|index| batch(&words, first + (index * rows) as u64, rows)).collect()
}

/// One row that no other call makes.
pub fn warm_up() -> Result<RecordBatch, ArrowError> {
    batch(&words(), WARM_UP_ROW, 1)
}

/// What text is made of, the frequent ones first.
pub fn words() -> Vec<&'static str> {
    WORDS.split_whitespace().collect()
}

fn batch(words: &[&str], first: u64, rows: usize) -> Result<RecordBatch, ArrowError> {
    let numbers = first..first + rows as u64;
    let keys: Int64Array = numbers.clone().map(key).collect::<Vec<i64>>().into();
    let mut texts = StringBuilder::with_capacity(rows, rows * TEXT_BYTES);
    for number in numbers {
        texts.append_value(text(words, number));
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(texts.finish())];
    RecordBatch::try_new(schema(), columns)
}

/// A permutation of the numbers below the prime 2^31 - 1.
pub fn key(number: u64) -> i64 {
    let spread = u128::from(number) * 1_000_003 % 2_147_483_647;
    i64::try_from(spread).unwrap_or(0)
}

/// The text of a number.
pub fn text(words: &[&str], number: u64) -> String {
    let mut text = format!("{number}:");
    let mut state = number;
    while text.len() < TEXT_BYTES {
        // The product of two uniform draws favours the front of the list.
        let draw = mixed(&mut state);
        let (one, other) = (draw & 0xffff_ffff, draw >> 32);
        let place = (one * other) >> 32;
        let index = (u128::from(place) * words.len() as u128) >> 32;
        let word = usize::try_from(index).ok().and_then(|index| words.get(index)).unwrap_or(&"the");
        text.push(' ');
        text.push_str(word);
    }
    text.truncate(TEXT_BYTES);
    text
}

/// SplitMix64.
pub fn mixed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
