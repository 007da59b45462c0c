//! Tables, or bases of tables, as Lance has them.
//!
//! [`scan`] reads, [`write`] adds and merges rows, [`change`] updates and deletes them, [`columns`] changes
//! columns, [`index`] makes and lists indexes, [`describe`] says what there is. Every commit is Lance's own.
//! [`sql`] and [`caught`] are about what Lance must not be given, and what it makes of some of the rest.

pub mod caught;
pub mod change;
pub mod columns;
pub mod describe;
pub mod index;
pub mod scan;
pub mod sql;
pub mod write;
