//! Tests of the format from outside: against what the reference implementation wrote, and against anything at
//! all.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod any_bytes;
mod any_rows;
mod goldens;
