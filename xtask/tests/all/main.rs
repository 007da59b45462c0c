//! Tests of the checks, and the checks themselves as tests of this workspace.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

mod heads;
mod invariants;
mod licences;
mod manifests;
mod names;
mod places;
mod sizes;
mod source;
mod workspace;
