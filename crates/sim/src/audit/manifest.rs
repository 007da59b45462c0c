//! Judging a shard manifest against the one before it.

use headwater_format::shard_manifest::ShardManifest;

use crate::violation::Violation;

/// What `next` may not do after `before`.
pub(super) fn check_step(before: Option<&ShardManifest>, next: &ShardManifest) -> Vec<Violation> {
    let mut found = Vec::new();
    let version = next.version;
    let mut must = |holds: bool, invariant: &'static str, what: String| {
        if !holds {
            found.push(Violation::new(invariant, format!("manifest {version}: {what}")));
        }
    };
    must(
        next.last_seen >= next.replay_after,
        "P10",
        format!("last seen {} is below the replay cursor {}", next.last_seen, next.replay_after),
    );
    let ascending = next.sstables.windows(2).all(|pair| match pair {
        [first, second] => first.generation < second.generation,
        _ => true,
    });
    must(ascending, "P11", "generations do not ascend".to_owned());
    let newest = next.sstables.last().map(|sstable| sstable.generation);
    must(
        newest.is_none_or(|newest| newest.next() == next.current_generation),
        "P11",
        format!("newest SSTable {newest:?}, but the next to publish is {}", next.current_generation),
    );
    let Some(before) = before else {
        must(version.get() == 1, "P8", "the version before it is missing".to_owned());
        return found;
    };
    must(
        before.version.next() == version,
        "P8",
        format!("the newest version before it is {}", before.version),
    );
    must(
        next.writer_epoch >= before.writer_epoch && next.writer_epoch <= before.writer_epoch.next(),
        "P7",
        format!("epoch {} after {}", next.writer_epoch, before.writer_epoch),
    );
    must(
        next.replay_after >= before.replay_after,
        "P11",
        format!("replay cursor {} after {}", next.replay_after, before.replay_after),
    );
    must(
        next.sstables.starts_with(&before.sstables),
        "P9",
        "it dropped or changed an SSTable that nothing compacted".to_owned(),
    );
    must(next.shard_id == before.shard_id, "P7", "it is of another shard".to_owned());
    let published = next.sstables.len() > before.sstables.len();
    must(
        published || next.replay_after == before.replay_after,
        "P11",
        format!("the replay cursor moved to {} without an SSTable", next.replay_after),
    );
    found
}
