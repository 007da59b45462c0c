//! Every version of a shard manifest: readable, without gaps, and nothing falls from one to the next.
//!
//! Owns: [`History`], read from storage, and its rules (P8, P7, P11). Does not own: the newest manifest
//! against entries and SSTables (`generations`).

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use headwater_format::coord::{ManifestVersion, ShardId};
use headwater_format::path;
use headwater_format::shard_manifest::{ManifestError, ShardManifest};
use headwater_store::{Store, StoreError};

use super::report::Finding;

/// How many versions are read at once.
const PARALLEL_READS: usize = 32;

const RESTORE: &str = "the shard cannot be opened: restore the object from a backup; shard manifests are \
                       never deleted by Headwater";
const REWRITTEN: &str = "versions are immutable and this one was not made from the one before it: find out \
                         who wrote it, and restore it from a backup";

/// All versions of a shard's manifest that can be read.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Ascending.
    pub versions: Vec<ShardManifest>,
    /// The highest version there is, readable or not; zero when there is none.
    pub highest: ManifestVersion,
    /// How many versions were read or tried.
    pub looked_at: u64,
    pub findings: Vec<Finding>,
}

impl History {
    /// Reads all versions of the manifest of `shard`.
    pub async fn read(store: &Store, shard: ShardId) -> Result<Self, StoreError> {
        let listed = versions(store, shard).await?;
        let mut history = Self {
            highest: listed.last().copied().unwrap_or_default(),
            looked_at: listed.len() as u64,
            ..Self::default()
        };
        for (first, last) in missing(&listed) {
            // A listing may be behind; only a version that is really not there is a gap.
            let path = path::manifest_path(shard, first);
            if !store.exists(&path).await? {
                let found = format!("versions {first} to {last} are missing below version {}", last.next());
                history.findings.push(Finding::new("P8", path, found, RESTORE));
            }
        }
        let reads = listed.iter().map(|version| async move {
            let bytes = store.get(&path::manifest_path(shard, *version)).await?;
            Ok::<_, StoreError>((*version, bytes))
        });
        let mut reads = stream::iter(reads).buffered(PARALLEL_READS);
        while let Some(read) = reads.next().await {
            let (version, bytes) = read?;
            let manifest = match &bytes {
                Some(bytes) => decoded(shard, version, bytes),
                None => Err(Finding::new("P8", path::manifest_path(shard, version), "it vanished", RESTORE)),
            };
            match manifest {
                Ok(manifest) => history.versions.push(manifest),
                Err(finding) => history.findings.push(finding),
            }
        }
        history.findings.extend(judge(&history.versions));
        Ok(history)
    }

    /// The newest manifest, unless it is the one that cannot be read.
    pub fn newest(&self) -> Option<&ShardManifest> {
        self.versions.last().filter(|manifest| manifest.version == self.highest)
    }

    /// Names of the SSTables that we published: the version that named them first carries our mark, which
    /// others drop.
    pub fn published_by_us(&self) -> BTreeSet<&str> {
        let (mut seen, mut ours) = (BTreeSet::new(), BTreeSet::new());
        for manifest in &self.versions {
            for sstable in &manifest.sstables {
                if seen.insert(sstable.path.as_str()) && manifest.write_id.is_some() {
                    ours.insert(sstable.path.as_str());
                }
            }
        }
        ours
    }
}

/// The versions there are, ascending: those listed, and those written behind the listing's back.
async fn versions(store: &Store, shard: ShardId) -> Result<Vec<ManifestVersion>, StoreError> {
    let directory = path::manifest_dir(shard);
    let listed = store.list(&directory).await?;
    let names = listed.iter().filter_map(|object| object.path.strip_prefix(&directory)?.strip_prefix('/'));
    let mut versions: BTreeSet<ManifestVersion> = names.filter_map(path::parse_manifest_name).collect();
    let mut next = versions.last().copied().unwrap_or_default().next();
    while store.exists(&path::manifest_path(shard, next)).await? {
        versions.insert(next);
        next = next.next();
    }
    Ok(versions.into_iter().collect())
}

/// First and last version of each gap, from version 1 on.
fn missing(versions: &[ManifestVersion]) -> Vec<(ManifestVersion, ManifestVersion)> {
    let mut gaps = Vec::new();
    let mut expected = ManifestVersion::new(1);
    for version in versions {
        if *version != expected {
            gaps.push((expected, version.previous()));
        }
        expected = version.next();
    }
    gaps
}

fn decoded(shard: ShardId, version: ManifestVersion, bytes: &[u8]) -> Result<ShardManifest, Finding> {
    let path = path::manifest_path(shard, version);
    let manifest = match ShardManifest::decode(bytes) {
        Ok(manifest) => manifest,
        Err(error) => {
            // Generations that do not ascend below the next one are the one thing a decoder refuses that is
            // not about the bytes.
            let invariant = match &error {
                ManifestError::Invalid { field: "sstables", .. } => "P11",
                _ => "P8",
            };
            return Err(Finding::new(invariant, path, error.to_string(), RESTORE));
        }
    };
    if manifest.version != version {
        let found = format!("it is version {}, its name says {version}", manifest.version);
        return Err(Finding::new("P8", path, found, RESTORE));
    }
    if manifest.shard_id != shard {
        let found = format!("it is of shard {}, its directory of {shard}", manifest.shard_id);
        return Err(Finding::new("P8", path, found, RESTORE));
    }
    Ok(manifest)
}

/// What each version may not do after the one before it.
fn judge(versions: &[ShardManifest]) -> Vec<Finding> {
    let own = versions.iter().flat_map(|manifest| {
        // The reference does not promise it; the mark says that we wrote the version.
        let behind = manifest.write_id.is_some() && manifest.last_seen < manifest.replay_after;
        behind.then(|| {
            let (seen, cursor) = (manifest.last_seen, manifest.replay_after);
            let found = format!("the last position seen is {seen}, below the replay cursor {cursor}");
            Finding::new("P8", path_of(manifest), found, REWRITTEN)
        })
    });
    let steps = versions.iter().zip(versions.iter().skip(1));
    own.chain(steps.flat_map(|(before, after)| judge_step(before, after))).collect()
}

fn judge_step(before: &ShardManifest, after: &ShardManifest) -> Vec<Finding> {
    let falls = [
        ("P7", "the epoch", before.writer_epoch.get(), after.writer_epoch.get()),
        ("P11", "the replay cursor", before.replay_after.get(), after.replay_after.get()),
        ("P11", "the next generation", before.current_generation.get(), after.current_generation.get()),
    ];
    let falls = falls.into_iter().filter(|(_, _, before, after)| after < before);
    falls
        .map(|(invariant, what, was, is)| {
            let found = format!("{what} falls from {was} in version {} to {is}", before.version);
            Finding::new(invariant, path_of(after), found, REWRITTEN)
        })
        .collect()
}

fn path_of(manifest: &ShardManifest) -> String {
    path::manifest_path(manifest.shard_id, manifest.version)
}
