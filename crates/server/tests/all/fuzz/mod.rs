//! Requests that are wrong in every way a generator can think of, and what must hold after each.
//!
//! [`dice`] is where chance comes from; [`grammar`] knows every route and what a good request of it looks
//! like; [`json`], [`arrow`], [`sql`] and [`address`] make one thing about it wrong; [`client`] sends it as
//! it is, byte for byte; [`world`] has the tables, and says whether they are as they were; [`run`] is
//! the test.
//! [`wire`] is below all that: what is not HTTP at all.
//!
//! `HEADWATER_HTTP_SEED=… HEADWATER_HTTP_CASES=…` run other cases, or more of them. Case n of seed s is case
//! 0 of seed s + n, so that a failure is seen again with the two values it prints.

// What it finds is told where it is found: most of it is looked at by hand.
#![allow(clippy::print_stderr)]

mod address;
mod arrow;
mod client;
mod dice;
pub mod grammar;
mod json;
mod run;
mod sql;
mod wire;
mod world;

pub use dice::Dice;
