//! A frozen memtable: it takes no rows any more and waits to become an SSTable.
//!
//! Owns: [`FrozenMemtable`], what a flush needs of it, and whether it may be flushed. Does not own: the
//! flush. Rows of newer memtables may still mark rows here as replaced; what is persisted is computed at the
//! cut end(G) (P4) and does not see such marks. Keeps P9 with `flush`: no flush of rows that are not durable
//! or not indexed (lance#9035).

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use headwater_format::coord::{Generation, RowOffset, Seq, WalPosition};
use headwater_format::key::KeySchema;
use roaring::RoaringBitmap;

use super::active::Memtable;
use super::keys::BatchKeys;
use super::shared::IndexState;
use super::view::MemtableView;
use crate::index::MemIndex;
use crate::table::TableError;

/// A memtable that has ended. Clones are the same memtable.
#[derive(Clone, Debug)]
pub struct FrozenMemtable {
    inner: Arc<Memtable>,
}

impl FrozenMemtable {
    pub(super) fn new(memtable: Memtable) -> Self {
        Self { inner: Arc::new(memtable) }
    }

    /// Its generation.
    pub fn generation(&self) -> Generation {
        self.inner.generation()
    }

    /// The storage schema: `_tombstone` last.
    pub fn schema(&self) -> &SchemaRef {
        self.inner.schema()
    }

    /// The key, when the table has one.
    pub fn key(&self) -> Option<&KeySchema> {
        self.inner.key()
    }

    /// Rows, replaced ones included.
    pub fn rows(&self) -> u64 {
        self.inner.rows()
    }

    /// All rows in insert order, replaced ones included, in the storage schema.
    pub fn batches(&self) -> Vec<RecordBatch> {
        self.view().batches()
    }

    /// Offsets of rows replaced inside this generation: the deletion vector of its SSTable. What newer
    /// generations replace is not in it, whenever it is asked (P4, the cut end(G)).
    pub fn superseded(&self) -> RoaringBitmap {
        let lookup = self.inner.lookup.read();
        lookup.marks().replaced_before(self.inner.chunks.rows(), self.end_seq()).collect()
    }

    /// Logical bytes of all rows.
    pub fn payload_bytes(&self) -> u64 {
        self.inner.payload_bytes()
    }

    /// Logical bytes of all keys; none without a key.
    pub fn key_bytes(&self) -> Option<u64> {
        self.inner.key_bytes()
    }

    /// Bytes held.
    pub fn resident_bytes(&self) -> u64 {
        self.inner.resident_bytes()
    }

    /// Those of them that are no rows.
    pub fn index_bytes(&self) -> u64 {
        self.inner.index_bytes()
    }

    /// Charges what is held now, as [`Memtable::recharge`].
    pub fn recharge(&self) {
        self.inner.recharge();
    }

    /// The indexes carried along, the key index not among them.
    pub fn indexes(&self) -> &[Arc<dyn MemIndex>] {
        self.inner.indexes()
    }

    /// Which index kinds on which columns it carries and how far each has come: the key index first.
    pub fn describe(&self) -> Vec<IndexState> {
        self.inner.describe()
    }

    /// A view of all its rows.
    pub fn view(&self) -> MemtableView {
        self.inner.view()
    }

    /// Seq of the first row.
    pub fn first_seq(&self) -> Seq {
        self.inner.first_seq()
    }

    /// Seq after the last row: end(G), the cut of everything persisted for this generation.
    pub fn end_seq(&self) -> Seq {
        self.inner.end_seq()
    }

    /// The newest row with the key that `keys` has at `row`.
    pub fn newest(&self, keys: &BatchKeys, row: usize) -> Option<RowOffset> {
        self.inner.newest(keys, row)
    }

    /// Says that the row at `offset` was replaced by the row with Seq `by` of a newer memtable. The first Seq
    /// said stays; whether it was this one.
    pub fn supersede(&self, offset: RowOffset, by: Seq) -> bool {
        self.inner.lookup.read().marks().supersede(offset.get(), by)
    }

    /// Says that the rows of `keys`, which have Seqs from `first` on in a newer memtable, replace the rows of
    /// these keys here; how many rows it marked. To be called once per batch, in Seq order, before a reader
    /// may see the batch.
    pub fn supersede_all(&self, keys: &BatchKeys, first: Seq) -> usize {
        self.inner.lookup.read().supersede_all(keys, first)
    }

    /// Every row with a Seq below `end` is durable. Never goes back.
    pub fn set_durable_through(&self, end: Seq) {
        self.inner.set_durable_through(end);
    }

    /// Whether every row is durable.
    pub fn durable(&self) -> bool {
        self.inner.shared.durable_through() >= self.end_seq()
    }

    /// Rows of this memtable are in WAL entries up to `position`. Never goes back.
    pub fn set_last_position(&self, position: WalPosition) {
        self.inner.set_last_position(position);
    }

    /// Position of the last WAL entry with rows of this memtable: the replay cursor once it is published
    /// (P11). Final when [`durable`](Self::durable).
    pub fn last_position(&self) -> WalPosition {
        self.inner.last_position()
    }

    /// Whether every index it carries, the key index included, has applied every row (lance#9035).
    pub fn indexed(&self) -> bool {
        self.describe().iter().all(|index| u64::from(index.applied.get()) >= self.rows())
    }

    /// Whether it may be written as an SSTable: it has rows, all of them durable and applied to every index.
    ///
    /// # Errors
    /// [`TableError::Invalid`] says what is missing.
    pub fn check_complete(&self) -> Result<(), TableError> {
        let (generation, rows) = (self.generation(), self.rows());
        if rows == 0 {
            return Err(TableError::invalid(format!("generation {generation} has no rows to write")));
        }
        if !self.durable() {
            let (through, end) = (self.inner.shared.durable_through(), self.end_seq());
            return Err(TableError::invalid(format!(
                "generation {generation} is durable up to Seq {through}, not up to its end {end}; wait"
            )));
        }
        for index in self.describe() {
            if u64::from(index.applied.get()) < rows {
                let (name, applied) = (index.description.name, index.applied);
                return Err(TableError::invalid(format!(
                    "index {name} of generation {generation} has {applied} of {rows} rows applied; wait"
                )));
            }
        }
        Ok(())
    }
}
