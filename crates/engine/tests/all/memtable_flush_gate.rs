//! P9, lance#9035: what may be flushed, and what a memtable says of its indexes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::RecordBatch;
use async_trait::async_trait;
use headwater_engine::budget::MemoryBudget;
use headwater_engine::index::{IndexDescription, IndexError, MemIndex};
use headwater_engine::memtable::Memtable;
use headwater_engine::table::TableError;
use headwater_format::coord::{Generation, RowOffset, Seq, WalPosition};

use crate::memtable_support::{Key, Table};

/// An index that is told how far it has come.
#[derive(Debug, Default)]
struct TardyIndex {
    applied: AtomicU32,
}

#[async_trait]
impl MemIndex for TardyIndex {
    fn describe(&self) -> IndexDescription {
        IndexDescription { name: "by_value".into(), kind: "btree".into(), columns: vec!["value".into()] }
    }

    async fn apply(&self, first: RowOffset, batch: &RecordBatch) -> Result<(), IndexError> {
        self.applied.store(first.get() + batch.num_rows() as u32, Ordering::Release);
        Ok(())
    }

    fn applied(&self) -> RowOffset {
        RowOffset::new(self.applied.load(Ordering::Acquire))
    }

    fn memory(&self) -> usize {
        1000 * self.applied.load(Ordering::Acquire) as usize
    }
}

fn memtable(table: &Table, index: &Arc<TardyIndex>) -> Memtable {
    let (schema, key) = (table.ingest.schema().clone(), table.ingest.key().cloned());
    let index: Arc<dyn MemIndex> = index.clone();
    let charge = MemoryBudget::new(1 << 30).charge(0);
    Memtable::new(Generation::new(4), schema, key, Seq::new(10), vec![index], charge)
}

fn refusal(result: Result<(), TableError>) -> String {
    match result {
        Err(TableError::Invalid { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_memtable_without_rows_is_not_flushed() {
    let frozen = Table::new(Key::Int).memtable(4, 10).freeze();
    assert!(refusal(frozen.check_complete()).contains("no rows"));
}

#[test]
fn a_memtable_with_undurable_rows_is_not_flushed() {
    let table = Table::new(Key::Int);
    let mut memtable = table.memtable(4, 10);
    memtable.append(&table.rows(&[(1, "a"), (2, "b")])).unwrap();
    memtable.set_durable_through(Seq::new(11));
    memtable.set_last_position(WalPosition::new(3));
    let frozen = memtable.freeze();
    assert!(!frozen.durable());
    assert!(refusal(frozen.check_complete()).contains("durable up to Seq 11, not up to its end 12"));
    frozen.set_durable_through(Seq::new(12));
    frozen.set_last_position(WalPosition::new(5));
    frozen.set_durable_through(Seq::new(11));
    assert!(frozen.durable(), "durability never goes back");
    assert_eq!(frozen.last_position(), WalPosition::new(5));
    assert!(frozen.check_complete().is_ok());
}

#[test]
fn lance_9035_a_memtable_with_rows_missing_in_an_index_is_not_flushed() {
    let table = Table::new(Key::Int);
    let index = Arc::new(TardyIndex::default());
    let mut memtable = memtable(&table, &index);
    let prepared = table.rows(&[(1, "a"), (2, "b")]);
    memtable.append(&prepared).unwrap();
    let frozen = memtable.freeze();
    frozen.set_durable_through(frozen.end_seq());
    index.applied.store(1, Ordering::Release);
    let reason = refusal(frozen.check_complete());
    assert!(reason.contains("by_value") && reason.contains("1 of 2"), "{reason}");
    futures::executor::block_on(index.apply(RowOffset::new(0), &prepared.batch)).unwrap();
    assert!(frozen.check_complete().is_ok());
}

#[test]
fn a_memtable_says_which_indexes_it_carries_and_how_far_each_has_come() {
    let table = Table::new(Key::Composite);
    let index = Arc::new(TardyIndex::default());
    let mut memtable = memtable(&table, &index);
    memtable.append(&table.rows(&[(1, "a"), (2, "b"), (3, "c")])).unwrap();
    index.applied.store(2, Ordering::Release);
    let described: Vec<(String, Vec<String>, u32)> = memtable
        .describe()
        .into_iter()
        .map(|state| (state.description.kind, state.description.columns, state.applied.get()))
        .collect();
    let key = ("key".to_owned(), vec!["name".to_owned(), "part".to_owned()], 3);
    assert_eq!(described, vec![key, ("btree".to_owned(), vec!["value".to_owned()], 2)]);
    assert_eq!(memtable.freeze().describe().len(), 2);
}

#[test]
fn memory_of_indexes_is_charged_when_it_is_asked_for() {
    let table = Table::new(Key::Int);
    let index = Arc::new(TardyIndex::default());
    let mut memtable = memtable(&table, &index);
    memtable.append(&table.rows(&[(1, "a")])).unwrap();
    let before = memtable.resident_bytes();
    index.applied.store(1, Ordering::Release);
    assert_eq!(memtable.resident_bytes(), before + 1000);
    memtable.recharge();
    let frozen = memtable.freeze();
    assert_eq!(frozen.resident_bytes(), before + 1000);
}
