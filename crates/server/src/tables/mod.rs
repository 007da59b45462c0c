//! Tables as the protocol knows them.
//!
//! [`open`] is a table that is open, whatever it is; [`plain`] does what Lance does, [`spec`] what the write
//! tier does; [`replays`] makes a request that comes again harmless.

pub mod open;
pub mod plain;
pub mod replays;
pub mod spec;

pub use open::{Kind, OpenTable};
