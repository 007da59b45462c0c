//! Every type a key column can have, alone and in composite keys.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array, LargeBinaryArray,
    LargeStringArray, RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use headwater_engine::table::TableIo;
use headwater_lance::Sharding;

use crate::support::*;

/// Two different values of each key type; the first is written twice.
fn two_values() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("int8", Arc::new(Int8Array::from(vec![-7, i8::MAX]))),
        ("int16", Arc::new(Int16Array::from(vec![i16::MIN, 300]))),
        ("int32", Arc::new(Int32Array::from(vec![-70_000, 0]))),
        ("int64", Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX]))),
        ("uint8", Arc::new(UInt8Array::from(vec![200, 0]))),
        ("uint16", Arc::new(UInt16Array::from(vec![60_000, 1]))),
        ("uint32", Arc::new(UInt32Array::from(vec![u32::MAX, 2]))),
        ("uint64", Arc::new(UInt64Array::from(vec![u64::MAX, 3]))),
        ("boolean", Arc::new(BooleanArray::from(vec![true, false]))),
        ("utf8", Arc::new(StringArray::from(vec!["", "é\u{0}x"]))),
        ("large_utf8", Arc::new(LargeStringArray::from(vec!["long", "longer"]))),
        ("binary", Arc::new(BinaryArray::from_vec(vec![b"\x00\x00", b"\x00"]))),
        ("large_binary", Arc::new(LargeBinaryArray::from_vec(vec![b"\xff", b""]))),
    ]
}

fn rows(columns: &[(&str, ArrayRef)], place: usize, value: &str) -> RecordBatch {
    let mut row: Vec<(&str, ArrayRef)> =
        columns.iter().map(|(name, values)| (*name, values.slice(place, 1))).collect();
    row.push(("value", Arc::new(StringArray::from(vec![value]))));
    batch(row)
}

async fn newest_rows_and_lookups_are_right(columns: &[(&str, ArrayRef)]) {
    let mut fields: Vec<Field> =
        columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), false)).collect();
    fields.push(Field::new("value", DataType::Utf8, false));
    let key: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let place = Place::new();
    let table = place.table(&Schema::new(fields), &key).await;
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let steps = vec![
        Step::Rows(rows(columns, 0, "old")),
        Step::Rows(rows(columns, 1, "other")),
        Step::Rows(rows(columns, 0, "new")),
    ];
    let written = write(&table, &frozen(&table, steps)).await.unwrap();
    assert_eq!((written.physical_rows, written.replaced_rows), (3, 1), "{key:?}");
    let dataset = plain_dataset(&place).await;
    dataset.validate().await.unwrap();
    let newest = cells(&scan_plain(&dataset).await, &["value"]);
    assert_eq!(newest, [row(&["other"]), row(&["new"])], "{key:?}");

    let reader = table.open_sstable(shard(), &sstable()).await.unwrap();
    let asked = table.key().unwrap().project(&rows(columns, 0, "")).unwrap();
    let found = reader.find_keys(&asked).await.unwrap();
    assert_eq!(found[0].iter().map(|offset| offset.get()).collect::<Vec<_>>(), [0, 2], "{key:?}");
    let live = cells(&reader.scan().await.unwrap(), &["value", "_tombstone"]);
    assert_eq!(live, [row(&["other", "false"]), row(&["new", "false"])], "{key:?}");
}

#[tokio::test]
async fn every_key_type_works_alone() {
    for column in two_values() {
        newest_rows_and_lookups_are_right(&[column]).await;
    }
}

#[tokio::test]
async fn every_key_type_works_beside_another() {
    let all = two_values();
    for (one, next) in all.iter().zip(all.iter().skip(1)) {
        newest_rows_and_lookups_are_right(&[one.clone(), next.clone()]).await;
    }
    newest_rows_and_lookups_are_right(&all).await;
}

/// Parts of a composite key must not run into each other: ("a", "bc") is not ("ab", "c").
#[tokio::test]
async fn composite_keys_keep_their_parts_apart() {
    let place = Place::new();
    let schema =
        Schema::new(vec![Field::new("one", DataType::Utf8, false), Field::new("two", DataType::Utf8, false)]);
    let table = place.table(&schema, &["two", "one"]).await;
    table.init_mem_wal(&Sharding::Unsharded).await.unwrap();
    let pairs = |pairs: &[(&str, &str)]| {
        let one: ArrayRef = Arc::new(StringArray::from_iter_values(pairs.iter().map(|(one, _)| one)));
        let two: ArrayRef = Arc::new(StringArray::from_iter_values(pairs.iter().map(|(_, two)| two)));
        (one, two)
    };
    let (one, two) = pairs(&[("a", "bc"), ("ab", "c"), ("a", "b\u{0}c"), ("a\u{0}", "bc")]);
    let written = write(&table, &frozen(&table, vec![Step::Rows(batch(vec![("one", one), ("two", two)]))]))
        .await
        .unwrap();
    assert_eq!(written.replaced_rows, 0);
    let reader = table.open_sstable(shard(), &sstable()).await.unwrap();
    let (one, two) = pairs(&[("ab", "c"), ("abc", ""), ("a\u{0}", "bc"), ("a", "bc")]);
    let found = reader.find_keys(&batch(vec![("two", two), ("one", one)])).await.unwrap();
    let found: Vec<Vec<u32>> = found.iter().map(|rows| rows.iter().map(|row| row.get()).collect()).collect();
    assert_eq!(found, [vec![1], vec![], vec![3], vec![0]]);
}
