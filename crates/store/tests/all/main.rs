//! Tests of `headwater-store` from outside, one binary.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, missing_docs)]

mod conforming;
mod local_disk;
mod put_once;
#[cfg(feature = "aws")]
mod python;
mod reads;
mod register;
mod s3;
#[cfg(feature = "aws")]
mod s3_server;
mod scripted;
