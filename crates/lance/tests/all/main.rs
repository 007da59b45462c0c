//! Tests of `headwater-lance` through its public API, on local disk and on Lance's in-memory store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

mod adoption;
mod append_only;
mod confirming;
mod creating;
mod failed_attempts;
mod foreign;
mod hurdles;
mod initialising;
mod key_types;
mod layer;
mod locations;
mod places;
mod reading;
mod recorder;
mod schema_changes;
mod sstable_files;
mod storage_options;
mod support;
mod write_refusals;
