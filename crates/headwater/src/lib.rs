//! Headwater: a real-time write tier (MemWAL) in front of an ordinary Lance table.
//!
//! Small writes are durable after one object-store PUT, visible the moment they are acknowledged, and flushed
//! as complete Lance SSTables in the open MemWAL layout, so any Lance reader can read them.
//!
//! ```no_run
//! # async fn example(batch: arrow_array::RecordBatch) -> Result<(), headwater::Error> {
//! use headwater::{OpenOptions, Table};
//!
//! let table = Table::open("/data/flights", OpenOptions::default()).await?;
//! table.put(batch).await?; // durable: every successor will replay it
//! println!("{} rows, this one among them", table.count(None).await?);
//! table.close().await // flushes what is in memory
//! # }
//! ```
//!
//! Owns: tables as people use them ([`Table`], and [`Reader`] for those who only read), routing of rows to
//! shards, the life of open shards, settings as text ([`settings`]), a look at what is on storage
//! ([`inspect`]), and whether it is sound ([`verify`]). Does not own: anything of a single shard
//! (`headwater-engine`), file formats (`headwater-format`, `headwater-lance`), or terminals and processes
//! (`headwater-cli`).

mod change;
mod conditional;
mod error;
mod indexes;
pub mod inspect;
mod kept;
mod nearest;
mod options;
mod pins;
mod read;
mod reader;
mod reading;
mod retry;
pub mod router;
pub mod settings;
mod shards;
mod snapshot;
mod storage;
mod table;
mod ticket;
mod tier;
pub mod verify;
mod writer_defaults;

pub use change::{DeleteResult, UpdateRequest, UpdateResult};
pub use conditional::WriteOptions;
pub use error::{Error, PutFailure};
pub use options::OpenOptions;
pub use pins::{NoSnapshotToken, PinnedSnapshots, SnapshotToken};
pub use reader::{ReadOptions, Reader};
pub use snapshot::TableSnapshot;
pub use table::{Table, TableStats};
pub use ticket::{TableAck, TableTicket};
pub use tier::TierState;

pub use headwater_engine::budget::MemoryBudget;
pub use headwater_engine::error::ShardError;
pub use headwater_engine::settings::{ShardSettings, WalCompression};
pub use headwater_engine::shard::{Ack, Counters, Histogram, ShardStats, ShardStatus};
pub use headwater_engine::snapshot::{ReadLevel, ShardSnapshot};
pub use headwater_engine::table::TableError;
pub use headwater_format::coord;
pub use headwater_format::token::{ClientToken, TokenError};
pub use headwater_lance::{
    Connection, INCARNATION, IndexInfo, IndexKind, MemWal, ShardInfo, ShardValue, Sharding, TableOptions,
    WriterSpec,
};
pub use headwater_query::{
    Columns, GetRequest, Metric, OrderBy, QueryError, QueryRequest, ReadSnapshot, ScanRequest,
    SendableRecordBatchStream, SqlSession, SqlSettings, VectorQuery, VectorSearch, check_sql,
};
pub use headwater_store::env::{Env, EnvRef, TokioEnv};
pub use headwater_store::{Counts, Kind, MeterSnapshot, Request, RetryPolicy, StoreError};
