//! The base, asked by key.
//!
//! Owns: [`BaseLookup`], the key index of one base version and passes over its key columns; which of both
//! finds some keys cheaper ([`choose_resolution`]); [`OnBase`], what one shard's rows hide of a base version.
//! Does not own: who hides whom (`headwater_engine::shadow`). No key of the base is kept in memory: what is
//! found is kept, which is what newer rows replaced.

mod choose;
mod lookup;
mod on_base;
mod resolve;

pub(crate) use lookup::BaseLookup;
pub(crate) use on_base::OnBase;
