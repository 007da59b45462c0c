//! SSTables, generation tags and the replay cursor against each other (P11).
//!
//! Pure. Owns: [`judge_sstables`] and [`judge_tags`]. The cursor is the end of the unbroken run of published
//! generations, so it parts the entries of published generations from all others, exactly.

use headwater_format::coord::{Generation, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::ShardManifest;

use super::report::Finding;
use super::wal::Rows;

const LOST: &str = "a generation is neither in the base nor among the SSTables, so its rows are not read: \
                    restore the newest shard manifest from a backup";
const CURSOR: &str = "rows would be replayed twice or never: restore the newest shard manifest from a backup";
const TAGS: &str = "the next writer refuses to open the shard: restore the entries from a backup";

/// The SSTables above `compacted`, the last generation in the base, are one unbroken run up to the next one
/// to publish. That they ascend, the decoder has checked.
pub(super) fn judge_sstables(manifest: &ShardManifest, compacted: Generation) -> Vec<Finding> {
    let path = || path::manifest_path(manifest.shard_id, manifest.version);
    let gap = |from: Generation, to: Generation| {
        let found = match from == to {
            true => format!("generation {from} is missing"),
            false => format!("generations {from} to {to} are missing"),
        };
        Finding::new("P11", path(), format!("{found}; the base has those up to {compacted}"), LOST)
    };
    let mut findings = Vec::new();
    let mut expected = compacted.next();
    for sstable in manifest.sstables.iter().filter(|sstable| sstable.generation > compacted) {
        if sstable.generation != expected {
            findings.push(gap(expected, sstable.generation.previous()));
        }
        expected = sstable.generation.next();
    }
    if expected < manifest.current_generation {
        findings.push(gap(expected, manifest.current_generation.previous()));
    }
    findings
}

/// Entries up to the replay cursor are of published generations, those above it of later ones, which begin
/// with the next to publish and follow each other. Of each kind of fault the first entry is named.
pub(super) fn judge_tags(manifest: &ShardManifest, entries: &[Rows]) -> Vec<Finding> {
    let (cursor, current) = (manifest.replay_after, manifest.current_generation);
    let tagged: Vec<(WalPosition, Generation)> =
        entries.iter().filter_map(|entry| Some((entry.position, entry.generation?))).collect();
    let find = |wrong: &dyn Fn(WalPosition, Generation) -> bool| {
        let mut found = tagged.iter().filter(|(position, tag)| wrong(*position, *tag));
        found.next().map(|(position, tag)| (*position, *tag, found.count()))
    };
    let finding = |position, found, advice| {
        Finding::new("P11", path::wal_path(manifest.shard_id, position), found, advice)
    };
    let mut findings = Vec::new();
    if let Some((position, tag, more)) = find(&|position, tag| position <= cursor && tag >= current) {
        let found = format!(
            "it holds generation {tag}, which is not published, below the replay cursor {cursor} (and {more} \
             more such entries)"
        );
        findings.push(finding(position, found, CURSOR));
    }
    if let Some((position, tag, more)) = find(&|position, tag| position > cursor && tag < current) {
        let found = format!(
            "it holds generation {tag}, which is published, above the replay cursor {cursor} (and {more} \
             more such entries)"
        );
        findings.push(finding(position, found, CURSOR));
    }
    let fall = tagged.iter().zip(tagged.iter().skip(1)).find(|((_, before), (_, after))| after < before);
    if let Some(((_, before), (position, after))) = fall {
        let found = format!("it holds generation {after} after an entry of generation {before}");
        findings.push(finding(*position, found, TAGS));
    }
    // Entries without a tag fill memtables of their own, so what follows them can begin anywhere.
    let mut to_replay = entries.iter().filter(|entry| entry.position > cursor);
    let all_tagged = to_replay.all(|entry| entry.generation.is_some());
    if findings.is_empty() && all_tagged {
        findings.extend(skip(manifest, &tagged).map(|(position, found)| finding(position, found, TAGS)));
    }
    findings
}

/// The first entry to replay whose generation does not go on where the ones before it ended.
fn skip(manifest: &ShardManifest, tagged: &[(WalPosition, Generation)]) -> Option<(WalPosition, String)> {
    let mut last: Option<Generation> = None;
    for (position, tag) in tagged.iter().filter(|(position, _)| *position > manifest.replay_after) {
        let follows = match last {
            None => *tag == manifest.current_generation,
            Some(last) => *tag == last || *tag == Generation::next(last),
        };
        if !follows {
            let expected = last.unwrap_or(manifest.current_generation);
            let found = format!("it holds generation {tag} where generation {expected} goes on");
            return Some((*position, found));
        }
        last = Some(*tag);
    }
    None
}
