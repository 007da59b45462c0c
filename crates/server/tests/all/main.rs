//! The server as clients use it: over HTTP, on a port of this machine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod bad_input;
mod changes;
mod clients;
mod names;
mod queries;
mod replays;
mod rows;
mod support;
mod tiers;
