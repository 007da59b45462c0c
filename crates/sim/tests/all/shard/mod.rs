//! One shard, step by step: what each call promises, on a seeded machine without random faults.

mod close;
mod conditions;
mod corrupt;
mod fence;
mod flush;
mod follow;
mod indexes;
mod memory;
mod publish;
mod put;
mod reopen;
mod replay;
mod stop;
mod tokens;
mod world;
