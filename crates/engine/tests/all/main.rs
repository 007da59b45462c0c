//! Integration tests of the engine: one binary, one module a subject.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout
)]

mod freeze_policy;
mod freeze_settings;
mod ingest_copies;
mod ingest_nulls;
mod ingest_refusals;
mod ingest_shape;
mod memtable_budget;
mod memtable_flush_gate;
mod memtable_memory;
mod memtable_model;
mod memtable_newest_wins;
mod memtable_support;
mod memtable_views;
