//! Every WAL entry of a shard: there, readable, in order, and of rows the table can take.
//!
//! Owns: [`Wal`], read from storage, and its rules (P8, P7, P15). Does not own: what generation tags mean
//! (`generations`). Below the replay cursor entries may have been collected; from it on none may be missing.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use futures::{StreamExt, stream};
use headwater_format::coord::{Epoch, Generation, ShardId, WalPosition};
use headwater_format::path;
use headwater_format::schema::schema_difference;
use headwater_format::shard_manifest::ShardManifest;
use headwater_format::wal_entry::{self, WalBody, WalEntry, WalEntryError};
use headwater_lance::{ShardValue, Sharding};
use headwater_store::{Store, StoreError};

use super::report::{Checked, Finding};

/// How many entries are read at once.
const PARALLEL_READS: usize = 32;

const HOLE: &str = "the next writer refuses to open the shard, because rows behind a hole were acknowledged \
                    after those in it: restore the objects from a backup";
const DAMAGED: &str = "the next writer refuses to open the shard while the entry is above the replay cursor: \
                       restore the object from a backup";
const OTHER_WRITER: &str = "two writers wrote at once, or the object was copied from elsewhere: rows of the \
                            lower epoch were refused to their writer and must not be replayed";

/// What an entry must agree with besides itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub store: &'a Store,
    pub shard: ShardId,
    /// None when the newest manifest cannot be read: then nothing is known about where entries begin.
    pub manifest: Option<&'a ShardManifest>,
    /// What the rows of entries must look like.
    pub schema: &'a Schema,
    /// How rows are spread over shards, where they can go astray.
    pub sharding: Option<&'a Sharding>,
    /// The value all rows of the shard have, when it is known.
    pub value: Option<&'a ShardValue>,
}

/// An entry with rows that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub position: WalPosition,
    /// None in entries of writers without memtables.
    pub generation: Option<Generation>,
}

/// The entries of a shard.
#[derive(Debug, Default)]
pub(super) struct Wal {
    /// Those with rows, ascending.
    pub rows: Vec<Rows>,
    pub checked: Checked,
    pub findings: Vec<Finding>,
    /// The listing was behind what is there: worth another look.
    pub stale: bool,
}

impl Wal {
    /// Reads every entry of the shard, one at a time per read under way.
    pub async fn read(context: &Context<'_>) -> Result<Self, StoreError> {
        let Context { store, shard, .. } = *context;
        let mut wal = Self::default();
        let listed = positions(store, shard).await?;
        wal.find_holes(context, &listed).await?;
        let reads = listed.iter().map(|position| async move {
            let bytes = store.get(&path::wal_path(shard, *position)).await?;
            Ok::<_, StoreError>((*position, bytes))
        });
        let mut reads = stream::iter(reads).buffered(PARALLEL_READS);
        let mut newest = Epoch::ZERO;
        while let Some(read) = reads.next().await {
            let (position, bytes) = read?;
            match bytes {
                Some(bytes) => wal.entry(context, position, wal_entry::decode(bytes), &mut newest),
                None => wal.vanished(context, position),
            }
        }
        Ok(wal)
    }

    /// From the entry at the replay cursor to the last one there is, no position is missing.
    async fn find_holes(
        &mut self,
        context: &Context<'_>,
        listed: &BTreeSet<WalPosition>,
    ) -> Result<(), StoreError> {
        let Some(manifest) = context.manifest else { return Ok(()) };
        for (first, last) in holes(listed, manifest) {
            let path = path::wal_path(context.shard, first);
            if context.store.exists(&path).await? {
                self.stale = true;
                continue;
            }
            let found = match first == last {
                true => format!("hole in the WAL: entry {first} is missing"),
                false => format!("hole in the WAL: entries {first} to {last} are missing"),
            };
            self.findings.push(Finding::new("P8", path, found, HOLE));
        }
        Ok(())
    }

    /// An entry below the cursor may be collected while it is looked for.
    fn vanished(&mut self, context: &Context<'_>, position: WalPosition) {
        if context.manifest.is_some_and(|manifest| position >= manifest.replay_after) {
            let path = path::wal_path(context.shard, position);
            self.findings.push(Finding::new("P8", path, "the entry was listed and is gone", HOLE));
        }
    }

    fn entry(
        &mut self,
        context: &Context<'_>,
        position: WalPosition,
        decoded: Result<WalEntry, WalEntryError>,
        newest: &mut Epoch,
    ) {
        let path = path::wal_path(context.shard, position);
        self.checked.entries += 1;
        let entry = match decoded {
            Ok(entry) => entry,
            Err(error) => {
                self.findings.push(Finding::new("P8", path, error.to_string(), DAMAGED));
                return;
            }
        };
        let owner = context.manifest.map(|manifest| manifest.writer_epoch);
        if let Some(owner) = owner.filter(|owner| entry.epoch > *owner) {
            let found = format!("it is of epoch {}, the newest manifest knows {owner}", entry.epoch);
            self.findings.push(Finding::new("P7", path.clone(), found, OTHER_WRITER));
        }
        let WalBody::Rows { generation, batches } = entry.body else {
            self.checked.sentinels += 1;
            return;
        };
        if entry.epoch < *newest {
            let found = format!("rows of epoch {} follow rows of epoch {newest}", entry.epoch);
            self.findings.push(Finding::new("P7", path.clone(), found, OTHER_WRITER));
        }
        *newest = entry.epoch.max(*newest);
        self.checked.entry_rows += batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        // What is covered by SSTables is not replayed any more; it may be of an earlier schema.
        if context.manifest.is_some_and(|manifest| position > manifest.replay_after) {
            self.findings.extend(batches.iter().find_map(|batch| unfit(context, &path, batch)));
        }
        self.rows.push(Rows { position, generation });
    }
}

/// Why rows cannot be replayed into the table.
fn unfit(context: &Context<'_>, path: &str, batch: &RecordBatch) -> Option<Finding> {
    if let Some(difference) = schema_difference(context.schema, batch.schema_ref()) {
        let advice = "the next writer cannot replay it: undo the change of the table's schema, flush, and \
                      change it again";
        return Some(Finding::new("P15", path, difference, advice));
    }
    let advice = "rows of one key may lie in two shards: check that the table's sharding was not changed";
    let values = match context.sharding?.values(batch) {
        Ok(values) => values,
        Err(error) => return Some(Finding::new("P16", path, error.to_string(), advice)),
    };
    let expected = context.value.or(values.first())?;
    let stray = values.iter().find(|value| *value != expected)?;
    let found = format!("the shard is that of {expected}, but it holds rows of {stray}");
    Some(Finding::new("P16", path, found, advice))
}

async fn positions(store: &Store, shard: ShardId) -> Result<BTreeSet<WalPosition>, StoreError> {
    let directory = path::wal_dir(shard);
    let listed = store.list(&directory).await?;
    let names = listed.iter().filter_map(|object| object.path.strip_prefix(&directory)?.strip_prefix('/'));
    Ok(names.filter_map(path::parse_wal_name).collect())
}

/// First and last position of each hole, from the replay cursor to the last entry known to have been there.
/// The entry at the cursor stays (P10).
fn holes(listed: &BTreeSet<WalPosition>, manifest: &ShardManifest) -> Vec<(WalPosition, WalPosition)> {
    let mut holes = Vec::new();
    let mut expected = manifest.replay_after.max(WalPosition::new(1));
    for position in listed.range(expected..) {
        if *position != expected {
            holes.push((expected, position.previous()));
        }
        expected = position.next();
    }
    let known = manifest.last_seen.max(manifest.replay_after);
    if expected <= known {
        holes.push((expected, known));
    }
    holes
}
