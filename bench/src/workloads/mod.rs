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

pub mod compression;
pub mod m1;
pub mod q2;
pub mod w1;
pub mod w2;
pub mod w3;
pub mod w4;
pub mod w5;
