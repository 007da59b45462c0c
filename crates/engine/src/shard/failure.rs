//! What later callers are told after the failure that stopped a writer.

use headwater_format::coord::ShardId;

use crate::error::ShardError;

/// The error every call gets after `cause` stopped the writer: a fence stays a fence (another process serves
/// the shard), changed columns stay what they are (what is durable is known), anything else means that it is
/// unknown what is durable, and reopening finds out (P7).
pub(super) fn stopped_by(shard: ShardId, cause: &ShardError) -> ShardError {
    match cause {
        ShardError::Fenced { .. } | ShardError::Poisoned { .. } | ShardError::SchemaChanged { .. } => {
            cause.clone()
        }
        other => ShardError::Poisoned { shard, reason: other.to_string() },
    }
}

/// The error of the puts whose entry could not be written: the cause itself when it says what became of them,
/// else that the writer stopped (trying again on this handle cannot help).
pub(super) fn failed_append(shard: ShardId, cause: &ShardError) -> ShardError {
    match cause {
        ShardError::UnknownOutcome { .. } | ShardError::Corrupt { .. } | ShardError::Internal { .. } => {
            cause.clone()
        }
        other => stopped_by(shard, other),
    }
}
