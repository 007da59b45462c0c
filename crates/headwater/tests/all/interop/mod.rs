//! Interoperability with pylance 14.0.2, an engine nobody here wrote: each reads, replays, takes over and
//! fences what the other wrote. The list is a table in docs/reliability.md.

mod fences;
mod limits;
mod peer;
mod tables;
mod they_read_ours;
mod they_take_over;
mod tokens;
mod we_take_over;
