//! LanceDB's Rust client 0.41 and a table with a write tier, under the names that this version has for it.

mod reads;
mod spec;
mod support;
mod writes;
