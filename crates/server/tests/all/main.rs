//! The server as clients use it: over HTTP, on a port of this machine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod bad_input;
mod changes;
mod clients;
mod fixtures;
mod flushing;
mod fuzz;
mod names;
mod ops;
#[path = "../../../store/tests/all/python.rs"]
mod python;
mod queries;
mod replays;
mod rows;
mod s3;
#[path = "../../../store/tests/all/s3_server.rs"]
mod s3_server;
mod support;
mod tiers;
