//! The library on real Lance tables: through crashes, over shards, on broken storage, and with pylance as a
//! peer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod adoption;
mod bad_storage;
mod base_reads;
mod base_refresh;
mod bucket;
mod complete;
mod conditional;
mod damaged_reads;
mod disk_full;
mod durability;
mod early_stop;
mod fencing;
mod fixtures;
mod flushing;
mod following;
mod indexes;
mod init;
mod inspect;
mod interop;
mod opening;
mod pinned;
#[path = "../../../store/tests/all/python.rs"]
mod python;
mod queries;
mod random_sql;
mod reads;
mod requests;
mod router;
mod routing;
mod schema_change;
mod settings;
mod sql;
mod support;
mod updates;
mod vector_search;
mod vector_types;
mod verify;
mod writer_defaults;
