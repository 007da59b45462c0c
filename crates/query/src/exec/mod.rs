//! The operators of a read.
//!
//! - [`SourceExec`]: the live rows of one source, filtered and cut off.
//! - [`ConcatExec`]: sources one after the other.
//!
//! And the sources it reads, one a file: [`BaseSource`], [`SsTableSource`], [`MemtableSource`].

mod base;
mod batch_rows;
mod concat;
mod handed_out;
mod memtable;
mod properties;
mod source;
mod sstable;

pub(crate) use base::BaseSource;
pub(crate) use concat::{ConcatExec, Start};
pub(crate) use memtable::MemtableSource;
pub(crate) use properties::one_partition;
pub(crate) use source::{Asked, Source, SourceExec};
pub(crate) use sstable::SsTableSource;
