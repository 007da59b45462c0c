//! The server under load: a process of its own, clients that send what LanceDB's send, and the clock.
//!
//! - `child`: the server, as this program runs it in a process of its own
//! - `process`: that process, from outside: its address, its key, its memory
//! - `wire`: rows as LanceDB's clients send them
//! - `client`: one connection
//! - `load`: when requests are sent, and how long they take
//! - `targets`: what they are sent to
//! - `session`: a server and its tables, run by run

pub mod child;
pub mod client;
pub mod load;
pub mod process;
pub mod session;
pub mod targets;
pub mod wire;
