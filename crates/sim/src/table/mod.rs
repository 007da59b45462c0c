//! Model tables: a [`TableIo`](headwater_engine::table::TableIo) whose every file is an object of the fault
//! store.
//!
//! Owns: the files of a model SSTable and base, and reading them back. Does not own: real Lance files
//! (`headwater-lance`). A flush is as many numbered requests as a real one has files: data, deletion vector,
//! key sidecar, bloom filter and indexes side by side, the table manifest last. Every file ends in a checksum
//! over its path and bytes, so damage and mix-ups are typed errors.

mod files;
mod model;
mod reader;
mod sstable;

#[cfg(test)]
mod tests;

pub use files::{Files, unframe};
pub use model::ModelTables;
pub use reader::ModelSsTable;
pub use sstable::{Contents, FileNames, TableManifest, decode_batches, decode_offsets, encode_batches};
