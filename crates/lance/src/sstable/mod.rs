//! SSTable directories: one immutable generation of a shard as a Lance dataset of one fragment, at version 1.
//!
//! ```text
//! {8 hex}_gen_{g}/
//! ├── data/{name}.lance            every physical row in insert order, with the base's field ids
//! ├── _deletions/0-1-*.bin         rows replaced inside the generation
//! ├── _pk_index/{page_data,page_lookup}.lance   key → row offset, replaced rows included
//! ├── bloom_filter.bin             split-block bloom filter over key hashes
//! └── _versions/….manifest         written last: without it the directory is not a dataset
//! ```
//!
//! Owns: these files, written and read. Does not own: when they are named (the engine's publish).
//! Keeps P9 (a named SSTable is complete) and P15 (columns are known by field id). Called by the
//! table's `TableIo`.

mod attempts;
mod bloom;
mod cache;
mod columns;
mod layout;
mod reader;
mod retype;
mod sidecar;
mod write;

pub(crate) use attempts::FailedAttempts;
pub(crate) use cache::ReaderCache;
pub(crate) use layout::{BLOOM_NAME, Layout};
pub use reader::SsTableFiles;
pub use retype::{retype_batch, retype_row};

pub(crate) use reader::{OpenFiles, column_difference};
pub(crate) use write::{Target, write};
