//! One shard, step by step: what each call promises, on a seeded machine without random faults.

mod close;
mod corrupt;
mod fence;
mod flush;
mod memory;
mod publish;
mod put;
mod replay;
mod world;
