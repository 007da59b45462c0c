//! The active memtable: rows are added here.
//!
//! Owns: [`Memtable`]. Does not own: the order of rows (whoever appends decides it) and what older memtables
//! hold of the same keys (the conductor asks each frozen one). Called by the conductor only, under its lock.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use headwater_format::coord::{Generation, RowOffset, Seq, WalPosition};
use headwater_format::key::KeySchema;
use headwater_format::schema::logical_schema;
use parking_lot::RwLock;

use super::chunks::Chunks;
use super::frozen::FrozenMemtable;
use super::keys::{BatchKeys, KeyHash};
use super::lookup::Lookup;
use super::shared::{IndexState, Shared};
use super::view::MemtableView;
use crate::budget::Charge;
use crate::hold::{Violation, hold};
use crate::index::{IndexDescription, MemIndex};
use crate::ingest::PreparedBatch;

/// The memtable that takes rows.
#[derive(Debug)]
pub struct Memtable {
    pub(super) shared: Arc<Shared>,
    pub(super) chunks: Chunks,
    pub(super) lookup: Arc<RwLock<Lookup>>,
    pub(super) indexes: Vec<Arc<dyn MemIndex>>,
    pub(super) payload_bytes: u64,
    pub(super) key_bytes: u64,
}

impl Memtable {
    /// An empty memtable of `generation`. `schema` is the storage schema, `first_seq` the Seq its first row
    /// gets. `indexes` are carried along: rows are applied to them by the caller. `charge` follows its
    /// resident bytes and is given back when the memtable, its frozen form and all its views are gone.
    pub fn new(
        generation: Generation,
        schema: SchemaRef,
        key: Option<KeySchema>,
        first_seq: Seq,
        indexes: Vec<Arc<dyn MemIndex>>,
        charge: Charge,
    ) -> Self {
        Self::with_hash(generation, schema, key, first_seq, indexes, charge, KeyHash::default())
    }

    pub(super) fn with_hash(
        generation: Generation,
        schema: SchemaRef,
        key: Option<KeySchema>,
        first_seq: Seq,
        indexes: Vec<Arc<dyn MemIndex>>,
        charge: Charge,
        hash: KeyHash,
    ) -> Self {
        let logical = logical_schema(&schema);
        let chunks = Chunks::new(Arc::clone(&schema));
        let shared = Shared::new(generation, schema, logical, key, first_seq, charge);
        Self {
            shared: Arc::new(shared),
            chunks,
            lookup: Arc::new(RwLock::new(Lookup::new(hash))),
            indexes,
            payload_bytes: 0,
            key_bytes: 0,
        }
    }

    /// Adds the rows of `prepared` after all others; the row at offset `o` has Seq `first_seq + o`. Each row
    /// replaces the newest earlier row of its key (P4). Nothing is appended for an empty batch.
    ///
    /// # Errors [`Violation`] when the rows cannot be of this memtable (schema, form of keys, too many rows)
    /// or the marks contradict the key index. The memtable must not be used after that.
    pub fn append(&mut self, prepared: &PreparedBatch) -> Result<Range<RowOffset>, Violation> {
        let rows = prepared.rows();
        let first = self.chunks.rows();
        let end =
            u32::try_from(rows).ok().and_then(|rows| first.checked_add(rows)).filter(|end| *end < u32::MAX);
        let Some(end) = end else {
            return Err(Violation::new("P4", format!("{rows} rows do not fit after {first} rows")));
        };
        self.check_fits(prepared)?;
        if rows > 0 {
            self.lookup.write().add(first, end, &prepared.keys, |offset| self.shared.seq(offset))?;
            self.chunks.push(prepared.batch.clone(), prepared.payload_bytes, prepared.resident_bytes);
            self.payload_bytes += prepared.payload_bytes;
            self.key_bytes += prepared.key_bytes;
            self.shared.charge.set(self.resident_bytes());
        }
        Ok(RowOffset::new(first)..RowOffset::new(end))
    }

    fn check_fits(&self, prepared: &PreparedBatch) -> Result<(), Violation> {
        let schema = prepared.batch.schema_ref();
        let same = Arc::ptr_eq(schema, &self.shared.schema) || **schema == *self.shared.schema;
        hold!(P15, same, "rows have another schema than memtable {}", self.generation());
        let keyed = self.shared.key.is_some();
        let wanted = if keyed { prepared.rows() } else { 0 };
        hold!(P4, prepared.keys.len() == wanted, "{} keys, not {wanted}", prepared.keys.len());
        Ok(())
    }

    /// The newest row with the key that `keys` has at `row`.
    pub fn newest(&self, keys: &BatchKeys, row: usize) -> Option<RowOffset> {
        self.lookup.read().newest(keys, row)
    }

    /// The row of this memtable which the row at `offset` replaced.
    pub fn predecessor(&self, offset: RowOffset) -> Option<RowOffset> {
        self.lookup.read().predecessor(offset.get())
    }

    /// A view of the rows there are now.
    pub fn view(&self) -> MemtableView {
        MemtableView {
            shared: Arc::clone(&self.shared),
            chunks: self.chunks.clone(),
            marks: self.lookup.read().marks().clone(),
            lookup: Arc::clone(&self.lookup),
        }
    }

    /// Ends this memtable. What is known of its durability goes along.
    pub fn freeze(self) -> FrozenMemtable {
        FrozenMemtable::new(self)
    }

    /// Its generation.
    pub fn generation(&self) -> Generation {
        self.shared.generation
    }

    /// The storage schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.shared.schema
    }

    /// The key, when the table has one.
    pub fn key(&self) -> Option<&KeySchema> {
        self.shared.key.as_ref()
    }

    /// Rows, replaced ones included.
    pub fn rows(&self) -> u64 {
        u64::from(self.chunks.rows())
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// Different keys among the rows; 0 without a key.
    pub fn distinct_keys(&self) -> usize {
        self.lookup.read().distinct()
    }

    /// Seq of the first row.
    pub fn first_seq(&self) -> Seq {
        self.shared.first_seq
    }

    /// Seq after the last row: the Seq the next row gets.
    pub fn end_seq(&self) -> Seq {
        self.shared.seq(self.chunks.rows())
    }

    /// Logical bytes of all rows.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Logical bytes of all keys; none without a key.
    pub fn key_bytes(&self) -> Option<u64> {
        self.key().map(|_| self.key_bytes)
    }

    /// Bytes held: rows with the buffers they pin, key index, marks, and the indexes carried along.
    pub fn resident_bytes(&self) -> u64 {
        self.chunks.bytes() + self.index_bytes()
    }

    /// Those of them that are no rows: key index, marks, and the indexes carried along.
    pub fn index_bytes(&self) -> u64 {
        let indexes: usize = self.indexes.iter().map(|index| index.memory()).sum();
        self.lookup.read().bytes() + indexes as u64
    }

    /// Charges what is held now: indexes grow when rows are applied to them, which is not here.
    pub fn recharge(&self) {
        self.shared.charge.set(self.resident_bytes());
    }

    /// The indexes carried along, the key index not among them.
    pub fn indexes(&self) -> &[Arc<dyn MemIndex>] {
        &self.indexes
    }

    /// Which index kinds on which columns it carries and how far each has come: the key index first.
    pub fn describe(&self) -> Vec<IndexState> {
        let key = self.key().map(|key| IndexState {
            description: IndexDescription {
                name: "key".into(),
                kind: "key".into(),
                columns: key.columns().iter().map(|column| column.name.clone()).collect(),
            },
            // Keys are added together with their rows.
            applied: RowOffset::new(self.chunks.rows()),
            memory: self.lookup.read().key_bytes(),
        });
        let others = self.indexes.iter().map(|index| IndexState {
            description: index.describe(),
            applied: index.applied(),
            memory: index.memory() as u64,
        });
        key.into_iter().chain(others).collect()
    }

    /// Every row with a Seq below `end` is durable. Never goes back.
    pub fn set_durable_through(&self, end: Seq) {
        self.shared.set_durable_through(end);
    }

    /// Rows of this memtable are in WAL entries up to `position`. Never goes back.
    pub fn set_last_position(&self, position: WalPosition) {
        self.shared.set_last_position(position);
    }

    /// Position of the last WAL entry with rows of this memtable; `ZERO` when there is none yet.
    pub fn last_position(&self) -> WalPosition {
        self.shared.last_position()
    }
}
