//! From frozen memtable to published SSTable.
//!
//! Owns: when a flush may start ([`choose`], pure) and what one attempt does ([`attempt`]). Does not own: the
//! files (behind `TableIo`), the manifest transition (`manifest::publish`), retries and hand-over (the
//! conductor). Keeps P5, P9, P11, P12: complete before it is named, new names at each attempt, published in
//! order.

pub mod attempt;
pub mod choose;
