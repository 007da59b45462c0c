//! Reads for people: scan, get and count over a snapshot of a table, all tiers together.
//!
//! Owns: [`ReadSnapshot`], one base version with one view per shard; the plans and operators that read it;
//! [`ReadCache`], keys of immutable sources and what newer rows hide of them. Does not own: taking the
//! snapshot (`headwater` asks the shards), which rows hide which (`headwater_engine::shadow`), files
//! (`headwater-lance`). Keeps P4 (newest wins is decided before filter, limit and count), P6 (a snapshot
//! reads the same for ever) and P13 (a read equals the same read of a plain table holding the live rows).
//!
//! A scan is each source minus what newer sources hide of it: the base, then the SSTables ascending, then the
//! memtables. No keys are compared while rows are read.

mod base_keys;
mod cache;
mod count;
mod error;
mod exec;
mod filter;
mod get;
mod masks;
mod scan;
mod snapshot;
mod stream;

pub use cache::ReadCache;
pub use error::QueryError;
pub use get::GetRequest;
pub use scan::ScanRequest;
pub use snapshot::ReadSnapshot;
pub use stream::first_batch;

pub use datafusion::physical_plan::SendableRecordBatchStream;
