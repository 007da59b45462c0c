//! House rules a compiler does not know. `cargo xtask tidy` says them, and an ordinary test does too.
//!
//! Owns: one module a family of rules, each a pure function from text to findings. Does not own: reading
//! files ([`crate::workspace`]), telling code from comments ([`crate::source`]).

mod check;
pub mod heads;
pub mod invariants;
pub mod manifests;
pub mod names;
pub mod places;
pub mod sizes;

pub use check::check;
