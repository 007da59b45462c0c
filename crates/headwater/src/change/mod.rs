//! Updates and deletes by condition, through conditional writes.
//!
//! Owns: [`UpdateRequest`], [`Table::update`], [`Table::delete_where`](crate::Table::delete_where), and how a
//! statement becomes writes. Does not own: what a statement makes of a row (`headwater-query`), whether a
//! write's condition holds and whether its token came before (`engine::shard`).
//!
//! # How
//! 1. The keys of the rows the condition keeps are read from one snapshot, in the order of their hashes, and
//!    cut into chunks. What a statement changes is chosen here: rows that come to match later are left alone.
//! 2. Each chunk is read by key, at the newest state; condition and expressions are evaluated on these rows,
//!    and what they give is written, one put a shard, on condition that no key of it was written since.
//!    Where one was, the rows of that shard are read and decided about again, after some times in smaller
//!    chunks. So no row another writer changed is lost, and none is changed that no longer matches.
//! 3. Every put carries a token of its own: a digest of the request's token, the range of key hashes the
//!    chunk covers, the number of rows. It says that *this request is done with every row of this shard in
//!    this range*. A request that is sent again finds these tokens (in memory, or rebuilt by replay), and
//!    leaves rows in their ranges alone (P12). They are looked up after the rows were read, so a run of the
//!    same request beside this one is either seen or fails the condition.
//! 4. The last put of a request says that it is the last; it is made when all others are durable. Sent again
//!    after that, the request changes nothing whatever matches by now.
//!
//! Hashes, not places in a scan: another snapshot cuts other chunks, and a range means the same in all.
//!
//! [`Table::update`]: crate::Table::update

mod chunk;
mod run;
mod share;
mod statements;

pub use statements::{DeleteResult, UpdateRequest, UpdateResult};
