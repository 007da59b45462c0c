//! Which rows of an older source newer rows hide: decided once per newer row, never again by a query.
//!
//! Owns: [`SourceKeys`], the exact key index of an SSTable; [`Shadow`], which of its rows were replaced, and
//! when; [`BaseShadow`], the same for the base, whose keys are not held; [`FreshKeys`], what has to be looked
//! for there, and [`choose_resolution`], how; [`Run`], newer rows in `Seq` order; [`HiddenRows`], a mask.
//! Does not own: reading keys from storage (`headwater-query` brings them), memtables' own marks
//! (`memtable`). Keeps P4 (keys are compared exactly, the first successor stays), P6 (a mask at S is the same
//! whenever it is asked for) and P8 (runs are fed without gaps).

mod base_shadow;
mod choose;
mod fresh;
mod hidden;
mod replaced;
mod runs;
mod shade;
mod source_keys;
#[cfg(test)]
mod tests;

pub use base_shadow::{BaseShadow, Tail};
pub use choose::{Resolution, are_selective, choose_resolution};
pub use fresh::FreshKeys;
pub use hidden::{HiddenRows, unmarked};
pub use runs::{Run, RunRows};
pub use shade::Shadow;
pub use source_keys::{SourceKeys, SourceKeysBuilder};
