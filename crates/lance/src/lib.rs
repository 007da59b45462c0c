//! The one crate of Headwater that writes and commits Lance files.
//!
//! Owns: opening, creating and initialising base tables, their scalar indexes, SSTable directories, and the
//! implementation of the engine's table seam ([`headwater_engine::table::TableIo`]) on Lance. Does not own:
//! when anything is written (the engine decides), shard manifests and WAL entries (the `store` and `format`
//! crates write them), search indexes. Keeps P9 (a named SSTable is complete), P14 (typed errors), P15
//! (column identity is the field id), P16 (base commits keep what they do not change; derived paths use the
//! table's own store and credentials).
//!
//! Lance encodes and decodes on a tokio runtime, so a [`LanceTable`] is used under `TokioEnv` only.

mod bucket;
mod commit;
mod commit_handler;
mod create;
mod disable;
mod error;
mod indexes;
mod init;
mod key_index;
mod location;
mod marked;
mod mem_wal;
mod pin;
mod resolve;
mod schema;
mod serving;
mod sharding;
mod shards;
mod sstable;
mod storage_options;
mod table;
mod table_io;
mod verify;

pub use bucket::bucket_is_missing;
pub use error::{of_table as table_error, without_places};
pub use indexes::{IndexInfo, IndexKind};
pub use marked::{has_write_tier, mark_of};
pub use mem_wal::{INCARNATION, MemWal, WriterSpec};
pub use pin::BaseVersion;
pub use sharding::{ShardValue, Sharding};
pub use shards::ShardInfo;
pub use sstable::{SsTableFiles, retype_batch, retype_row};
pub use storage_options::{storage_option_names, takes_storage_option};
pub use table::{Connection, LanceTable, TableOptions};
pub use verify::{BaseCheck, FileFinding, KeyIndexCoverage, SsTableCheck, SsTableContext};
