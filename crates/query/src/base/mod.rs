//! The base, asked by key.
//!
//! Owns: [`BaseLookup`], the key index of one base version and passes over its key columns; [`OnBase`], what
//! one shard's rows hide of a base version. Does not own: who hides whom, and which way of looking is cheaper
//! (`headwater_engine::shadow`). No key of the base is kept in memory: what is
//! found is kept, which is what newer rows replaced.

mod lookup;
mod on_base;
mod resolve;

pub(crate) use lookup::BaseLookup;
pub(crate) use on_base::OnBase;
