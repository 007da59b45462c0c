//! M1 and B2: what a memtable takes, counted by the allocator, and what it says it takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use headwater_engine::budget::MemoryBudget;
use headwater_engine::ingest::{Ingest, PreparedBatch};
use headwater_engine::memtable::Memtable;
use headwater_format::coord::{Generation, Seq};

use crate::memtable_support::{Key, Table, key_field, limits};

/// Bytes of the rows below: an int64 key and 100 bytes of text.
const ROW_BYTES: u64 = 108;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// Counts what each thread allocated and did not free, as glibc rounds it.
struct Counting;

fn count(sign: i64, size: usize) {
    let taken = (size + 8).next_multiple_of(16).max(32);
    HELD.with(|held| held.set(held.get() + sign * taken as i64));
}

#[allow(unsafe_code)]
// SAFETY: every call goes to the system allocator unchanged; counting touches only a thread-local cell that
// is built at compile time and has no destructor, so it neither allocates nor is ever gone.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size());
        // SAFETY: the caller's duties are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(-1, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `build` made, and the bytes it holds.
fn measured<T>(build: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.with(Cell::get);
    let built = build();
    let held = HELD.with(Cell::get) - before;
    (built, u64::try_from(held).unwrap())
}

/// Rows as people build them: by iterators, whose buffers grow by doubling.
fn batch(table: &Table, keys: std::ops::Range<i64>) -> PreparedBatch {
    let texts = keys.clone().map(|key| format!("{key:0>100}"));
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(keys.collect::<Int64Array>())),
        ("value", Arc::new(texts.map(Some).collect::<StringArray>())),
    ];
    table.ingest.rows(RecordBatch::try_from_iter(columns).unwrap()).unwrap()
}

fn filled(table: &Table, rows: i64, per_put: i64) -> (Memtable, u64) {
    measured(|| {
        let mut memtable = table.memtable(1, 1);
        for put in 0..rows / per_put {
            memtable.append(&batch(table, put * per_put..(put + 1) * per_put)).unwrap();
        }
        memtable
    })
}

fn per_payload_byte(memtable: &Memtable, held: u64) -> f64 {
    held as f64 / (memtable.rows() * ROW_BYTES) as f64
}

fn assert_counts_right(memtable: &Memtable, held: u64) {
    let said = memtable.resident_bytes() as f64;
    let off = (said - held as f64).abs() / held as f64;
    assert!(off < 0.1, "says {said}, holds {held}");
}

#[test]
fn one_row_puts_cost_less_than_two_resident_bytes_per_payload_byte() {
    let table = Table::new(Key::Int);
    for rows in [10_000, 100_000] {
        let (memtable, held) = filled(&table, rows, 1);
        let cost = per_payload_byte(&memtable, held);
        println!("{rows} rows by one-row puts: {cost:.3} resident bytes per payload byte");
        assert!(cost <= 2.0, "{cost}");
        assert_counts_right(&memtable, held);
    }
}

#[test]
fn thousand_row_puts_cost_less_than_1_3_resident_bytes_per_payload_byte() {
    let table = Table::new(Key::Int);
    // 115,000 rows: just after the key index doubled, where it costs the most.
    for rows in [10_000, 100_000, 115_000] {
        let (memtable, held) = filled(&table, rows, 1000);
        let cost = per_payload_byte(&memtable, held);
        println!("{rows} rows by 1,000-row puts: {cost:.3} resident bytes per payload byte");
        assert!(cost <= 1.3, "{cost}");
        assert_counts_right(&memtable, held);
    }
}

#[test]
fn a_memtable_of_one_row_is_small() {
    let table = Table::new(Key::Int);
    let (memtable, held) = filled(&table, 1, 1);
    assert_eq!(memtable.rows(), 1);
    println!("one row: {held} bytes");
    assert!(held < 64 << 10, "{held}");
}

#[test]
fn merged_string_views_do_not_hold_on_to_the_buffers_of_the_puts_they_came_in() {
    let base = Schema::new(vec![
        key_field("id", DataType::Int64, 1),
        Field::new("view", DataType::Utf8View, true),
        Field::new_list("views", Field::new_list_field(DataType::Utf8View, true), true),
    ]);
    let ingest = Ingest::new(&base, limits()).unwrap();
    let charge = MemoryBudget::new(1 << 40).charge(0);
    let (schema, key) = (ingest.schema().clone(), ingest.key().cloned());
    let mut memtable = Memtable::new(Generation::new(1), schema, key, Seq::new(1), Vec::new(), charge);
    for id in 0..2000 {
        let text = format!("{id:0>100}");
        let mut list = ListBuilder::new(StringViewBuilder::new());
        list.append_value([Some(text.as_str())]);
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(Int64Array::from(vec![id]))),
            ("view", Arc::new(StringViewArray::from(vec![text.as_str()]))),
            ("views", Arc::new(list.finish())),
        ];
        memtable.append(&ingest.rows(RecordBatch::try_from_iter(columns).unwrap()).unwrap()).unwrap();
    }
    for batch in memtable.view().batches() {
        let inner = batch.column(2).as_list::<i32>().values().clone();
        for views in [batch.column(1).as_string_view(), inner.as_string_view()] {
            let (rows, buffers) = (views.len(), views.data_buffers().len());
            assert!(buffers == 1, "{buffers} buffers for {rows} views");
            assert!(views.value(0).len() == 100);
        }
    }
}

#[test]
fn rows_that_replace_each_other_are_counted_right_too() {
    for key in [Key::Int, Key::Text, Key::Composite] {
        let table = Table::new(key);
        let (memtable, held) = measured(|| {
            let mut memtable = table.memtable(1, 1);
            for step in 0..20_000 {
                memtable
                    .append(&table.rows(&[(step % 100, "some text that is the value of this row")]))
                    .unwrap();
            }
            memtable
        });
        assert_counts_right(&memtable, held);
    }
}

#[test]
fn everything_is_given_back_when_the_last_view_is_gone() {
    let table = Table::new(Key::Int);
    let ((), held) = measured(|| {
        let (memtable, _) = filled(&table, 5000, 1);
        let view = memtable.view();
        drop(memtable);
        drop(view);
    });
    assert_eq!(held, 0);
}
