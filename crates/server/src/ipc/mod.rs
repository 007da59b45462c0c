//! Arrow IPC over HTTP: streams that clients send, files that they get.
//!
//! [`frames`] finds the messages in a body and checks what they claim; [`upload`] decodes them to batches;
//! [`reply`] encodes batches as they come.

pub mod frames;
pub mod reply;
pub mod upload;
