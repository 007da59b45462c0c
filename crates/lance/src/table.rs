//! A Lance table with a write tier, opened once.
//!
//! Owns: [`LanceTable`], its options, opening, and the newest known version of the base. Does not own:
//! creating tables (`create`), initialising the write tier (`init`), shards (`shards`), the engine's view of
//! it (`table_io`), versions that are read (`pin`). Keeps P16: every path below the table goes through the
//! object store and the credentials the table was opened with.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use futures::FutureExt;
use headwater_engine::table::TableError;
use headwater_format::key::KeySchema;
use headwater_store::env::EnvRef;
use headwater_store::local::{local_store, sync_tree};
use headwater_store::{RetryPolicy, Store};
use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance::index::DatasetIndexExt;
use lance::session::Session;
use lance_core::cache::LanceCache;
use lance_io::object_store::{ObjectStore, ObjectStoreParams, StorageOptionsAccessor, WrappingObjectStore};
use lance_io::scheduler::{ScanScheduler, SchedulerConfig};
use lance_table::format::IndexMetadata;
use lance_table::io::commit::{CommitHandler, commit_handler_from_url};
use lance_table::system_index::mem_wal::{
    MEM_WAL_INDEX_NAME, MemWalIndexDetails, load_mem_wal_index_details,
};
use object_store::path::Path;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::error;
use crate::location::normalize;
use crate::mem_wal::MemWal;
use crate::pin::LastPin;
use crate::schema::TableSchema;
use crate::serving::RecordedValues;
use crate::sstable::{FailedAttempts, ReaderCache};

/// Bytes of index pages and of file metadata Lance may keep for the tables of one [`Connection`], each.
const SESSION_CACHE_BYTES: usize = 256 << 20;
/// Bytes of sidecar pages and file metadata of SSTables one table may keep.
const SSTABLE_CACHE_BYTES: usize = 128 << 20;

/// How to reach a table.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Credentials and settings of the object store, as Lance names them (`aws_region`, `endpoint`, …).
    pub storage_options: BTreeMap<String, String>,
    /// On local disk, whether what is acknowledged has reached stable storage (default). Without it a power
    /// cut may take back acknowledged writes.
    pub fsync: bool,
    /// How often and how long requests are tried.
    pub retry: RetryPolicy,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { storage_options: BTreeMap::new(), fsync: true, retry: RetryPolicy::default() }
    }
}

/// What tables opened by one process share: Lance's caches and its object stores, so that two tables of one
/// bucket use one client. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    session: Arc<Session>,
    wrapper: Option<Arc<dyn WrappingObjectStore>>,
}

impl Default for Connection {
    fn default() -> Self {
        let session = Session::new(SESSION_CACHE_BYTES, SESSION_CACHE_BYTES, Arc::default());
        Self { session: Arc::new(session), wrapper: None }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("wrapper", &self.wrapper).finish_non_exhaustive()
    }
}

impl Connection {
    /// Puts a layer around every object store the tables use, to meter requests or inject faults. Lance
    /// bypasses it on `file://`, where it uses the file system directly.
    #[must_use]
    pub fn with_wrapper(mut self, wrapper: Arc<dyn WrappingObjectStore>) -> Self {
        self.wrapper = Some(wrapper);
        self
    }

    /// The session Lance keeps its caches in.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// How Lance is to reach storage.
    pub fn store_params(&self, options: &TableOptions) -> ObjectStoreParams {
        let storage_options: HashMap<String, String> =
            options.storage_options.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let accessor = (!storage_options.is_empty())
            .then(|| Arc::new(StorageOptionsAccessor::with_static_options(storage_options)));
        ObjectStoreParams {
            storage_options_accessor: accessor,
            object_store_wrapper: self.wrapper.clone(),
            ..ObjectStoreParams::default()
        }
    }
}

/// A Lance table and the shards in front of it. Use it behind an [`Arc`], under `TokioEnv`.
pub struct LanceTable {
    pub(crate) uri: String,
    pub(crate) env: EnvRef,
    pub(crate) store: Store,
    pub(crate) object_store: Arc<ObjectStore>,
    pub(crate) base: Path,
    pub(crate) commit_handler: Arc<dyn CommitHandler>,
    pub(crate) readers: ReaderCache,
    pub(crate) scheduler: Arc<ScanScheduler>,
    pub(crate) sstable_cache: LanceCache,
    pub(crate) recorded: RecordedValues,
    pub(crate) failed_attempts: FailedAttempts,
    pub(crate) last_pin: LastPin,
    on_local_disk: bool,
    /// The table's directory, when writes must be synced.
    synced_root: Option<PathBuf>,
    opened: Arc<TableSchema>,
    newest: Mutex<Newest>,
}

/// The newest version of the base this process knows.
struct Newest {
    dataset: Dataset,
    schema: Arc<TableSchema>,
    /// The incarnation every later version must have.
    incarnation: Option<Uuid>,
}

impl fmt::Debug for LanceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LanceTable").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl LanceTable {
    /// Opens the Lance table at `uri`, with or without a write tier.
    ///
    /// # Errors
    /// [`TableError::NotFound`] when there is none, [`TableError::Invalid`] when its key or columns are not
    /// such as a write tier can have.
    pub async fn open(uri: &str, options: &TableOptions, env: EnvRef) -> Result<Arc<Self>, TableError> {
        Self::open_with(&Connection::default(), uri, options, env).await
    }

    /// [`Self::open`], sharing caches and object stores with other tables of `connection`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_with(
        connection: &Connection,
        uri: &str,
        options: &TableOptions,
        env: EnvRef,
    ) -> Result<Arc<Self>, TableError> {
        let uri = normalize(uri)?;
        let asked = env.now();
        let params = connection.store_params(options);
        let opening = DatasetBuilder::from_uri(&uri)
            .with_session(Arc::clone(&connection.session))
            .with_store_params(params.clone())
            .load();
        let dataset = reading(&uri, opening).await?;
        let commit_handler = commit_handler_from_url(&uri, &Some(params))
            .await
            .map_err(|error| error::of_table(&uri, error))?;
        let table = Self::over(uri, dataset, commit_handler, options, env).await?;
        table.keep_opened(asked).await?;
        Ok(table)
    }

    async fn over(
        uri: String,
        dataset: Dataset,
        commit_handler: Arc<dyn CommitHandler>,
        options: &TableOptions,
        env: EnvRef,
    ) -> Result<Arc<Self>, TableError> {
        let object_store = dataset.object_store(None).await.map_err(|error| error::of_table(&uri, error))?;
        let base = dataset.branch_location().path;
        let schema = Arc::new(schema_of(&dataset)?);
        let local_dir = (object_store.scheme() == "file" && object_store.is_local())
            .then(|| PathBuf::from(lance_io::local::to_local_path(&base)));
        let store = match &local_dir {
            Some(dir) => {
                let disk = local_store(dir, options.fsync).map_err(error::of_store)?;
                Store::new(disk, Path::default(), Arc::clone(&env), options.retry)
            }
            None => {
                Store::new(Arc::clone(&object_store.inner), base.clone(), Arc::clone(&env), options.retry)
            }
        };
        let scheduler =
            ScanScheduler::new(Arc::clone(&object_store), SchedulerConfig::max_bandwidth(&object_store));
        let details = details_of(&dataset).await.map_err(|error| error::of_table(&uri, error))?;
        let incarnation = match details {
            Some(details) => MemWal::read(&details, dataset.schema())?.incarnation,
            None => None,
        };
        let newest = Newest { dataset, schema: Arc::clone(&schema), incarnation };
        Ok(Arc::new(Self {
            uri,
            env,
            store,
            object_store,
            base,
            commit_handler,
            readers: ReaderCache::default(),
            scheduler,
            sstable_cache: LanceCache::with_capacity(SSTABLE_CACHE_BYTES),
            recorded: RecordedValues::default(),
            failed_attempts: FailedAttempts::default(),
            last_pin: LastPin::default(),
            on_local_disk: local_dir.is_some(),
            synced_root: local_dir.filter(|_| options.fsync),
            opened: schema,
            newest: Mutex::new(newest),
        }))
    }

    /// Where the table is: as given, without trailing slashes and empty query.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Whether it lies on a disk of this machine.
    pub fn on_local_disk(&self) -> bool {
        self.on_local_disk
    }

    /// The base's schema when it was opened: fields carry `lance:field_id` and key markers, no `_tombstone`.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.opened.logical)
    }

    /// The key; `None` when the table is append-only.
    pub fn key(&self) -> Option<&KeySchema> {
        self.opened.key.as_ref()
    }

    /// The table's own object store, rooted at the table. WAL entries and shard manifests go through it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The write tier as the newest version of the base records it; `None` when the table has none.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when it is recorded in a way this version does not know; otherwise what
    /// storage said.
    pub async fn mem_wal(&self) -> Result<Option<MemWal>, TableError> {
        let (dataset, _) = self.refresh().await?;
        let details = self.details(&dataset).await?;
        details.map(|details| MemWal::read(&details, dataset.schema())).transpose()
    }

    /// The newest version of the base and its schema. One listing, and one read when there is a newer one.
    pub(crate) async fn refresh(&self) -> Result<(Dataset, Arc<TableSchema>), TableError> {
        let (mut dataset, mut schema) = self.known();
        let known = dataset.version_id();
        reading(&self.uri, dataset.checkout_latest()).await?;
        if dataset.version_id() != known {
            schema = Arc::new(schema_of(&dataset)?);
        }
        self.adopt(&dataset, &schema);
        Ok((dataset, schema))
    }

    /// The newest version of the base, its schema, and its write tier, which must be the one this process
    /// knows.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when the table is gone, has no write tier any more, or another one; otherwise
    /// what storage said.
    pub(crate) async fn current_write_tier(&self) -> Result<(Dataset, Arc<TableSchema>, MemWal), TableError> {
        let (dataset, schema) = self.refresh().await.map_err(|error| match error {
            TableError::NotFound { .. } => TableError::invalid("the table is gone"),
            other => other,
        })?;
        let Some(mem_wal) = self.initialised(&dataset).await? else {
            return Err(TableError::invalid(
                "the table has no write tier (any more): initialise it before writing",
            ));
        };
        if self.incarnation().is_some_and(|known| mem_wal.incarnation != Some(known)) {
            return Err(self.made_anew());
        }
        if let Some(found) = mem_wal.incarnation {
            self.learn_incarnation(found);
        }
        Ok((dataset, schema, mem_wal))
    }

    /// Why a process stops that wrote to an earlier incarnation.
    pub(crate) fn made_anew(&self) -> TableError {
        TableError::invalid(
            "the write tier of the table was made anew since this process opened it: open the table again",
        )
    }

    /// The newest version this process knows of, without asking storage.
    pub(crate) fn known(&self) -> (Dataset, Arc<TableSchema>) {
        let newest = self.newest.lock();
        (newest.dataset.clone(), Arc::clone(&newest.schema))
    }

    /// Remembers a version that was read or committed, unless a later one is known: requests that overlap end
    /// in any order, and a shard that has written under a schema must not meet the one before it again.
    pub(crate) fn adopt(&self, dataset: &Dataset, schema: &Arc<TableSchema>) {
        let mut newest = self.newest.lock();
        if dataset.version_id() < newest.dataset.version_id() {
            return;
        }
        newest.dataset = dataset.clone();
        newest.schema = Arc::clone(schema);
    }

    /// The incarnation every version from now on must have, if it is known.
    pub(crate) fn incarnation(&self) -> Option<Uuid> {
        self.newest.lock().incarnation
    }

    /// Remembers the incarnation, unless one is known already.
    pub(crate) fn learn_incarnation(&self, incarnation: Uuid) {
        self.newest.lock().incarnation.get_or_insert(incarnation);
    }

    /// The MemWAL details of a version of the base.
    pub(crate) async fn details(&self, dataset: &Dataset) -> Result<Option<MemWalIndexDetails>, TableError> {
        details_of(dataset).await.map_err(|error| error::of_table(&self.uri, error))
    }

    /// Makes what Lance wrote below `directory` of the table survive a power cut; nothing to do but on local
    /// disk.
    pub(crate) async fn sync(&self, directory: &str) -> Result<(), TableError> {
        let Some(root) = &self.synced_root else { return Ok(()) };
        sync_tree(self.env.as_ref(), root.join(directory)).await.map_err(error::of_store)
    }
}

/// Waits for a version of the base to be read. A manifest that was cut short or overwritten makes Lance
/// panic; no panic reaches a caller (P14).
pub(crate) async fn reading<T>(
    uri: &str,
    read: impl Future<Output = lance_core::Result<T>>,
) -> Result<T, TableError> {
    match AssertUnwindSafe(read).catch_unwind().await {
        Ok(read) => read.map_err(|error| error::of_table(uri, error)),
        Err(_panic) => Err(TableError::Corrupt {
            path: format!("{uri}/_versions"),
            reason:
                "the newest manifest of the base cannot be what its name says: restore it from a backup, \
                     or remove it to go back to the version before"
                    .to_owned(),
        }),
    }
}

/// The index entry that makes a version of a table one with a write tier.
pub(crate) async fn mem_wal_entry(dataset: &Dataset) -> lance_core::Result<Option<IndexMetadata>> {
    let indexes = dataset.load_indices().await?;
    Ok(indexes.iter().find(|index| index.name == MEM_WAL_INDEX_NAME).cloned())
}

async fn details_of(dataset: &Dataset) -> lance_core::Result<Option<MemWalIndexDetails>> {
    mem_wal_entry(dataset).await?.map(load_mem_wal_index_details).transpose()
}

pub(crate) fn schema_of(dataset: &Dataset) -> Result<TableSchema, TableError> {
    let file_version = dataset.manifest().data_storage_format.lance_file_format();
    TableSchema::of(dataset.schema(), file_version)
}
