//! One shard, written by one process: the handle people call, and the one task behind it.
//!
//! - [`Shard`] (`handle`): what callers see; shapes rows on the caller's task, then posts an event.
//! - `open`: claim, recover, start. `reopen`: the same, after a failure stopped the writer here.
//! - [`Follower`] (`follow`): read without claiming, on and on.
//! - `options`: what may go with a write besides its rows. `admission`: whether it is written, which `tokens`
//!   and the memtables decide.
//! - `conductor`: the task that owns everything that changes, one [`event`](event::Event) at a time.
//! - `tiers`: the memtables, newest-wins between them, and replay into them.
//! - `state`: what conductor and readers share behind one lock.
//!
//! Keeps P1 to P7 in this process; see each file.

mod admission;
mod conductor;
mod context;
mod event;
mod failure;
mod flushing;
mod follow;
mod gather;
mod handle;
mod histogram;
mod indexer;
mod logging;
mod open;
mod options;
mod reopen;
mod replay;
mod state;
mod stats;
mod task_slot;
mod ticket;
mod tiers;
mod tokens;

pub use context::ShardParts;
pub use follow::Follower;
pub use handle::{Seal, Shard};
pub use histogram::Histogram;
pub use options::WriteOptions;
pub use stats::{Counters, ShardStats, ShardStatus};
pub use ticket::{Ack, Ticket, Untold};
