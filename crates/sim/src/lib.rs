//! Deterministic simulation of a Headwater shard: the real format, store and engine code on a seeded machine,
//! over storage that fails.
//!
//! Owns: the fault store ([`fault`]), model tables and a slow index behind the engine's seams ([`table`],
//! [`index`]), rows that say who wrote them ([`rows`]), the auditor of storage ([`audit`]), the record and
//! check of what clients were told ([`history`]), the scenarios ([`scenario`]) and the request sweep
//! ([`sweep`]).
//!
//! Does not own: the machine itself (`headwater_store::env::SeededEnv`). Never used by a product crate.
//!
//! A run is a function of its seed: everything random comes from the machine, and nothing iterates over a map
//! in random order. `cargo run -p headwater-sim -- churn --seed 7` replays a run with its event log.

pub mod audit;
pub mod fault;
pub mod history;
pub mod index;
pub mod rows;
pub mod scenario;
pub mod sweep;
pub mod table;
mod violation;
pub mod world;

pub use violation::Violation;
