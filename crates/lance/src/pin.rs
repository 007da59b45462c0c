//! Versions of the base that are pinned for reading.
//!
//! Owns: [`BaseVersion`], and when storage is asked for a newer one: always ([`LanceTable::pin`]), or when
//! the last answer is too old ([`LanceTable::pin_known`]). A version never changes, and a read of an older
//! one is right as long as the shards still have the generations that are not part of it; who puts both
//! together checks that. What this process commits itself is pinned from then on. Does not own: reading.

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{Schema, SchemaRef};
use headwater_engine::table::TableError;
use headwater_format::key::KeySchema;
use lance::Dataset;
use lance_core::datatypes::Schema as LanceSchema;
use parking_lot::Mutex;

use crate::mem_wal::MemWal;
use crate::schema::TableSchema;
use crate::table::{LanceTable, reading, schema_of};

/// One version of the base, pinned for reading.
#[derive(Clone, Debug)]
pub struct BaseVersion {
    /// The version.
    pub dataset: Arc<Dataset>,
    /// Its columns as Lance's readers give them: no field ids, no `_tombstone`.
    pub columns: SchemaRef,
    /// What memtables and SSTables of this version have: field ids, non-key columns nullable, `_tombstone`.
    pub storage: SchemaRef,
    /// The key; none when the table is append-only.
    pub key: Option<KeySchema>,
    /// What it says about the write tier: which generations are part of it.
    pub mem_wal: Arc<MemWal>,
    /// Whether it was asked for by its number. Then it is read alone: rows of the write tier are of now.
    pub by_number: bool,
    /// As SSTables of these columns are opened.
    pub(crate) schema: Arc<TableSchema>,
}

impl BaseVersion {
    fn new(dataset: Dataset, schema: Arc<TableSchema>, mem_wal: MemWal, by_number: bool) -> Self {
        let columns = Arc::new(Schema::from(dataset.schema()));
        let (storage, key) = (Arc::clone(&schema.storage), schema.key.clone());
        let (dataset, mem_wal) = (Arc::new(dataset), Arc::new(mem_wal));
        Self { dataset, columns, storage, key, mem_wal, by_number, schema }
    }

    /// The top-level columns of exactly these names, in this order; names of no column are passed over. By
    /// schema and not by text: a name may hold what Lance would take for a path.
    pub fn part(&self, names: &[&str]) -> LanceSchema {
        let schema = self.dataset.schema();
        let field = |name: &&str| schema.fields.iter().find(|field| field.name == **name).cloned();
        LanceSchema { fields: names.iter().filter_map(field).collect(), metadata: schema.metadata.clone() }
    }
}

/// The version pinned last, and when storage was asked for it.
#[derive(Debug, Default)]
pub(crate) struct LastPin {
    inner: Mutex<Option<(Duration, BaseVersion)>>,
}

impl LastPin {
    /// Unless a later answer is here: answers come in any order.
    fn keep(&self, asked: Duration, version: &BaseVersion) {
        let mut last = self.inner.lock();
        if last.as_ref().is_none_or(|(before, _)| *before <= asked) {
            *last = Some((asked, version.clone()));
        }
    }

    fn asked_since(&self, since: Duration) -> Option<BaseVersion> {
        let last = self.inner.lock();
        last.as_ref().filter(|(asked, _)| *asked >= since).map(|(_, version)| version.clone())
    }
}

impl LanceTable {
    /// Pins the newest version of the base for reading. Asks storage.
    ///
    /// # Errors
    /// [`TableError::Unavailable`] when storage does not answer; [`TableError::Invalid`] when the table is
    /// gone, has no write tier any more, or another one than when it was opened.
    pub async fn pin(&self) -> Result<BaseVersion, TableError> {
        let asked = self.env.now();
        let (dataset, schema, mem_wal) = self.current_write_tier().await?;
        let version = BaseVersion::new(dataset, schema, mem_wal, false);
        self.last_pin.keep(asked, &version);
        Ok(version)
    }

    /// As [`Self::pin`], without asking storage when it was asked within `max_age`: what others have
    /// committed since is not seen then. What this process has committed since is.
    ///
    /// # Errors
    /// As [`Self::pin`].
    pub async fn pin_known(&self, max_age: Duration) -> Result<BaseVersion, TableError> {
        if !max_age.is_zero()
            && let Some(last) = self.last_pin.asked_since(self.env.now().saturating_sub(max_age))
            && last.dataset.version_id() == self.known().0.version_id()
        {
            return Ok(last);
        }
        self.pin().await
    }

    /// Pins the version the table was opened at, which was the newest when storage was `asked`.
    pub(crate) async fn keep_opened(&self, asked: Duration) -> Result<(), TableError> {
        let (dataset, schema) = self.known();
        if let Some(details) = self.details(&dataset).await? {
            let mem_wal = MemWal::read(&details, dataset.schema())?;
            self.last_pin.keep(asked, &BaseVersion::new(dataset, schema, mem_wal, false));
        }
        Ok(())
    }

    /// The write tier as the version that was pinned last records it; `None` when that had none.
    pub fn known_mem_wal(&self) -> Option<Arc<MemWal>> {
        let last = self.last_pin.inner.lock();
        last.as_ref().map(|(_, version)| Arc::clone(&version.mem_wal))
    }

    /// Makes the next [`Self::pin_known`] ask storage, whatever is known.
    pub fn distrust_pin(&self) {
        self.last_pin.inner.lock().take();
    }

    /// Pins the version of this number, to be read alone.
    ///
    /// # Errors
    /// [`TableError::Invalid`] when there is no such version (any more), or its columns are such as no write
    /// tier can have; [`TableError::Unavailable`] when storage does not answer.
    pub async fn pin_version(&self, version: u64) -> Result<BaseVersion, TableError> {
        let (newest, _) = self.known();
        let dataset = reading(self.uri(), newest.checkout_version(version)).await;
        let dataset = dataset.map_err(|error| match error {
            TableError::NotFound { .. } => TableError::invalid(format!(
                "the base has no version {version}: it was cleaned up, or never made; the newest known is {}",
                newest.version_id()
            )),
            other => other,
        })?;
        let schema = Arc::new(schema_of(&dataset)?);
        let details = self.details(&dataset).await?;
        let mem_wal = details.map(|details| MemWal::read(&details, dataset.schema())).transpose()?;
        Ok(BaseVersion::new(dataset, schema, mem_wal.unwrap_or_else(MemWal::none), true))
    }
}
