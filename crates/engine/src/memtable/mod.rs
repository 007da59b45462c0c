//! The memtable: rows of one generation, in memory, readable at every `Seq`.
//!
//! Owns: the append log of rows, the exact-key index, who replaced whom (`superseded_by`, predecessor),
//! freezing and views. Does not own: when to freeze (`freeze`), what is durable (the conductor tells it),
//! search indexes (it carries them; the conductor's tasks apply rows to them), or rows of other generations.
//!
//! One writer, the conductor, behind a lock; any number of readers through [`MemtableView`]s, which read on
//! while the writer goes on. Keeps P4 (newest wins, by exact key) and its share of P6 (a view at S never
//! changes).

mod active;
mod chunks;
mod frozen;
mod key_index;
mod keys;
mod lookup;
mod marks;
mod shared;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use key_index::KeyIndex;
pub(crate) use keys::KeyHash;

pub use active::Memtable;
pub use frozen::FrozenMemtable;
pub use keys::{BatchKeys, ByteKeys, IntKeys};
pub use shared::IndexState;
pub use view::{MemtableView, Place};
