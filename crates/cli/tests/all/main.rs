//! The `headwater` command as people and scripts run it: its output, its errors, its exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod errors;
mod flush_and_inspect;
mod index;
mod ingest;
mod init;
mod inputs;
mod kill_and_resume;
mod locations;
mod maps;
mod ndjson_values;
mod on_a_terminal;
#[path = "../../../store/tests/all/python.rs"]
mod python;
mod reads;
mod repeats;
mod restarts;
mod s3;
#[path = "../../../store/tests/all/s3_server.rs"]
mod s3_server;
mod serve;
mod serving;
mod sql;
mod support;
mod verify;
