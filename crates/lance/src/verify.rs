//! Checking what lies on storage: an SSTable file by file, and what the base says about its write tier.
//!
//! Owns: [`LanceTable::check_sstable`] (P9, P15, P16), [`LanceTable::check_base`] and
//! [`LanceTable::check_indexes`] (P16). Does not own: which SSTables there should be, WAL entries, shard
//! manifests (`headwater::verify`, which calls this). Writes nothing. What is wrong is a [`FileFinding`];
//! an error says that storage did not answer, so nothing was found out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use futures::{StreamExt, TryStreamExt};
use headwater_engine::ingest::batch_keys;
use headwater_engine::shadow::SourceKeys;
use headwater_engine::table::{SsTableReader, TableError};
use headwater_format::bloom::Bloom;
use headwater_format::coord::{RowOffset, ShardId};
use headwater_format::key::KeySchema;
use headwater_format::path::{parse_sstable_name, sstable_dir};
use headwater_format::schema::TOMBSTONE;
use headwater_format::shard_manifest::SsTable;
use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance::index::DatasetIndexExt;
use lance_io::ReadBatchParams;
use lance_table::format::{DataFile, IndexMetadata};
use lance_table::system_index::mem_wal::{MemWalIndexDetails, load_mem_wal_index_details};
use roaring::RoaringBitmap;

use crate::error;
use crate::key_index::is_btree;
use crate::location::normalize;
use crate::mem_wal::MemWal;
use crate::schema::{TableSchema, check_supported, column, logical_schema};
use crate::sharding::{ShardValue, Sharding};
use crate::sstable::{BLOOM_NAME, SsTableFiles};
use crate::table::{Connection, LanceTable, TableOptions, mem_wal_entry, reading};

/// Where the base keeps what the findings about it are about.
const VERSIONS: &str = "_versions";
const INDICES: &str = "_indices";
const DATA: &str = "data";
/// Files asked for at once.
const FILES_AT_ONCE: usize = 16;

const RESTORE: &str = "reads of this generation fail or miss rows: restore the SSTable's directory from a \
                       backup; while WAL entries at or below the replay cursor are still there, they hold \
                       its rows too";
const RESTORE_LOOKUP: &str =
    "rows are there but lookups by key can miss them: restore the file from a backup";
const RESTORE_DATA: &str = "rows of the base cannot be read: restore the file from a backup, or go back to a \
                            version of the table that does not name it";
const REPAIR_BASE: &str = "writers are refused until this is put right: restore the former state of the \
                           base, which Lance keeps as an earlier version of the table";

/// Something on storage that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFinding {
    /// Id of the invariant that does not hold.
    pub invariant: &'static str,
    /// Where, below the table.
    pub path: String,
    /// What was found.
    pub found: String,
    /// What it means and what to do.
    pub advice: &'static str,
}

impl FileFinding {
    fn new(
        invariant: &'static str,
        path: impl Into<String>,
        found: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        Self { invariant, path: path.into(), found: found.into(), advice }
    }
}

/// What an SSTable must agree with besides itself.
#[derive(Clone, Debug)]
pub struct SsTableContext<'a> {
    /// How rows are spread over shards; none when that is not known.
    pub sharding: Option<&'a Sharding>,
    /// The value all rows of the shard have, when it is known.
    pub value: Option<ShardValue>,
    /// Whether the bloom filter was written by us, so that it must have every key whatever the key's type.
    pub own_bloom: bool,
}

/// What was found in an SSTable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SsTableCheck {
    /// Rows in its data file, replaced ones and tombstones included.
    pub rows: u64,
    /// Rows its deletion vector marks.
    pub replaced: u64,
    /// Rows that are deletes.
    pub tombstones: u64,
    /// The value all of its rows have: the one asked for, else that of its first row.
    pub value: Option<ShardValue>,
    /// What is wrong.
    pub findings: Vec<FileFinding>,
}

/// What was found in the newest version of the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseCheck {
    /// The version.
    pub version: u64,
    /// Whether it records a write tier.
    pub has_write_tier: bool,
    /// Whether the table can be opened at all.
    pub usable: bool,
    /// What is wrong.
    pub findings: Vec<FileFinding>,
}

/// How much of the base a B-tree on a key column covers. Fragments it does not cover are no fault (others
/// append without maintaining it); lookups scan them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyIndexCoverage {
    /// Name of the index.
    pub name: String,
    /// Fragments of the base.
    pub fragments: u64,
    /// Those it covers.
    pub covered: u64,
}

impl LanceTable {
    /// Reads the whole SSTable and compares everything about it: recorded rows, key sidecar, deletion vector,
    /// bloom filter, columns, shard values. Keeps the keys of its rows in memory, and rows a batch at a time.
    ///
    /// # Errors
    /// [`TableError::Unavailable`], or a refusal of storage: what is wrong with the files is a finding.
    pub async fn check_sstable(
        &self,
        shard: ShardId,
        sstable: &SsTable,
        context: &SsTableContext<'_>,
    ) -> Result<SsTableCheck, TableError> {
        let directory = sstable_dir(shard, &sstable.path);
        let mut check = SsTableCheck { value: context.value.clone(), ..SsTableCheck::default() };
        let generation = sstable.generation;
        if parse_sstable_name(&sstable.path).is_none_or(|(_, named)| named != generation) {
            let found = format!("the manifest names it for generation {generation}, its name does not");
            check.findings.push(FileFinding::new("P9", directory, found, RESTORE));
            return Ok(check);
        }
        if self.store.list(&directory).await.map_err(error::of_store)?.is_empty() {
            let found = "the manifest names this SSTable, but there are no files";
            check.findings.push(FileFinding::new("P9", directory, found, RESTORE));
            return Ok(check);
        }
        if let Err(error) = self.look_into(shard, sstable, context, &mut check).await {
            check.findings.push(self.explain(&directory, error).await?);
        }
        Ok(check)
    }

    async fn look_into(
        &self,
        shard: ShardId,
        sstable: &SsTable,
        context: &SsTableContext<'_>,
        check: &mut SsTableCheck,
    ) -> Result<(), TableError> {
        let directory = sstable_dir(shard, &sstable.path);
        let bloom = match self.key() {
            Some(key) => self.read_bloom(&directory, key, context, &mut check.findings).await?,
            None => None,
        };
        let files = self.sstable_files(shard, sstable).await?;
        check.rows = files.rows();
        check.replaced = files.replaced().len();
        check.findings.extend(rows_as_recorded(&directory, sstable, &files));
        check.findings.extend(columns_as_promised(&directory, &files, self.key())?);
        let key = match self.key() {
            Some(key) => Some((key, files.keys(key).await?)),
            None => None,
        };
        let mut walk = Walk::new(&directory, key, bloom, context);
        let mut batches = files.start(ReadBatchParams::RangeFull, &files.every_column).await?;
        while let Some(batch) = batches.try_next().await? {
            walk.batch(&files, &batch).await?;
        }
        walk.end(&files, check);
        Ok(())
    }

    /// The bloom filter, if what it says can be trusted.
    async fn read_bloom(
        &self,
        directory: &str,
        key: &KeySchema,
        context: &SsTableContext<'_>,
        findings: &mut Vec<FileFinding>,
    ) -> Result<Option<Bloom>, TableError> {
        let path = format!("{directory}/{BLOOM_NAME}");
        let Some(bytes) = self.store.get(&path).await.map_err(error::of_store)? else {
            findings.push(FileFinding::new("P9", path, "the bloom filter is missing", RESTORE_LOOKUP));
            return Ok(None);
        };
        let trusted =
            context.own_bloom || key.columns().iter().all(|column| column.key_type.is_hashed_by_reference());
        match Bloom::from_bytes(&bytes) {
            Ok(bloom) => Ok(trusted.then_some(bloom)),
            Err(error) => {
                findings.push(FileFinding::new("P9", path, error.to_string(), RESTORE_LOOKUP));
                Ok(None)
            }
        }
    }

    /// What an error of reading an SSTable says about its files.
    ///
    /// # Errors
    /// The error itself, when it is about storage and not about the files.
    async fn explain(&self, directory: &str, error: TableError) -> Result<FileFinding, TableError> {
        match error {
            TableError::NotFound { path } => {
                let found = "the manifest names the SSTable, but this part of it is missing";
                Ok(FileFinding::new("P9", path, found, RESTORE))
            }
            TableError::Corrupt { path, reason } => Ok(FileFinding::new("P9", path, reason, RESTORE)),
            TableError::Invalid { reason } | TableError::SchemaChanged { reason } => {
                Ok(FileFinding::new("P15", directory, reason, RESTORE))
            }
            TableError::Unavailable { path, reason } => {
                // A file cut short fails like storage does. When storage answers for every file, it is the
                // file.
                for object in self.store.list(directory).await.map_err(error::of_store)? {
                    self.store.exists(&object.path).await.map_err(error::of_store)?;
                }
                Ok(FileFinding::new("P9", path, reason, RESTORE))
            }
        }
    }
}

fn rows_as_recorded(directory: &str, sstable: &SsTable, files: &SsTableFiles) -> Option<FileFinding> {
    let recorded = sstable.physical_rows.filter(|recorded| *recorded != files.rows())?;
    let found = format!("the shard manifest records {recorded} rows, the data file has {}", files.rows());
    Some(FileFinding::new("P9", directory, found, RESTORE))
}

/// `_tombstone` comes last, and the key is the table's. That columns and field ids are the table's was
/// checked when the SSTable was opened.
fn columns_as_promised(
    directory: &str,
    files: &SsTableFiles,
    key: Option<&KeySchema>,
) -> Result<Vec<FileFinding>, TableError> {
    let mut findings = Vec::new();
    let last = files.columns.fields.last().map(|field| field.name.as_str());
    if last != Some(TOMBSTONE) {
        let found = format!("its last column is {last:?} instead of {TOMBSTONE:?}");
        findings.push(FileFinding::new("P9", directory, found, RESTORE));
    }
    let own = KeySchema::from_schema(&logical_schema(&files.columns))
        .map_err(|error| TableError::Corrupt { path: directory.to_owned(), reason: error.to_string() })?;
    // An SSTable without key markers says nothing about the key.
    if let (Some(own), Some(key)) = (own, key)
        && names(&own) != names(key)
    {
        let found = format!("it has the key ({}), the table has ({})", names(&own), names(key));
        findings.push(FileFinding::new("P16", directory, found, REPAIR_BASE));
    }
    Ok(findings)
}

fn names(key: &KeySchema) -> String {
    key.columns().iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// One pass over all rows of an SSTable.
struct Walk<'a> {
    directory: &'a str,
    key: Option<(&'a KeySchema, SourceKeys)>,
    bloom: Option<Bloom>,
    /// None where every row belongs.
    sharding: Option<&'a Sharding>,
    value: Option<ShardValue>,
    rows: u32,
    tombstones: u64,
    undecided: u64,
    /// Rows that a later one replaces.
    replaced: RoaringBitmap,
    /// Rows the key sidecar knows.
    answered: RoaringBitmap,
    /// Rows whose key the bloom filter denies.
    denied: RoaringBitmap,
    /// Rows that belong to another shard.
    misplaced: RoaringBitmap,
}

impl<'a> Walk<'a> {
    fn new(
        directory: &'a str,
        key: Option<(&'a KeySchema, SourceKeys)>,
        bloom: Option<Bloom>,
        context: &SsTableContext<'a>,
    ) -> Self {
        Self {
            directory,
            key,
            bloom,
            sharding: context.sharding.filter(|sharding| sharding.column().is_some()),
            value: context.value.clone(),
            rows: 0,
            tombstones: 0,
            undecided: 0,
            replaced: RoaringBitmap::new(),
            answered: RoaringBitmap::new(),
            denied: RoaringBitmap::new(),
            misplaced: RoaringBitmap::new(),
        }
    }

    async fn batch(&mut self, files: &SsTableFiles, batch: &RecordBatch) -> Result<(), TableError> {
        let first = self.rows;
        self.rows = first.saturating_add(batch.num_rows() as u32);
        self.count_tombstones(batch);
        self.check_values(first, batch)?;
        let directory = self.directory;
        let wrong = |reason: String| TableError::Corrupt { path: directory.to_owned(), reason };
        let Some((key, keys)) = &self.key else { return Ok(()) };
        let own = batch_keys(key, batch).map_err(|error| wrong(error.to_string()))?;
        let newest: Vec<bool> = (first..)
            .zip(0..batch.num_rows())
            .map(|(offset, row)| keys.newest(&own, row) == Some(RowOffset::new(offset)))
            .collect();
        let older = (first..).zip(&newest).filter(|(_, newest)| !**newest).map(|(offset, _)| offset);
        self.replaced.extend(older);
        if let Some(bloom) = &self.bloom {
            let hashes = key.hashes(batch).map_err(|error| wrong(error.to_string()))?;
            let denied = (first..).zip(hashes).filter(|(_, hash)| !bloom.check(*hash));
            self.denied.extend(denied.map(|(offset, _)| offset));
        }
        // Each key is asked for once, at its last row: a key with many rows would give as many long answers.
        let asked = key.project(batch).map_err(|error| wrong(error.to_string()))?;
        let asked = filter_record_batch(&asked, &BooleanArray::from(newest))
            .map_err(|error| wrong(error.to_string()))?;
        if asked.num_rows() > 0 {
            for offsets in files.find_keys(&asked).await? {
                self.answered.extend(offsets.into_iter().map(RowOffset::get));
            }
        }
        Ok(())
    }

    fn count_tombstones(&mut self, batch: &RecordBatch) {
        let marks = batch.column_by_name(TOMBSTONE).and_then(|column| column.as_boolean_opt());
        if let Some(marks) = marks {
            self.tombstones += marks.true_count() as u64;
            self.undecided += marks.null_count() as u64;
        }
    }

    fn check_values(&mut self, first: u32, batch: &RecordBatch) -> Result<(), TableError> {
        let Some(sharding) = self.sharding else { return Ok(()) };
        let values = sharding.values(batch).map_err(|error| TableError::Corrupt {
            path: self.directory.to_owned(),
            reason: error.to_string(),
        })?;
        for (offset, value) in (first..).zip(values) {
            let expected = self.value.get_or_insert_with(|| value.clone());
            if *expected != value {
                self.misplaced.insert(offset);
            }
        }
        Ok(())
    }

    fn end(self, files: &SsTableFiles, check: &mut SsTableCheck) {
        let below = |file: &str| format!("{}/{file}", self.directory);
        let mut wrong = |invariant, path: String, found: String, advice| {
            check.findings.push(FileFinding::new(invariant, path, found, advice));
        };
        if u64::from(self.rows) != files.rows() {
            let found = format!("{} rows were promised, {} could be read", files.rows(), self.rows);
            wrong("P9", below("data"), found, RESTORE);
        }
        if self.undecided > 0 {
            let found = format!("{TOMBSTONE} is null in {} rows", self.undecided);
            wrong("P9", below("data"), found, RESTORE);
        }
        let (unmarked, hidden) = (&self.replaced - files.replaced(), files.replaced() - &self.replaced);
        if !unmarked.is_empty() {
            let unmarked = list(&unmarked);
            let found = format!("the deletion vector does not mark {unmarked}, which a later row replaces");
            wrong("P9", below("_deletions"), found, RESTORE);
        }
        if !hidden.is_empty() {
            let found = format!("the deletion vector marks {}, which nothing replaces", list(&hidden));
            wrong("P9", below("_deletions"), found, RESTORE);
        }
        let mut all = RoaringBitmap::new();
        if self.key.is_some() {
            all.insert_range(0..self.rows);
        }
        let unknown = all - &self.answered;
        if !unknown.is_empty() {
            let found = format!("the key sidecar does not know {}", list(&unknown));
            wrong("P9", below("_pk_index"), found, RESTORE_LOOKUP);
        }
        if !self.denied.is_empty() {
            let found = format!("the bloom filter denies the keys of {}", list(&self.denied));
            wrong("P9", below(BLOOM_NAME), found, RESTORE_LOOKUP);
        }
        if let (false, Some(value)) = (self.misplaced.is_empty(), &self.value) {
            let found =
                format!("the shard is that of {value}, which is not so for {}", list(&self.misplaced));
            wrong(
                "P16",
                self.directory.to_owned(),
                found,
                "rows of one key may lie in two shards: check that the table's sharding was not changed",
            );
        }
        check.tombstones = self.tombstones;
        check.value = self.value;
    }
}

/// `3 rows (the first at offset 7)`.
fn list(rows: &RoaringBitmap) -> String {
    let first = rows.min().unwrap_or_default();
    match rows.len() {
        1 => format!("the row at offset {first}"),
        several => format!("{several} rows (the first at offset {first})"),
    }
}

impl LanceTable {
    /// Looks at the newest version of the base at `uri` without opening it as a table with a write tier,
    /// which a broken one refuses.
    ///
    /// # Errors
    /// [`TableError::NotFound`] when there is no table, otherwise what storage said.
    pub async fn check_base(uri: &str, options: &TableOptions) -> Result<BaseCheck, TableError> {
        let uri = normalize(uri)?;
        let failed = |error| error::of_table(&uri, error);
        let connection = Connection::default();
        let opening = DatasetBuilder::from_uri(&uri)
            .with_session(Arc::clone(connection.session()))
            .with_store_params(connection.store_params(options))
            .load();
        let dataset = reading(&uri, opening).await?;
        let mut check = BaseCheck {
            version: dataset.version_id(),
            has_write_tier: false,
            usable: false,
            findings: Vec::new(),
        };
        let mut wrong = |found: String| {
            check.findings.push(FileFinding::new("P16", VERSIONS, found, REPAIR_BASE));
        };
        let file_version = dataset.manifest().data_storage_format.lance_file_format();
        let schema = TableSchema::of(dataset.schema(), file_version);
        let details = mem_wal_entry(&dataset).await.map_err(failed)?.map(load_mem_wal_index_details);
        let mem_wal = match &details {
            None => Ok(None),
            Some(Ok(details)) => MemWal::read(details, dataset.schema()).map(Some),
            Some(Err(error)) => Err(TableError::invalid(format!("the MemWAL index cannot be read: {error}"))),
        };
        check.has_write_tier = details.is_some();
        match (&schema, &mem_wal) {
            (Ok(schema), Ok(mem_wal)) => {
                check.usable = true;
                if let Err(error) = check_supported(dataset.schema(), file_version) {
                    wrong(error.to_string());
                }
                if let Some(MemWal { sharding, .. }) = mem_wal
                    && *sharding != Sharding::Manual
                    && let Err(error) = sharding.check(&schema.logical, schema.key.as_ref())
                {
                    wrong(error.to_string());
                }
            }
            (schema, mem_wal) => {
                schema.as_ref().err().into_iter().for_each(|error| wrong(error.to_string()));
                mem_wal.as_ref().err().into_iter().for_each(|error| wrong(error.to_string()));
            }
        }
        Ok(check)
    }

    /// Every data file that a version of the base names is there, with the size it records. Looks at `most`
    /// files at most.
    pub(crate) async fn check_data(
        &self,
        dataset: &Dataset,
        most: usize,
    ) -> Result<Vec<FileFinding>, TableError> {
        // Files of a shallow clone lie in another table.
        let files = dataset.fragments().iter().flat_map(|fragment| &fragment.files);
        let files: Vec<DataFile> = files.filter(|file| file.base_id.is_none()).take(most).cloned().collect();
        let checked = futures::stream::iter(files).map(|file: DataFile| async move {
            let path = format!("{DATA}/{}", file.path);
            let place =
                file.path.split('/').fold(self.base.clone().join(DATA), |above, part| above.join(part));
            let found = match self.object_store.size(&place).await {
                Ok(size) => match file.file_size_bytes.get() {
                    Some(recorded) if recorded.get() != size => {
                        format!("the base records {recorded} bytes, it has {size}")
                    }
                    _ => return Ok(None),
                },
                Err(error) => match error::of_file(&path, error) {
                    TableError::NotFound { .. } => "the base names it, but it is missing".to_owned(),
                    other => return Err(other),
                },
            };
            Ok(Some(FileFinding::new("P16", path, found, RESTORE_DATA)))
        });
        checked.buffered(FILES_AT_ONCE).try_filter_map(futures::future::ok).try_collect().await
    }

    /// Checks the data files of the base, and what it records about the indexes of its write tier: those
    /// named for writers to maintain or as caught up exist, no index is ahead of compaction, and the files of
    /// B-trees on key columns are there.
    ///
    /// # Errors
    /// What storage said.
    pub async fn check_indexes(&self) -> Result<(Vec<KeyIndexCoverage>, Vec<FileFinding>), TableError> {
        let (dataset, schema) = self.refresh().await?;
        let mut findings = self.check_data(&dataset, usize::MAX).await?;
        let indexes = dataset.load_indices().await.map_err(|error| self.base_error(error))?;
        if let Some(details) = self.details(&dataset).await? {
            findings.extend(recorded_indexes(&details, &indexes));
        }
        let key_columns = schema.key.iter().flat_map(|key| key.columns());
        let key_fields: BTreeSet<i32> =
            key_columns.filter_map(|key| column(dataset.schema(), &key.name)).map(|field| field.id).collect();
        let is_key = |index: &&IndexMetadata| {
            is_btree(index) && index.fields.first().is_some_and(|field| key_fields.contains(field))
        };
        for index in indexes.iter().filter(is_key) {
            findings.extend(self.check_index_files(index).await?);
        }
        Ok((coverage(&dataset, indexes.iter().filter(is_key)), findings))
    }

    async fn check_index_files(&self, index: &IndexMetadata) -> Result<Vec<FileFinding>, TableError> {
        // Files of an index that came with another table lie in that table.
        let (None, Some(files)) = (index.base_id, &index.files) else { return Ok(Vec::new()) };
        let mut findings = Vec::new();
        for file in files {
            let path = format!("{INDICES}/{}/{}", index.uuid, file.path);
            if !self.store.exists(&path).await.map_err(error::of_store)? {
                let found = format!("the base names index {:?}, but this file of it is missing", index.name);
                let advice = "lookups by key in the base fail: drop the index and build it again";
                findings.push(FileFinding::new("P16", path, found, advice));
            }
        }
        Ok(findings)
    }
}

/// Names the details record must be those of indexes, and none may be ahead of compaction (P17).
fn recorded_indexes(details: &MemWalIndexDetails, indexes: &[IndexMetadata]) -> Vec<FileFinding> {
    let mut findings = Vec::new();
    let exists = |name: &String| indexes.iter().any(|index| index.name == *name);
    for name in details.maintained_indexes.iter().filter(|name| !exists(name)) {
        let found = format!("writers are to maintain index {name:?}, which the table does not have");
        let advice = "build the index again under that name, or take the name off the list";
        findings.push(FileFinding::new("P16", INDICES, found, advice));
    }
    let compacted: BTreeMap<_, _> =
        details.compacted_sstables.iter().map(|done| (done.shard_id, done.generation)).collect();
    for progress in &details.index_catchup {
        for caught_up in &progress.caught_up_generations {
            let compacted = compacted.get(&caught_up.shard_id).copied().unwrap_or_default();
            if caught_up.generation > compacted {
                let found = format!(
                    "index {:?} is recorded to cover generation {} of shard {}, of which only {compacted} \
                     are in the base",
                    progress.index_name, caught_up.generation, caught_up.shard_id
                );
                let advice = "searches through the index miss rows: build it again";
                findings.push(FileFinding::new("P17", INDICES, found, advice));
            }
        }
    }
    findings
}

/// Of each index, by name, how many fragments its segments cover together.
fn coverage<'a>(
    dataset: &Dataset,
    indexes: impl Iterator<Item = &'a IndexMetadata>,
) -> Vec<KeyIndexCoverage> {
    let existing: RoaringBitmap =
        dataset.fragments().iter().filter_map(|fragment| u32::try_from(fragment.id).ok()).collect();
    let mut covered: BTreeMap<&str, RoaringBitmap> = BTreeMap::new();
    for index in indexes {
        let fragments = covered.entry(index.name.as_str()).or_default();
        if let Some(bitmap) = index.effective_fragment_bitmap(&existing) {
            *fragments |= bitmap;
        }
    }
    covered
        .into_iter()
        .map(|(name, fragments)| KeyIndexCoverage {
            name: name.to_owned(),
            fragments: existing.len(),
            covered: fragments.len(),
        })
        .collect()
}
