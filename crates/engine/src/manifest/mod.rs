//! The shard manifest as a writer uses it: created once, claimed by a new epoch, moved on by each publish.
//!
//! Owns: the rules of each transition. Does not own: the register's CAS and lost answers (`headwater-store`),
//! the bytes (`headwater-format`). Keeps P7, P11, P12.

mod claim;
mod create;
mod publish;

pub use claim::claim;
pub use create::create_shard;
pub use publish::{Publish, Published, next_manifest};
