//! Arrow IPC streams: good ones, and such with one thing wrong.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, Int32Array, Int64Array, NullArray, RecordBatch,
    RecordBatchOptions, StringArray, StringViewArray, StructArray, UInt64Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema};

use super::dice::Dice;
use super::json::Expect;

/// Values in a vector of the tables.
const DIMENSION: i32 = 4;

/// Rows as the tables of the world have them.
pub fn rows(ids: Range<i64>, name: &str) -> RecordBatch {
    let mut fields = columns(ids, name);
    let marker = [("lance-schema:unenforced-primary-key:position".to_owned(), "1".to_owned())];
    fields[0].0 = fields[0].0.clone().with_metadata(marker.into());
    batch(fields)
}

fn columns(ids: Range<i64>, name: &str) -> Vec<(Field, ArrayRef)> {
    let names: StringArray = ids.clone().map(|id| Some(format!("{name}{id}"))).collect();
    let numbers: Int64Array = ids.clone().map(|id| (id % 3 != 0).then_some(id)).collect();
    let inner = Arc::new(Int32Array::from_iter_values(ids.clone().map(|id| id as i32))) as ArrayRef;
    let meta = StructArray::from(vec![(Arc::new(Field::new("a", DataType::Int32, true)), inner)]);
    let id = Arc::new(Int64Array::from_iter_values(ids.clone()));
    vec![
        column("id", id),
        column("name", Arc::new(names)),
        column("n", Arc::new(numbers)),
        column("v", vectors(ids, DIMENSION)),
        column("meta", Arc::new(meta)),
    ]
}

fn vectors(ids: Range<i64>, dimension: i32) -> ArrayRef {
    let vector = |id: i64| {
        Some((0..dimension).map(|place| Some(if place == 0 { id as f32 } else { 0.0 })).collect::<Vec<_>>())
    };
    Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(ids.map(vector), dimension))
}

fn column(name: &str, values: ArrayRef) -> (Field, ArrayRef) {
    (Field::new(name, values.data_type().clone(), name != "id"), values)
}

fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let rows = RecordBatchOptions::new().with_row_count(Some(arrays.first().map_or(0, |array| array.len())));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &rows).unwrap()
}

/// The stream of some batches.
pub fn stream(batches: &[RecordBatch], packed: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(packed).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

/// A stream of good rows.
pub fn good(dice: &mut Dice) -> Vec<u8> {
    let packing = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];
    let first = dice.below(150) as i64;
    stream(&[rows(first..first + 5, "b"), rows(first + 5..first + 8, "c")], dice.pick(&packing))
}

/// A stream with a fault.
pub fn faulty(dice: &mut Dice) -> (Vec<u8>, Expect) {
    const MESSAGE: Expect = Expect::Named("message");
    let mut whole = good(dice);
    match dice.below(12) {
        0 | 1 => {
            // Cuts near the beginning go through descriptions, the others through contents.
            let end = if dice.one_in(2) { whole.len() } else { 700 };
            whole.truncate(dice.below(end.min(whole.len())));
            (whole, MESSAGE)
        }
        2 | 3 => {
            let end = if dice.one_in(2) { whole.len() } else { 1_200 };
            for _ in 0..=dice.below(3) {
                let place = dice.below(end.min(whole.len()));
                whole[place] ^= 1 << dice.below(8);
            }
            (whole, Expect::Any)
        }
        4 => {
            // A word that says how long or how many of something there are.
            let place = dice.below(whole.len() / 4) * 4;
            let words = [u32::MAX, i32::MAX as u32, 0, 1, 0x8000_0000, 0x4000_0000, 1 << 29];
            let word = dice.pick(&words).to_le_bytes();
            whole[place..place + 4].copy_from_slice(&word);
            (whole, Expect::Any)
        }
        5 => (claimed(dice, whole), Expect::Any),
        6 => {
            let more = dice.bytes(20);
            whole.extend_from_slice(&more);
            whole.push(0);
            (whole, Expect::Named("behind the end"))
        }
        7 => (no_stream(dice), MESSAGE),
        _ => misfit(dice),
    }
}

/// With another length claimed for what is packed.
fn claimed(dice: &mut Dice, mut whole: Vec<u8>) -> Vec<u8> {
    let claims = [1_i64 << 20, 1 << 29, 1 << 30, 1 << 50, i64::MAX, -2, i64::MIN, 1, 7];
    let lengths: Vec<usize> = (0..whole.len().saturating_sub(12))
        .step_by(8)
        .filter(|place| {
            let word = i64::from_le_bytes(whole[*place..*place + 8].try_into().unwrap());
            // A small number before the mark of a frame.
            (1..10_000).contains(&word)
                && matches!(
                    whole[*place + 8..*place + 12],
                    [0x04, 0x22, 0x4d, 0x18] | [0x28, 0xb5, 0x2f, 0xfd]
                )
        })
        .collect();
    if let Some(place) = lengths.get(dice.below(lengths.len())) {
        whole[*place..*place + 8].copy_from_slice(&dice.pick(&claims).to_le_bytes());
    }
    whole
}

fn no_stream(dice: &mut Dice) -> Vec<u8> {
    match dice.below(4) {
        0 => {
            let rows = rows(0..3, "b");
            let mut writer = FileWriter::try_new(Vec::new(), &rows.schema()).unwrap();
            writer.write(&rows).unwrap();
            writer.finish().unwrap();
            writer.into_inner().unwrap()
        }
        1 => Vec::new(),
        2 => b"{\"id\": 1}".to_vec(),
        // The end, and no schema.
        _ => [u32::MAX.to_le_bytes(), [0; 4]].concat(),
    }
}

/// Good streams of rows that do not fit, or fit by accident.
fn misfit(dice: &mut Dice) -> (Vec<u8>, Expect) {
    let mut columns = columns(200..204, "d");
    let mut expect = Expect::Any;
    match dice.below(16) {
        0 => {
            columns[0] = column("id", Arc::new(StringArray::from(vec!["a", "b", "c", "d"])));
            expect = Expect::Named("id");
        }
        1 => {
            columns[1] = column("name", Arc::new(Int64Array::from(vec![1, 2, 3, 4])));
            expect = Expect::Named("name");
        }
        2 => {
            columns[3] = column("v", vectors(0..4, 3));
            expect = Expect::Named("v");
        }
        3 => {
            columns.push(column("more", Arc::new(Int32Array::from(vec![1; 4]))));
            expect = Expect::Named("more");
        }
        4 => {
            let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(2), None]));
            columns[0] = (Field::new("id", DataType::Int64, true), ids);
            expect = Expect::Named("id");
        }
        5 => columns.reverse(),
        6 => columns.push(columns[1].clone()),
        7 => columns.clear(),
        8 => {
            columns.remove(dice.below(5));
        }
        9 => {
            let names: DictionaryArray<Int32Type> = ["a", "b", "a", "b"].into_iter().collect();
            columns[1] = column("name", Arc::new(names));
        }
        10 => {
            columns[1] = column(
                "name",
                Arc::new(StringViewArray::from(vec!["a", "b", "c", "a longer text than fits a view"])),
            )
        }
        11 => {
            let mut lists = ListBuilder::new(Float32Builder::new());
            (0..4).for_each(|length| lists.append_value(vec![Some(1.0); length]));
            columns[3] = column("v", Arc::new(lists.finish()));
        }
        12 => columns[2] = column("n", Arc::new(NullArray::new(4))),
        13 => columns[2] = column("n", Arc::new(UInt64Array::from(vec![u64::MAX; 4]))),
        14 => {
            let extension = [(
                "ARROW:extension:name".to_owned(),
                dice.pick(&["nope", "lance.blob", "arrow.json"]).to_owned(),
            )];
            columns[1].0 = columns[1].0.clone().with_metadata(extension.into());
        }
        _ => {
            let text = dice.odd_text();
            columns[2].0 = columns[2].0.clone().with_name(dice.pick(&["_rowid", "", "a.b", "ID", &text]));
        }
    }
    let batch = batch(columns);
    let sent = match dice.below(4) {
        // Columns without rows: they fit, or do not, all the same.
        0 if expect == Expect::Any => batch.slice(0, 0),
        _ => batch,
    };
    (stream(&[sent], Some(CompressionType::LZ4_FRAME)), expect)
}
