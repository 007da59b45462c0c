//! JSON bodies of requests, as clients send them.
//!
//! [`read`] turns a body into one of them; [`query`] has what reads ask for, [`changes`] everything else.

pub mod changes;
pub mod query;
mod read;

pub use read::read;
