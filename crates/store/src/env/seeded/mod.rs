//! A seeded single-thread executor: the [`Env`](super::Env) of simulations.
//!
//! Owns: which ready task runs next (drawn at random from the seed), a manual clock that moves only when
//! nothing is ready, timers, the randomness handed to tasks, and the trace that two runs of one seed must
//! share. Does not own: storage, faults, scenarios (crate `headwater-sim`).
//!
//! * [`SeededEnv`] is the machine. It is itself an `Env`: its own tasks belong to the root process.
//! * [`SeededProcess`] is one process on it: an `Env` whose tasks can be dropped all at once (`crash`) or
//!   left unpolled for a while (`pause`, `resume`), as a stalled writer is.
//!
//! Nothing here reads a real clock, spawns a thread or uses ambient randomness; a run is a function of its
//! seed. Called by: tests of every crate, and by the scenarios of `headwater-sim`.

mod executor;
mod machine;
mod process;
mod trace;

#[cfg(test)]
mod tests;

pub use machine::{SeededEnv, Stuck};
pub use process::SeededProcess;
pub use trace::Trace;
