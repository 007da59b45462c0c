//! The simulation as tests: determinism first, then many seeds, the request sweep, planted faults, and seeds
//! that failed once.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, missing_docs)]

mod control;
mod determinism;
mod flush;
mod plants;
mod regressions;
mod seeds;
mod shard;
mod sweep;
