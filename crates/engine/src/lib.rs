//! One shard of a Headwater table: from `put` to SSTable, through any crash.
//!
//! Folders are the path of a row: [`ingest`] shapes it, [`wal`] makes it durable, [`memtable`] makes it
//! visible, [`freeze`] and [`flush`] turn a memtable into an SSTable, [`manifest`] names it, [`snapshot`]
//! and [`shadow`] read it, and [`shard`] holds the one task that does all of this, event by event.
//!
//! Does not own: any file format (`headwater-format`), any object-store request (`headwater-store`), any
//! Lance file (behind [`table::TableIo`]) or search index (behind [`index::MemIndex`]).

pub mod budget;
pub mod error;
pub mod flush;
pub mod freeze;
pub mod hold;
pub mod index;
pub mod ingest;
pub mod manifest;
pub mod memtable;
pub mod plants;
pub mod settings;
pub mod shadow;
pub mod shard;
pub mod snapshot;
pub mod table;
pub mod wal;

pub use error::ShardError;
pub use settings::ShardSettings;
pub use shard::{Ack, Follower, Seal, Shard, ShardParts, ShardStats, ShardStatus, Ticket, WriteOptions};
pub use snapshot::{ReadLevel, ShardSnapshot, Unchanged};
