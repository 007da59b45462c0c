//! Reads for people: scan, get, count and SQL over snapshots of tables, all tiers together.
//!
//! Owns: [`ReadSnapshot`], one base version with one view per shard; the plans and operators that read it;
//! [`QueryRequest`], what LanceDB clients ask; [`SqlSession`], SQL over several of them; [`ReadCache`], keys
//! of SSTables, the key index of the base, and
//! what newer rows hide of both. Does not own: taking the snapshot (`headwater` asks the shards), which rows
//! hide which (`headwater_engine::shadow`), files (`headwater-lance`), SQL itself (DataFusion). Keeps P4
//! (newest wins is decided before filter, limit and count), P6 (a snapshot reads the same for ever) and P13
//! (a read equals the same read of a plain table holding the live rows).
//!
//! A scan is each source minus what newer sources hide of it: the base, then the SSTables ascending, then the
//! memtables. No keys are compared while rows are read.

mod base;
mod bounded;
mod cache;
mod change;
mod count;
mod depth;
mod error;
mod exec;
mod filter;
mod get;
mod key_filter;
mod masks;
mod newer;
mod of_rows;
mod provider;
mod query;
mod scan;
mod snapshot;
mod sql;
mod stream;

pub use cache::ReadCache;
pub use change::{Change, Statement};
pub use error::QueryError;
pub use filter::check_whole as check_sql;
pub use get::GetRequest;
pub use query::{Columns, Metric, OrderBy, QueryRequest, VectorQuery, VectorSearch};
pub use scan::ScanRequest;
pub use snapshot::ReadSnapshot;
pub use sql::{SqlSession, SqlSettings};
pub use stream::first_batch;

pub use datafusion::physical_plan::SendableRecordBatchStream;
