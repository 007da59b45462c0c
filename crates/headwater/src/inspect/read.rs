//! Looks at a table's write tier on storage: lists it, reads the newest manifests and every WAL entry.
//!
//! Owns: [`inspect`]. Claims nothing, writes nothing. What cannot be read is a problem in the report, not an
//! error: `inspect` is what one runs when something is wrong.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use headwater_engine::table::{TableError, TableIo};
use headwater_format::coord::{Epoch, ManifestVersion, ShardId, WalPosition};
use headwater_format::path;
use headwater_format::shard_manifest::{ShardManifest, ShardStatus};
use headwater_format::wal_entry::{self, WalBody};
use headwater_lance::{Connection, LanceTable, Sharding, TableOptions};
use headwater_store::Store;
use headwater_store::env::{EnvExt, EnvRef};
use headwater_store::register::Register;
use serde_json::Value;

use super::files::{Files, ShardFiles};
use super::report::{
    LeftOver, ManifestReport, Problem, ShardReport, ShardingReport, SsTableReport, TableReport, WalReport,
};
use super::walk;
use crate::error::Error;
use crate::storage;

/// Why an SSTable directory of a generation still to be published is a left-over, if it is one.
const UNNAMED_YET: &str = "SSTable directory no manifest names yet: of a flush under way, or of one that \
                           failed or whose process was killed";
/// Why one of an earlier generation is.
const UNNAMED: &str = "SSTable directory no manifest names: of a flush that failed or whose process was \
                       killed, or compacted into the base";

/// How many WAL entries are read at once.
const PARALLEL_READS: usize = 32;

/// What is on storage of the table at `uri`. Reads every WAL entry, in memory one at a time per read under
/// way.
///
/// # Errors
/// [`Error::Table`] when the base cannot be opened, [`Error::Storage`] when storage does not answer.
/// An object that cannot be read is no error but a [`Problem`] of its shard.
pub async fn inspect(uri: &str, options: &TableOptions, env: EnvRef) -> Result<TableReport, Error> {
    storage::check_options(uri, options)?;
    let table_error = |error: TableError| Error::table(uri, error);
    let connection = Connection::default();
    let table = LanceTable::open_with(&connection, uri, options, env.clone()).await;
    let table = storage::opened(&connection, uri, options, &env, table).await?;
    let mem_wal = table.mem_wal().await.map_err(table_error)?;
    let base = table.base().await.map_err(table_error)?;
    let files = Files::sort(list(&table, &env).await?);
    let mut shards = Vec::with_capacity(files.shards.len());
    for (id, found) in &files.shards {
        shards.push(shard(table.store(), *id, found).await.map_err(|error| Error::storage(uri, error))?);
    }
    let key = table.key().map(|key| key.columns().iter().map(|column| column.name.clone()).collect());
    Ok(TableReport {
        table: uri.to_owned(),
        base_version: base.version,
        key: key.unwrap_or_default(),
        sharding: mem_wal.map(|mem_wal| sharding(mem_wal.sharding)),
        shards,
        left_overs: files.left_overs,
    })
}

fn sharding(sharding: Sharding) -> ShardingReport {
    match sharding {
        Sharding::Unsharded => ShardingReport::Unsharded,
        Sharding::Bucket { column, num_buckets } => ShardingReport::Bucket { column, num_buckets },
        Sharding::Identity { column } => ShardingReport::Identity { column },
        Sharding::Manual => ShardingReport::Manual,
    }
}

/// Every object under `_mem_wal/`: what the store lists and, on a local disk, what only the disk shows.
async fn list(table: &LanceTable, env: &EnvRef) -> Result<BTreeMap<String, u64>, Error> {
    let uri = table.uri();
    let listed = table.store().list(path::MEM_WAL_DIR).await.map_err(|error| Error::storage(uri, error))?;
    let mut objects: BTreeMap<String, u64> =
        listed.into_iter().map(|object| (object.path, object.size)).collect();
    if let Some(root) = walk::local_root(uri) {
        let walked = env.blocking(move || walk::files(&root)).await.map_err(|error| error.to_string());
        let walked = walked.and_then(|walked| walked.map_err(|error| error.to_string()));
        let walked = walked.map_err(|reason| {
            Error::table(uri, TableError::Unavailable { path: path::MEM_WAL_DIR.to_owned(), reason })
        })?;
        objects.extend(walked);
    }
    Ok(objects)
}

type StoreResult<T> = Result<T, headwater_store::StoreError>;

async fn shard(store: &Store, id: ShardId, files: &ShardFiles) -> StoreResult<ShardReport> {
    let mut problems = Vec::new();
    let manifest = newest_manifest(store, id, files, &mut problems).await?;
    let cursor = manifest.as_ref().map_or(WalPosition::ZERO, |manifest| manifest.replay_after);
    let wal = wal(store, id, files, cursor, &mut problems).await?;
    let sstables = sstables(id, manifest.as_ref(), files, &mut problems);
    let mut left_overs = files.left_overs.clone();
    left_overs.extend(unnamed(id, manifest.as_ref(), files));
    Ok(ShardReport {
        id: id.to_string(),
        values: manifest.as_ref().map(values).unwrap_or_default(),
        manifest: manifest.as_ref().map(manifest_report),
        wal,
        sstables,
        left_overs,
        problems,
    })
}

async fn newest_manifest(
    store: &Store,
    id: ShardId,
    files: &ShardFiles,
    problems: &mut Vec<Problem>,
) -> StoreResult<Option<ShardManifest>> {
    let mut expected = ManifestVersion::new(1);
    for version in files.manifests.keys() {
        if *version != expected {
            let reason = format!("version {expected} is missing below version {version}");
            problems.push(Problem { path: path::manifest_dir(id), reason });
        }
        expected = version.next();
    }
    let register: Register<ShardManifest> = Register::for_shard(store.clone(), id);
    match register.load().await {
        Ok(Some(manifest)) => Ok(Some(manifest.as_ref().clone())),
        Ok(None) => {
            let reason = "the shard has no manifest: an unfinished creation, or not a shard".to_owned();
            problems.push(Problem { path: path::manifest_dir(id), reason });
            Ok(None)
        }
        Err(headwater_store::StoreError::Corrupt { path, reason }) => {
            problems.push(Problem { path, reason });
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn manifest_report(manifest: &ShardManifest) -> ManifestReport {
    ManifestReport {
        version: manifest.version.get(),
        writer_epoch: manifest.writer_epoch.get(),
        replay_after: manifest.replay_after.get(),
        last_seen: manifest.last_seen.get(),
        current_generation: manifest.current_generation.get(),
        status: match manifest.status {
            ShardStatus::Active => "active".to_owned(),
            ShardStatus::Sealed => "sealed".to_owned(),
        },
    }
}

/// The field values of a shard: four bytes are a bucket, text is text, anything else is shown as hex.
fn values(manifest: &ShardManifest) -> BTreeMap<String, Value> {
    let decode = |bytes: &[u8]| match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
        (Ok(word), _) => Value::from(i32::from_le_bytes(word)),
        (_, Ok(word)) => Value::from(i64::from_le_bytes(word)),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => Value::from(text),
            Err(_) => Value::from(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        },
    };
    manifest.shard_field_values.iter().map(|(field, bytes)| (field.clone(), decode(bytes))).collect()
}

/// What one WAL entry turned out to be.
enum Entry {
    Sentinel,
    Rows { epoch: Epoch, rows: u64 },
    Gone,
    Unreadable(String),
}

async fn wal(
    store: &Store,
    id: ShardId,
    files: &ShardFiles,
    cursor: WalPosition,
    problems: &mut Vec<Problem>,
) -> StoreResult<WalReport> {
    let mut report = WalReport {
        entries: files.wal.len() as u64,
        bytes: files.wal.values().sum(),
        first: files.wal.keys().next().map(|position| position.get()),
        last: files.wal.keys().next_back().map(|position| position.get()),
        ..WalReport::default()
    };
    problems.extend(holes(id, files, cursor));
    let mut newest = Epoch::ZERO;
    let reads =
        files.wal.keys().map(|position| async move { (*position, entry(store, id, *position).await) });
    let mut reads = stream::iter(reads).buffered(PARALLEL_READS);
    while let Some((position, entry)) = reads.next().await {
        let unflushed = u64::from(position > cursor);
        report.unflushed_entries += unflushed;
        let mut problem =
            |reason: String| problems.push(Problem { path: path::wal_path(id, position), reason });
        match entry? {
            Entry::Sentinel => report.sentinels += 1,
            Entry::Gone => {}
            Entry::Unreadable(reason) => problem(reason),
            Entry::Rows { epoch, rows } => {
                report.rows += rows;
                report.unflushed_rows += unflushed * rows;
                if epoch < newest {
                    problem(format!("epoch {epoch} behind an entry of epoch {newest}"));
                }
                newest = newest.max(epoch);
            }
        }
    }
    Ok(report)
}

async fn entry(store: &Store, id: ShardId, position: WalPosition) -> StoreResult<Entry> {
    let Some(bytes) = store.get(&path::wal_path(id, position)).await? else { return Ok(Entry::Gone) };
    Ok(match wal_entry::decode(bytes) {
        Err(error) => Entry::Unreadable(error.to_string()),
        Ok(entry) => match entry.body {
            WalBody::FenceSentinel => Entry::Sentinel,
            WalBody::Rows { batches, .. } => Entry::Rows {
                epoch: entry.epoch,
                rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            },
        },
    })
}

/// Missing positions behind the replay cursor (P8). Below it entries may have been collected.
fn holes(id: ShardId, files: &ShardFiles, cursor: WalPosition) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut expected = cursor.next();
    for position in files.wal.keys().filter(|position| **position > cursor) {
        if *position != expected {
            let reason =
                format!("hole in the WAL: entries {expected} to {} are missing", position.previous());
            problems.push(Problem { path: path::wal_path(id, expected), reason });
        }
        expected = position.next();
    }
    problems
}

fn sstables(
    id: ShardId,
    manifest: Option<&ShardManifest>,
    files: &ShardFiles,
    problems: &mut Vec<Problem>,
) -> Vec<SsTableReport> {
    let named = manifest.map(|manifest| manifest.sstables.as_slice()).unwrap_or_default();
    let mut reports = Vec::with_capacity(named.len());
    for sstable in named {
        let found = files.sstables.get(&sstable.path);
        if found.is_none() {
            let reason = "the manifest names this SSTable, but there are no files".to_owned();
            problems.push(Problem { path: path::sstable_dir(id, &sstable.path), reason });
        }
        reports.push(SsTableReport {
            generation: sstable.generation.get(),
            path: sstable.path.clone(),
            physical_rows: sstable.physical_rows,
            in_memory_bytes: sstable.in_memory_bytes,
            primary_key_bytes: sstable.primary_key_bytes,
            file_bytes: found.map_or(0, |directory| directory.bytes),
            files: found.map_or(0, |directory| directory.files),
        });
    }
    reports
}

/// SSTable directories no manifest names.
fn unnamed(id: ShardId, manifest: Option<&ShardManifest>, files: &ShardFiles) -> Vec<LeftOver> {
    let is_named =
        |name: &str| manifest.is_some_and(|manifest| manifest.sstables.iter().any(|s| s.path == name));
    let next = manifest.map(|manifest| manifest.current_generation);
    let unnamed = files.sstables.iter().filter(|(name, _)| !is_named(name));
    unnamed
        .map(|(name, directory)| LeftOver {
            path: path::sstable_dir(id, name),
            bytes: directory.bytes,
            why: match next {
                Some(next) if directory.generation >= next => UNNAMED_YET.to_owned(),
                _ => UNNAMED.to_owned(),
            },
        })
        .collect()
}
