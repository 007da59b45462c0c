//! A world: one shard, its storage, and the processes that write and read it.
//!
//! Owns: putting the parts together, sending writes and reads from processes that may die in the middle, and
//! writing down what they were told. Does not own: which actions happen when (`scenario`), judging (`audit`,
//! `history`).

mod build;
mod follower;
mod options;
mod reading;
mod tally;
mod waiting;
mod writer;

pub use build::{ROOT, World, WorldConfig};
pub use follower::Reader;
pub use reading::Held;
pub use tally::Tally;
pub use waiting::{run_in, within};
pub use writer::{InFlight, OpenFailed, Writer};
