//! What a backend must do for Headwater to be right on it, as a suite that runs against it.
//!
//! - [`run`], [`run_with`]: the suite; [`Options`], [`Report`], [`Nonconforming`]
//! - [`Lossy`]: a backend whose answers get lost
//!
//! The suite races creators for one path and counts winners, does the same while answers are lost, races
//! writers of one register, and checks reads, listings and deletions. It is run against memory, local disk
//! and a real S3 server; run it against a store of yours before you trust it with data.

mod basics;
mod lossy;
mod races;
mod report;
mod suite;

pub use lossy::{Injected, Lossy};
pub use report::{CheckReport, Nonconforming, Report};
pub use suite::{Options, run, run_with};
