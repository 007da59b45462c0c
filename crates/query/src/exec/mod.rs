//! The operators of a read.
//!
//! - [`SourceExec`]: the live rows of one source, filtered and cut off.
//! - [`ConcatExec`]: sources one after the other.
//! - [`DistanceExec`]: how far each row is from a vector.
//!
//! And the sources they read, one a file: [`BaseSource`], [`SsTableSource`], [`MemtableSource`], and
//! [`NearestSource`] in place of the first where a vector index is searched.

mod base;
mod batch_rows;
mod concat;
mod distance;
mod handed_out;
mod memtable;
mod nearest;
mod properties;
mod source;
mod sstable;

pub(crate) use base::BaseSource;
pub(crate) use concat::{ConcatExec, Start};
pub(crate) use distance::{DISTANCE, DistanceExec, Measure};
pub(crate) use memtable::MemtableSource;
pub(crate) use nearest::NearestSource;
pub(crate) use properties::one_partition;
pub(crate) use source::{Asked, Source, SourceExec};
pub(crate) use sstable::SsTableSource;
