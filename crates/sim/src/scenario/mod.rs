//! Scenarios: what people, processes and the machine do to one shard, drawn from a seed.
//!
//! * `churn`: puts, deletes, seals, snapshots, crashes, reopens and now and then a second writer, under all
//!   faults.
//! * `fencing`: several processes claim the shard at every moment; stalled ones wake up and write and read
//!   on.
//! * `counter`: one increasing number per key; what a session reads never falls (an append register).
//! * `increment`: many read a few keys and put them again if nobody else did; no update is lost.
//! * `retry`: puts with client tokens are sent again, and again, at any time; each is there once.
//! * `following`: processes that never claim read beside writers that rotate, flush, crash and are fenced;
//!   what was acknowledged before a read began is in it.
//!
//! Each ends by clearing the faults and demanding that everything drains (L1, L2, L5, L6), and then reads all
//! rows back from a fresh process. A run that fails prints the command that replays it, its event log and
//! store trace.
//!
//! Owns: [`run_seed`], [`Scenario`], [`Report`]. Does not own: judging (`audit`, `history`).

mod counters;
mod drain;
mod driver;
mod profile;
mod report;
mod run;
mod weather;

#[cfg(test)]
mod tests;

pub use counters::check_counters;
pub(crate) use driver::Driver;
pub use report::Report;
pub use run::{Options, Scenario, run_seed};
