//! The library on real Lance tables: through crashes, over shards, on broken storage, and with pylance as a
//! peer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod bad_storage;
mod complete;
mod disk_full;
mod durability;
mod fencing;
mod fixtures;
mod init;
mod inspect;
mod opening;
mod peers;
mod router;
mod routing;
mod settings;
mod support;
