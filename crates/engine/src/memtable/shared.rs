//! What a memtable, its frozen form and its views have in common.
//!
//! Owns: [`Shared`] (who it is, how far it is durable, what it is charged for) and [`IndexState`]. Does not
//! own rows. The charge is given back when the last view is gone, not before (B2: snapshots count).

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::SchemaRef;
use headwater_format::coord::{Generation, RowOffset, Seq, WalPosition};
use headwater_format::key::KeySchema;

use crate::budget::Charge;
use crate::index::IndexDescription;

/// Fixed facts and shared counters of one generation.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) generation: Generation,
    pub(crate) schema: SchemaRef,
    pub(crate) logical: SchemaRef,
    pub(crate) key: Option<KeySchema>,
    pub(crate) first_seq: Seq,
    pub(crate) charge: Charge,
    durable_through: AtomicU64,
    last_position: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        generation: Generation,
        schema: SchemaRef,
        logical: SchemaRef,
        key: Option<KeySchema>,
        first_seq: Seq,
        charge: Charge,
    ) -> Self {
        let (durable_through, last_position) = (AtomicU64::new(first_seq.get()), AtomicU64::new(0));
        Self { generation, schema, logical, key, first_seq, charge, durable_through, last_position }
    }

    pub(crate) fn set_durable_through(&self, end: Seq) {
        self.durable_through.fetch_max(end.get(), Ordering::AcqRel);
    }

    pub(crate) fn durable_through(&self) -> Seq {
        Seq::new(self.durable_through.load(Ordering::Acquire))
    }

    pub(crate) fn set_last_position(&self, position: WalPosition) {
        self.last_position.fetch_max(position.get(), Ordering::AcqRel);
    }

    pub(crate) fn last_position(&self) -> WalPosition {
        WalPosition::new(self.last_position.load(Ordering::Acquire))
    }

    /// Seq of the row at `offset`.
    pub(crate) fn seq(&self, offset: u32) -> Seq {
        self.first_seq.plus(u64::from(offset))
    }
}

/// An index of a memtable and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexState {
    /// Which kind on which columns.
    pub description: IndexDescription,
    /// Rows with offsets below this are applied.
    pub applied: RowOffset,
    /// Resident bytes.
    pub memory: u64,
}
