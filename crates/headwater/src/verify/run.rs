//! Walks a table and has every rule judge it.
//!
//! Owns: [`verify`], the order in which things are read, and looking again: beside a running writer a shard
//! moves on while it is looked at, and then what was found may only be the difference between two moments.
//! Claims nothing, writes nothing. An error says that storage did not answer; what is wrong on storage is a
//! finding.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use headwater_engine::table::TableError;
use headwater_format::coord::{ManifestVersion, ShardId};
use headwater_format::path;
use headwater_format::schema::storage_schema;
use headwater_format::shard_manifest::ShardManifest;
use headwater_lance::{BaseCheck, LanceTable, MemWal, Sharding, TableOptions};
use headwater_store::StoreError;
use headwater_store::env::EnvRef;

use super::manifests::History;
use super::report::{Checked, Finding, KeyIndexReport, VerifyReport};
use super::sstables::{SsTables, counted};
use super::wal::{Context, Wal};
use super::{base, generations};
use crate::error::Error;
use crate::router::recorded_value;

/// Looks at a shard that moves on meanwhile.
const ATTEMPTS: u32 = 4;

/// Told what was checked so far, now and then.
pub type Progress<'a> = &'a (dyn Fn(&Checked) + Send + Sync);

/// Checks everything on storage of the table at `uri` against the invariants. Reads every shard manifest, WAL
/// entry and SSTable; in memory are the keys of one SSTable and a few batches and entries.
///
/// # Errors
/// [`Error::Table`] when there is no table, it has no write tier, or its storage does not answer;
/// [`Error::Storage`] likewise.
pub async fn verify(
    uri: &str,
    options: &TableOptions,
    env: EnvRef,
    progress: Progress<'_>,
) -> Result<VerifyReport, Error> {
    let failed = |error| Error::table(uri, error);
    let base = LanceTable::check_base(uri, options).await.map_err(failed)?;
    let mut report = begun(uri, &base);
    if base.usable {
        let table = LanceTable::open(uri, options, env).await.map_err(failed)?;
        let shards = table.shard_ids().await.map_err(failed)?;
        let storage = storage_schema(&table.schema());
        let storage = storage.map_err(|error| failed(TableError::invalid(error.to_string())))?;
        let (indexes, findings) = table.check_indexes().await.map_err(failed)?;
        report.key_indexes = indexes.into_iter().map(KeyIndexReport::from).collect();
        report.findings.extend(findings.into_iter().map(Finding::from));
        if !base.has_write_tier {
            report.findings.push(without_write_tier(uri, &shards)?);
        }
        let run = Run { uri, table, storage, progress };
        run.shards(&shards, &mut report).await?;
    }
    report.findings.extend(base.findings.into_iter().map(Finding::from));
    report.findings.sort();
    report.sound = report.findings.is_empty();
    Ok(report)
}

fn begun(uri: &str, base: &BaseCheck) -> VerifyReport {
    VerifyReport {
        table: uri.to_owned(),
        base_version: base.version,
        sound: false,
        checked: Checked::default(),
        key_indexes: Vec::new(),
        findings: Vec::new(),
    }
}

/// A table without MemWAL index is broken when there are shards, and nothing to verify when there are none.
fn without_write_tier(uri: &str, shards: &BTreeSet<ShardId>) -> Result<Finding, Error> {
    if shards.is_empty() {
        let reason = "the table has no write tier, so there is nothing to verify; run `headwater init` on it";
        return Err(Error::table(uri, TableError::invalid(reason)));
    }
    let found = format!("the base has no MemWAL index, but there are {} shards", shards.len());
    let advice = "an overwrite or a commit of somebody else removed it, and readers do not see the rows of \
                  the shards any more: restore the version of the base that had it";
    Ok(Finding::new("P16", "_versions", found, advice))
}

struct Run<'a> {
    uri: &'a str,
    table: Arc<LanceTable>,
    /// What the rows of entries look like.
    storage: SchemaRef,
    progress: Progress<'a>,
}

/// What one look at a shard gave.
#[derive(Debug, Default)]
struct Look {
    checked: Checked,
    findings: Vec<Finding>,
    newest: Option<ShardManifest>,
    highest: ManifestVersion,
    stale: bool,
}

impl Run<'_> {
    async fn shards(&self, ids: &BTreeSet<ShardId>, report: &mut VerifyReport) -> Result<(), Error> {
        let recorded = self.mem_wal().await?;
        let mut manifests = Vec::new();
        for id in ids {
            let look = self.shard(*id, report.checked).await?;
            report.checked = report.checked.plus(look.checked);
            report.findings.extend(look.findings);
            manifests.extend(look.newest);
            (self.progress)(&report.checked);
        }
        if let Some(mem_wal) = recorded {
            // Shards listed before the base was read may not know of one that is new.
            let now = self.table.shard_ids().await.map_err(|error| self.failed(error))?;
            report.findings.extend(base::judge_missing(&mem_wal, &now));
            report.findings.extend(base::judge_values(&mem_wal, &manifests));
        }
        Ok(())
    }

    /// Looks at a shard until it keeps still, a few times at most.
    async fn shard(&self, id: ShardId, before: Checked) -> Result<Look, Error> {
        let mut sstables = SsTables::default();
        let mut look = Look::default();
        for _ in 0..ATTEMPTS {
            look = self.look(id, before, &mut sstables).await?;
            let next = path::manifest_path(id, look.highest.next());
            let moved = look.stale || self.stored(self.table.store().exists(&next).await)?;
            if !moved || (look.findings.is_empty() && !look.stale) {
                break;
            }
        }
        Ok(look)
    }

    async fn look(&self, id: ShardId, before: Checked, sstables: &mut SsTables) -> Result<Look, Error> {
        let store = self.table.store();
        let earlier = self.mem_wal().await?;
        let history = self.stored(History::read(store, id).await)?;
        // What is compacted grows, and the shard's manifest follows it: only a base read later knows of all
        // SSTables that a manifest does not name any more.
        let later = self.mem_wal().await?;
        if history.looked_at == 0 {
            return self.without_manifest(id).await;
        }
        let newest = history.newest();
        let value = earlier.as_ref().zip(newest).and_then(|(base, newest)| recorded_value(base, newest));
        let sharding = earlier.as_ref().map(|mem_wal| &mem_wal.sharding).filter(|by| spreads(by));
        let context = Context {
            store,
            shard: id,
            manifest: newest,
            schema: &self.storage,
            sharding,
            value: value.as_ref(),
        };
        let wal = self.stored(Wal::read(&context).await)?;
        let mut checked = Checked { shards: 1, manifests: history.looked_at, ..Checked::default() };
        checked = checked.plus(wal.checked);
        let mut so_far = before.plus(checked);
        let tell = |one| {
            so_far = so_far.plus(one);
            (self.progress)(&so_far);
        };
        let checks = sstables.check(&self.table, &history, sharding, value.clone(), tell).await;
        let checks = checks.map_err(|error| self.failed(error))?;

        let mut findings = Vec::new();
        if let Some(manifest) = newest {
            findings.extend(generations::judge_tags(manifest, &wal.rows));
            if let Some(mem_wal) = &later {
                findings.extend(generations::judge_sstables(manifest, mem_wal.compacted(id)));
            }
            if let Some(mem_wal) = &earlier {
                findings.extend(base::judge_shard(mem_wal, manifest));
            }
        }
        findings.extend(wal.findings);
        for check in checks {
            checked = checked.plus(counted(&check));
            findings.extend(check.findings.into_iter().map(Finding::from));
        }
        let (newest, highest) = (newest.cloned(), history.highest);
        findings.extend(history.findings);
        Ok(Look { checked, findings, newest, highest, stale: wal.stale })
    }

    /// A directory without manifests is what an unfinished creation leaves, unless rows are in it.
    async fn without_manifest(&self, id: ShardId) -> Result<Look, Error> {
        let entries = self.stored(self.table.store().list(&path::wal_dir(id)).await)?;
        let is_entry = |path: &str| path.rsplit('/').next().and_then(path::parse_wal_name).is_some();
        let entries = entries.iter().filter(|entry| is_entry(&entry.path)).count();
        let mut look = Look::default();
        if entries > 0 {
            look.checked.shards = 1;
            let found = format!("the shard has {entries} WAL entries and no manifest");
            let advice = "its rows are not read: restore the manifests from a backup";
            look.findings.push(Finding::new("P8", path::manifest_dir(id), found, advice));
        }
        Ok(look)
    }

    async fn mem_wal(&self) -> Result<Option<MemWal>, Error> {
        self.table.mem_wal().await.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: TableError) -> Error {
        Error::table(self.uri, error)
    }

    fn stored<T>(&self, answer: Result<T, StoreError>) -> Result<T, Error> {
        answer.map_err(|error| Error::storage(self.uri, error))
    }
}

/// Whether a row can be in the wrong shard.
fn spreads(sharding: &Sharding) -> bool {
    sharding.column().is_some()
}
