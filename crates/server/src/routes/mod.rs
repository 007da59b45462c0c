//! The routes of the protocol, by what they are about.
//!
//! [`call`] is what every handler is told of its request. Handlers find the table, look what it is, and leave
//! the rest to `tables`.

pub mod call;
pub mod columns;
pub mod indexes;
pub mod query;
pub mod rows;
pub mod rte;
pub mod tables;
pub mod versions;
