//! The workloads, one a file.
//!
//! - `w1`: sequential durable 1-row puts
//! - `w2`: many clients, durable 1-row puts
//! - `w3`: batches
//! - `w4`: flush
//! - `w5`: reopen
//! - `m1`: memory of a memtable
//! - `q2`: PUTs and bytes per acknowledged MiB
//! - `compression`: what compressing WAL entries costs and saves
//! - `r1`: full scan
//! - `r2`: scan of one column
//! - `r3`: count
//! - `r4`: point lookups
//! - `q1`: requests of a read
//! - `shadow`: memory of what is hidden
//! - `curves`: scan and count over base rows, SSTables and replaced share
//! - `server`: the server under load, and what it adds to the engine
//! - `server_peers`: the server and LanceDB embedded
//! - `server_memory`: memory of the server during long uploads and slow reads

pub mod compression;
pub mod curves;
pub mod m1;
pub mod q1;
pub mod q2;
pub mod r1;
pub mod r2;
pub mod r3;
pub mod r4;
pub mod server;
pub mod server_memory;
pub mod server_peers;
pub mod shadow;
pub mod w1;
pub mod w2;
pub mod w3;
pub mod w4;
pub mod w5;
