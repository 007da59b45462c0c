//! The base and the shards against each other (P16).
//!
//! Pure. Owns: what the MemWAL index of the base says about shards. Does not own: the index itself and the
//! other indexes of the base (`headwater-lance`).

use std::collections::{BTreeMap, BTreeSet};

use headwater_format::coord::{Generation, ShardId};
use headwater_format::path;
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_lance::MemWal;

use super::report::Finding;
use crate::router::recorded_value;

const AHEAD: &str = "rows of later generations are taken for compacted and not read: restore the shard's \
                     manifests from a backup";

/// What the base says about one shard. `mem_wal` was read before the manifest: both only grow.
pub(super) fn judge_shard(mem_wal: &MemWal, manifest: &ShardManifest) -> Vec<Finding> {
    let path = || path::manifest_path(manifest.shard_id, manifest.version);
    let mut findings = Vec::new();
    let (compacted, current) = (mem_wal.compacted(manifest.shard_id), manifest.current_generation);
    if compacted >= current {
        let found = format!(
            "the base records generations up to {compacted} as compacted, of which the shard has published \
             those below {current}"
        );
        findings.push(Finding::new("P16", path(), found, AHEAD));
    }
    let has_rows = manifest.sstables.iter().any(|sstable| sstable.generation > compacted);
    if manifest.shard_spec_id != mem_wal.spec_id && has_rows {
        let found = format!(
            "the shard belongs to sharding spec {}, the table has spec {}",
            manifest.shard_spec_id, mem_wal.spec_id
        );
        let advice = "writers are refused: fold the shard into the base and remove it";
        findings.push(Finding::new("P16", path(), found, advice));
    }
    findings
}

/// Shards the base records as compacted must be there, for a shard that starts anew starts at generation 1.
pub(super) fn judge_missing(mem_wal: &MemWal, shards: &BTreeSet<ShardId>) -> Vec<Finding> {
    let recorded = mem_wal.compacted.iter().filter(|(_, generation)| **generation > Generation::ZERO);
    recorded
        .filter(|(shard, _)| !shards.contains(shard))
        .map(|(shard, generation)| {
            let found = format!("the base records generations up to {generation} of it, but it is not there");
            Finding::new("P16", path::shard_dir(*shard), found, AHEAD)
        })
        .collect()
}

/// No two shards that take writers serve one value: rows of a key could be in either.
pub(super) fn judge_values(mem_wal: &MemWal, manifests: &[ShardManifest]) -> Vec<Finding> {
    let mut serving = BTreeMap::new();
    let mut findings = Vec::new();
    for manifest in manifests.iter().filter(|manifest| manifest.status == ShardStatus::Active) {
        let Some(value) = recorded_value(mem_wal, manifest) else { continue };
        let shard = manifest.shard_id;
        if let Some(other) = serving.insert(value.clone(), shard) {
            let found = format!("shards {other} and {shard} both serve {value}");
            let advice = "rows of one key could be in either, so neither is written: fold one of them into \
                          the base and remove it";
            findings.push(Finding::new("P7", path::shard_dir(shard), found, advice));
        }
    }
    findings
}
