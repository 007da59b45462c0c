//! P6: a view reads the same whatever the writer does after it was taken.

use std::sync::Arc;

use arrow_array::Array;
use headwater_engine::memtable::MemtableView;
use headwater_format::coord::{RowOffset, Seq};

use crate::memtable_support::{Key, Table, row};

#[test]
fn a_view_reads_the_same_while_its_rows_are_merged_replaced_and_frozen() {
    let table = Table::new(Key::Int);
    let mut memtable = table.memtable(1, 1);
    let mut views: Vec<MemtableView> = Vec::new();
    for step in 0..3000_i64 {
        // Every third row replaces an older one.
        let key = if step % 3 == 2 { step / 3 } else { step };
        memtable.append(&table.rows(&[(key, &format!("value {step}"))])).unwrap();
        if step % 97 == 0 {
            views.push(memtable.view());
        }
    }
    let first_reads: Vec<_> =
        views.iter().map(|view| table.read(&view.live(view.end_seq()).unwrap())).collect();
    let last = memtable.view();
    let frozen = memtable.freeze();
    frozen.supersede_all(&table.rows(&[(0, "x"), (1, "y")]).keys, frozen.end_seq());
    for (view, first) in views.iter().zip(&first_reads) {
        let at = view.end_seq();
        assert_eq!(&table.read(&view.live(at).unwrap()), first);
        assert_eq!(&table.read(&last.live(at).unwrap()), first, "a later view tells the past the same way");
        assert_eq!(&table.read(&frozen.view().live(at).unwrap()), first);
    }
}

#[test]
fn a_batch_nobody_replaced_is_handed_out_without_a_copy() {
    let table = Table::new(Key::Int);
    let mut memtable = table.memtable(1, 1);
    let text = "t".repeat(100);
    let rows: Vec<(i64, &str)> = (0..2000).map(|key| (key, text.as_str())).collect();
    let prepared = table.rows(&rows);
    memtable.append(&prepared).unwrap();
    let view = memtable.view();
    let start = |batch: &arrow_array::RecordBatch| batch.column(1).to_data().buffers()[1].as_ptr();
    let visible = view.visible(view.end_seq()).unwrap();
    assert_eq!(start(&visible[0]), start(&prepared.batch));
    let half = view.visible(Seq::new(1001)).unwrap();
    assert_eq!((half[0].num_rows(), start(&half[0])), (1000, start(&prepared.batch)));
    assert_eq!(start(&view.live(view.end_seq()).unwrap()[0]), start(&prepared.batch));
}

#[test]
fn a_view_before_its_first_row_is_empty_and_past_its_end_is_whole() {
    let table = Table::new(Key::Int);
    let mut memtable = table.memtable(3, 100);
    memtable.append(&table.rows(&[(1, "a"), (2, "b")])).unwrap();
    let view = memtable.view();
    assert_eq!(
        (view.rows_at(Seq::ZERO), view.rows_at(Seq::new(100)), view.rows_at(Seq::new(101))),
        (0, 0, 1)
    );
    assert_eq!(view.rows_at(Seq::MAX), 2);
    assert!(view.visible(Seq::new(100)).unwrap().is_empty());
    assert_eq!(table.read(&view.visible(Seq::MAX).unwrap()), vec![row(1, "a"), row(2, "b")]);
    assert_eq!((view.first_seq(), view.end_seq()), (Seq::new(100), Seq::new(102)));
    assert_eq!(view.superseded_by(RowOffset::new(7)), Seq::MAX);
    assert_eq!(view.predecessor(RowOffset::new(7)), None);
}

#[test]
fn live_rows_have_the_logical_schema_with_the_nullability_of_the_base() {
    let table = Table::new(Key::Int);
    let mut memtable = table.memtable(1, 1);
    memtable.append(&table.rows(&[(1, "a")])).unwrap();
    memtable.append(&table.deletes(&[1])).unwrap();
    memtable.append(&table.rows(&[(2, "b")])).unwrap();
    let view = memtable.view();
    let live = view.live(view.end_seq()).unwrap();
    let schema = live[0].schema();
    assert!(Arc::ptr_eq(&schema, view.logical_schema()));
    assert!(schema.column_with_name("_tombstone").is_none());
    assert!(!schema.field_with_name("value").unwrap().is_nullable());
    assert!(view.schema().field_with_name("value").unwrap().is_nullable());
    assert!(live.iter().all(|batch| batch.columns().iter().all(|column| column.null_count() == 0)));
}

#[test]
fn many_small_puts_end_up_in_few_batches_in_insert_order() {
    let table = Table::new(Key::Int);
    let mut memtable = table.memtable(1, 1);
    let text = "t".repeat(100);
    for key in 0..10_000 {
        memtable.append(&table.rows(&[(key, &text)])).unwrap();
        if key == 500 {
            // A batch that is kept as it came ends the pieces before it.
            let rows: Vec<(i64, &str)> = (100_000..101_000).map(|key| (key, text.as_str())).collect();
            memtable.append(&table.rows(&rows)).unwrap();
        }
    }
    let batches = memtable.view().batches();
    let sizes: Vec<usize> = batches.iter().map(arrow_array::RecordBatch::num_rows).collect();
    assert!(batches.len() < 60, "{sizes:?}");
    let keys: Vec<i64> = table.read(&batches).into_iter().map(|(key, _, _)| key).collect();
    let expected: Vec<i64> = (0..=500).chain(100_000..101_000).chain(501..10_000).collect();
    assert_eq!(keys, expected);
}

#[test]
fn readers_on_other_threads_read_one_batch_whole_or_not_at_all() {
    let table = Table::new(Key::Int);
    let memtable = parking_lot::Mutex::new(table.memtable(1, 1));
    const ROUNDS: i64 = 400;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while last < ROUNDS {
                    let view = memtable.lock().view();
                    let live = table.read(&view.live(view.end_seq()).unwrap());
                    let values: Vec<i64> =
                        live.iter().map(|(_, value, _)| value.as_deref().unwrap().parse().unwrap()).collect();
                    // Each round replaces the same three keys with its number.
                    assert!(values.is_empty() || values.len() == 3, "{values:?}");
                    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{values:?}");
                    let now = values.first().copied().unwrap_or(0);
                    assert!(now >= last, "went back from {last} to {now}");
                    last = now;
                }
            });
        }
        for round in 1..=ROUNDS {
            let value = round.to_string();
            memtable.lock().append(&table.rows(&[(1, &value), (2, &value), (3, &value)])).unwrap();
        }
    });
}
