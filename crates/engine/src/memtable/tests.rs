//! What can be seen only from inside: keys whose hashes all collide, the marks, merging that Arrow refuses.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, BinaryArray, DictionaryArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use headwater_format::coord::{RowOffset, Seq};
use proptest::prelude::*;

use super::chunks::Chunks;
use super::key_index::KeyIndex;
use super::keys::{BatchKeys, ByteKeys, IntKeys, KeyHash};
use super::marks::Marks;
use crate::hold::Violation;

fn int_keys(keys: &[u64]) -> BatchKeys {
    BatchKeys::Ints(IntKeys::new(keys.to_vec()))
}

fn byte_keys(keys: &[u64]) -> BatchKeys {
    // Lengths differ, and one key is the empty one.
    let keys = keys.iter().map(|key| "k".repeat(*key as usize));
    BatchKeys::Bytes(ByteKeys::short(BinaryArray::from_iter_values(keys)))
}

/// Adds batches of keys to an index and a map; every answer of the index must be the map's.
fn equals_a_map(
    hash: KeyHash,
    form: fn(&[u64]) -> BatchKeys,
    batches: &[Vec<u64>],
) -> Result<(), TestCaseError> {
    let mut index = KeyIndex::new(hash);
    let mut newest: BTreeMap<u64, u32> = BTreeMap::new();
    let mut rows = 0;
    for batch in batches {
        let (mut replaced, mut expected) = (Vec::new(), Vec::new());
        let added = index.add(rows, &form(batch), |offset, older| {
            replaced.push((offset, older));
            Ok(())
        });
        prop_assert_eq!(added, Ok::<(), Violation>(()));
        for key in batch {
            expected.extend(newest.insert(*key, rows).map(|older| (rows, older)));
            rows += 1;
        }
        prop_assert_eq!(replaced, expected);
    }
    prop_assert_eq!(index.distinct(), newest.len());
    let all: Vec<u64> = (0..60).collect();
    for (row, key) in all.iter().enumerate() {
        let found = index.newest(&form(&all), row).map(RowOffset::get);
        prop_assert_eq!(found, newest.get(key).copied(), "key {}", key);
    }
    Ok(())
}

fn batches() -> impl Strategy<Value = Vec<Vec<u64>>> {
    proptest::collection::vec(proptest::collection::vec(0..50_u64, 0..30), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn int_keys_are_told_apart_even_when_every_hash_collides(batches in batches()) {
        equals_a_map(KeyHash::AllCollide, int_keys, &batches)?;
        equals_a_map(KeyHash::Exact, int_keys, &batches)?;
    }

    #[test]
    fn byte_keys_are_told_apart_even_when_every_hash_collides(batches in batches()) {
        equals_a_map(KeyHash::AllCollide, byte_keys, &batches)?;
        equals_a_map(KeyHash::Exact, byte_keys, &batches)?;
    }
}

#[test]
fn an_index_grows_over_many_segments_and_finds_every_key() {
    for form in [int_keys, |keys: &[u64]| {
        let keys = keys.iter().map(|key| format!("key {key}"));
        BatchKeys::Bytes(ByteKeys::short(BinaryArray::from_iter_values(keys)))
    }] {
        let mut index = KeyIndex::new(KeyHash::Exact);
        let keys: Vec<u64> = (0..5000).map(|key| key * 7919).collect();
        let first = form(&keys);
        index.add(0, &first, |_, _| Err(Violation::new("P4", "no key comes twice"))).unwrap();
        assert!((0..5000).all(|row| index.newest(&first, row) == Some(RowOffset::new(row as u32))));
        let mut replaced = 0;
        let count = |offset: u32, older: u32| {
            assert_eq!(offset, older + 5000);
            replaced += 1;
            Ok(())
        };
        index.add(5000, &first, count).unwrap();
        assert_eq!(replaced, 5000);
    }
}

#[test]
fn keys_of_another_form_are_a_violation() {
    let mut index = KeyIndex::new(KeyHash::Exact);
    index.add(0, &int_keys(&[1]), |_, _| Ok(())).unwrap();
    assert_eq!(index.add(1, &byte_keys(&[1]), |_, _| Ok(())).unwrap_err().invariant, "P4");
    assert_eq!(index.newest(&byte_keys(&[1]), 0), None);
}

#[test]
fn marks_take_no_memory_until_a_row_is_replaced() {
    let mut marks = Marks::default();
    marks.grow(100_000);
    let empty = marks.bytes();
    assert!(empty < 10_000, "{empty}");
    assert_eq!(marks.unreplaced(0, 100_000, Seq::MAX), None);
    assert!(marks.supersede(99_999, Seq::new(5)));
    assert_eq!(marks.bytes() - empty, 8192);
    assert_eq!(marks.unreplaced(0, 90_000, Seq::MAX), None);
    let kept = marks.unreplaced(90_000, 10_000, Seq::new(6)).unwrap();
    assert_eq!((kept.count_set_bits(), kept.value(9_999)), (9_999, false));
    assert_eq!(marks.unreplaced(90_000, 10_000, Seq::new(5)), None, "Seq 5 is not below S = 5");
    assert_eq!(marks.replaced_before(100_000, Seq::new(6)).collect::<Vec<_>>(), vec![99_999]);
    assert_eq!(marks.replaced_before(100_000, Seq::new(5)).count(), 0);
    assert_eq!(marks.replaced_before(99_999, Seq::MAX).count(), 0);
}

#[test]
fn marks_made_after_a_clone_was_taken_are_seen_by_it() {
    let mut marks = Marks::default();
    marks.grow(10);
    let clone = marks.clone();
    marks.grow(5000);
    assert!(marks.supersede(3, Seq::new(50)));
    assert_eq!(clone.superseded_by(3), Seq::new(50));
    assert_eq!(clone.superseded_by(4000), Seq::MAX);
}

#[test]
fn pieces_that_arrow_cannot_merge_stay_as_they_are() {
    // 8-bit dictionary keys cannot count the values of all pieces together.
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("word", dictionary, false),
    ]));
    let mut chunks = Chunks::new(Arc::clone(&schema));
    let mut rows = 0;
    for piece in 0..40_i64 {
        let words: Vec<String> = (0..20).map(|word| format!("word {piece} {word}")).collect();
        let words: DictionaryArray<Int8Type> = words.iter().map(String::as_str).collect();
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(piece * 20..piece * 20 + 20));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![ids, Arc::new(words)]).unwrap();
        chunks.push(batch, 200, 400);
        rows += 20;
    }
    assert_eq!(chunks.rows(), rows);
    let mut next = 0;
    for chunk in chunks.iter() {
        assert_eq!(chunk.first, next);
        let ids = chunk.batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(ids.value(0), i64::from(next));
        next += chunk.batch.num_rows() as u32;
    }
    assert_eq!(next, rows);
}
