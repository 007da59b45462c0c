//! The server as clients use it: over HTTP, on a port of this machine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod bad_input;
mod changes;
mod clients;
mod names;
mod ops;
mod queries;
mod replays;
mod rows;
mod support;
mod tiers;
