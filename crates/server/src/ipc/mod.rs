//! Arrow IPC over HTTP: streams that clients send, files that they get.
//!
//! [`frames`] finds the messages in a body and checks what they claim, [`packed`] what they claim to unpack
//! to; [`upload`] decodes them to batches; [`reply`] encodes batches as they come.

pub mod frames;
pub mod packed;
pub mod reply;
pub mod upload;
