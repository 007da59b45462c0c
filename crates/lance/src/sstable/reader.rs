//! Reading an SSTable: rows by offset, rows by key, the newest row of each key.
//!
//! Owns: [`SsTableFiles`], an open SSTable. Reads the files at their own paths below the table, through the
//! table's own object store; no URI is derived (P16, lance#6713, lance#7735). Keys are looked up in the
//! sidecar, which answers exactly.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use headwater_engine::shadow::unmarked;
use headwater_engine::table::{SsTableReader, TableError};
use headwater_format::bloom::Bloom;
use headwater_format::coord::RowOffset;
use headwater_format::key::KeySchema;
use headwater_format::schema::schema_difference;
use lance_core::cache::LanceCache;
use lance_core::datatypes::Schema as LanceSchema;
use lance_encoding::decoder::{DecoderPlugins, FilterExpression};
use lance_file::reader::{FileReader, FileReaderOptions, ReaderProjection};
use lance_file::versions::reader_projection_from_field_ids;
use lance_io::ReadBatchParams;
use lance_io::object_store::ObjectStore;
use lance_io::scheduler::ScanScheduler;
use lance_table::feature_flags::can_read_dataset;
use lance_table::format::{DataFile, Fragment, Manifest};
use lance_table::io::deletion::read_deletion_file;
use lance_table::io::manifest::read_manifest;
use roaring::RoaringBitmap;
use tokio::sync::OnceCell;

use super::layout::{FRAGMENT, Layout};
use super::retype::retype_batch;
use super::sidecar::{Sidecar, key_values};
use crate::error;
use crate::schema::{TableSchema, logical_schema};

/// Rows decoded at once.
const BATCH_ROWS: u32 = 8192;
/// Batches decoded ahead.
const READ_AHEAD: u32 = 4;

/// What opening an SSTable needs.
pub(crate) struct OpenFiles<'a> {
    /// The table's own object store.
    pub store: &'a Arc<ObjectStore>,
    /// Schedules reads on that store.
    pub scheduler: &'a Arc<ScanScheduler>,
    /// Keeps pages of sidecars and file metadata.
    pub cache: &'a LanceCache,
    /// The schema of the base.
    pub schema: &'a Arc<TableSchema>,
}

/// An open SSTable.
#[derive(Debug)]
pub struct SsTableFiles {
    pub(super) layout: Layout,
    pub(super) schema: Arc<TableSchema>,
    pub(super) store: Arc<ObjectStore>,
    pub(super) data: DataFile,
    file: FileReader,
    /// As its manifest has it: field ids and what each column is called.
    pub(crate) columns: LanceSchema,
    pub(crate) every_column: ReaderProjection,
    key_columns: Option<ReaderProjection>,
    pub(super) replaced: RoaringBitmap,
    sidecar: Option<Sidecar>,
    pub(super) physical_rows: u64,
    pub(super) tombstones: OnceCell<Arc<RoaringBitmap>>,
    pub(super) bloom: OnceCell<Option<Bloom>>,
}

impl SsTableFiles {
    /// Opens the SSTable at `layout`: manifest, data file footer, deletion vector, page table of the sidecar.
    ///
    /// # Errors
    /// [`TableError::NotFound`] when a file is missing, [`TableError::Corrupt`] when one cannot be what it
    /// should be, [`TableError::SchemaChanged`] when the SSTable has other columns than the base.
    pub(crate) async fn open(open: &OpenFiles<'_>, layout: Layout) -> Result<Self, TableError> {
        let manifest = read_table_manifest(open, &layout).await?;
        check_schema(open.schema, &layout, &manifest.schema)?;
        let (fragment, data) = only_fragment(&layout, &manifest)?;
        let (file, replaced, sidecar) = futures::try_join!(
            open_data(open, &layout, data),
            read_replaced(open, &layout, fragment),
            open_sidecar(open, &layout),
        )?;
        let physical_rows = file.num_rows();
        let recorded = fragment.physical_rows.map(|rows| rows as u64);
        if recorded.is_some_and(|recorded| recorded != physical_rows) {
            let reason = format!("its manifest counts {recorded:?} rows, its data file has {physical_rows}");
            return Err(corrupt(&layout, reason));
        }
        let every_column = projection(&layout, data, &manifest.schema)?;
        let key_columns = match &open.schema.key {
            Some(key) => Some(projection(&layout, data, &key_part(&layout, key, &manifest.schema)?)?),
            None => None,
        };
        let (store, schema, data) = (Arc::clone(open.store), Arc::clone(open.schema), data.clone());
        Ok(Self {
            store,
            data,
            layout,
            schema,
            file,
            columns: manifest.schema,
            every_column,
            key_columns,
            replaced,
            sidecar,
            physical_rows,
            tombstones: OnceCell::new(),
            bloom: OnceCell::new(),
        })
    }

    /// Refuses to be read as part of a table with other columns than it was opened for (P15).
    ///
    /// # Errors
    /// [`TableError::SchemaChanged`] that says what differs.
    pub(crate) fn check_columns(&self, schema: &Arc<TableSchema>) -> Result<(), TableError> {
        if Arc::ptr_eq(&self.schema, schema) {
            return Ok(());
        }
        check_schema(schema, &self.layout, &self.columns)
    }

    async fn read(
        &self,
        rows: ReadBatchParams,
        projection: &ReaderProjection,
    ) -> Result<Vec<RecordBatch>, TableError> {
        self.start(rows, projection).await?.try_collect().await
    }

    /// Starts reading rows, a batch at a time and a few ahead.
    pub(crate) async fn start(
        &self,
        rows: ReadBatchParams,
        projection: &ReaderProjection,
    ) -> Result<BoxStream<'static, Result<RecordBatch, TableError>>, TableError> {
        let everything = FilterExpression::no_filter();
        let reading =
            self.file.read_stream_projected(rows, BATCH_ROWS, READ_AHEAD, projection.clone(), everything);
        let (store, layout, data) = (Arc::clone(&self.store), self.layout.clone(), self.data.clone());
        let stream = match reading.await {
            Ok(stream) => stream,
            Err(error) => return Err(data_error(&store, &layout, &data, error).await),
        };
        let explained = stream.or_else(move |error| {
            let (store, layout, data) = (Arc::clone(&store), layout.clone(), data.clone());
            async move { Err(data_error(&store, &layout, &data, error).await) }
        });
        Ok(explained.boxed())
    }

    /// The rows at `offsets`, which ascend strictly, under the columns of `projection`.
    pub(super) async fn read_ascending(
        &self,
        offsets: UInt32Array,
        projection: &ReaderProjection,
    ) -> Result<RecordBatch, TableError> {
        let wanted = offsets.len();
        let schema: SchemaRef = Arc::new(arrow_schema::Schema::from(projection.schema.as_ref()));
        if wanted == 0 {
            return Ok(RecordBatch::new_empty(schema));
        }
        let batches = self.read(ReadBatchParams::Indices(offsets), projection).await?;
        let first = batches.first().map(RecordBatch::schema).unwrap_or(schema);
        let rows =
            concat_batches(&first, &batches).map_err(|error| corrupt(&self.layout, error.to_string()))?;
        if rows.num_rows() != wanted {
            let reason = format!("{wanted} rows were asked for, {} came back", rows.num_rows());
            return Err(corrupt(&self.layout, reason));
        }
        Ok(rows)
    }

    fn in_storage_schema(&self, batch: &RecordBatch) -> Result<RecordBatch, TableError> {
        retype_batch(batch, &self.schema.storage).map_err(|error| corrupt(&self.layout, error.to_string()))
    }
}

#[async_trait]
impl SsTableReader for SsTableFiles {
    fn physical_rows(&self) -> u64 {
        self.physical_rows
    }

    async fn find_keys(&self, keys: &RecordBatch) -> Result<Vec<Vec<RowOffset>>, TableError> {
        let (Some(key), Some(key_columns)) = (&self.schema.key, &self.key_columns) else {
            return Err(TableError::invalid("the table has no key: its rows cannot be looked up by key"));
        };
        let Some(sidecar) = &self.sidecar else {
            return Err(TableError::NotFound { path: self.layout.relative_file("_pk_index") });
        };
        let wanted = key_values(key, keys)?;
        let candidates = sidecar
            .candidates(&wanted)
            .await
            .map_err(|error| error::of_file(&self.layout.relative_file("_pk_index"), error))?;
        // Asked for such a row, the data file would be blamed.
        if let Some(beyond) = candidates.iter().find(|row| u64::from(**row) >= self.physical_rows) {
            let reason = format!("it names row {beyond}, and there are {}", self.physical_rows);
            return Err(TableError::Corrupt { path: self.layout.relative_file("_pk_index"), reason });
        }
        let rows = self.read_ascending(UInt32Array::from(candidates.clone()), key_columns).await?;
        let invalid = |error: headwater_format::key::KeyError| TableError::invalid(error.to_string());
        let found = key.encode(&rows).map_err(|error| corrupt(&self.layout, error.to_string()))?;
        let mut offsets: HashMap<&[u8], Vec<RowOffset>> = HashMap::with_capacity(found.len());
        for (row, offset) in candidates.into_iter().enumerate() {
            offsets.entry(found.value(row)).or_default().push(RowOffset::new(offset));
        }
        let wanted = key.encode(keys).map_err(invalid)?;
        let answers =
            (0..wanted.len()).map(|row| offsets.get(wanted.value(row)).cloned().unwrap_or_default());
        Ok(answers.collect())
    }

    async fn read_rows(&self, offsets: &[RowOffset]) -> Result<RecordBatch, TableError> {
        if let Some(beyond) = offsets.iter().find(|offset| u64::from(offset.get()) >= self.physical_rows) {
            return Err(TableError::invalid(format!(
                "row {beyond} is out of range: {} has {} rows",
                self.layout.relative(),
                self.physical_rows
            )));
        }
        let distinct: RoaringBitmap = offsets.iter().map(|offset| offset.get()).collect();
        let ascending: UInt32Array = distinct.iter().collect::<Vec<_>>().into();
        let rows = self.read_ascending(ascending, &self.every_column).await?;
        let places: BTreeMap<u32, u32> = distinct.iter().zip(0..).collect();
        let order: UInt32Array =
            offsets.iter().filter_map(|offset| places.get(&offset.get()).copied()).collect();
        let rows =
            take_record_batch(&rows, &order).map_err(|error| error::of_arrow("reading rows", &error))?;
        self.in_storage_schema(&rows)
    }

    async fn scan(&self) -> Result<Vec<RecordBatch>, TableError> {
        let batches = self.read(ReadBatchParams::RangeFull, &self.every_column).await?;
        let mut live = Vec::with_capacity(batches.len());
        let mut start: u32 = 0;
        for batch in batches {
            let end = u32::try_from(batch.num_rows()).ok().and_then(|rows| start.checked_add(rows));
            let end = end.ok_or_else(|| corrupt(&self.layout, "more rows than offsets".to_owned()))?;
            let rows = match unmarked(&self.replaced, start..end) {
                None => batch,
                Some(kept) => filter_record_batch(&batch, &BooleanArray::new(kept, None))
                    .map_err(|error| error::of_arrow("scanning", &error))?,
            };
            if rows.num_rows() > 0 {
                live.push(self.in_storage_schema(&rows)?);
            }
            start = end;
        }
        Ok(live)
    }
}

async fn read_table_manifest(open: &OpenFiles<'_>, layout: &Layout) -> Result<Manifest, TableError> {
    let (path, named) = (layout.manifest(), layout.relative_file("_versions"));
    // One that was cut short or overwritten makes Lance panic; no panic reaches a caller (P14).
    let manifest = match AssertUnwindSafe(read_manifest(open.store, &path, None)).catch_unwind().await {
        Ok(manifest) => manifest.map_err(|error| error::of_file(&named, error))?,
        Err(_panic) => {
            let reason = "its manifest cannot be what its name says".to_owned();
            return Err(TableError::Corrupt { path: named, reason });
        }
    };
    if !can_read_dataset(manifest.reader_feature_flags) {
        let flags = manifest.reader_feature_flags;
        return Err(TableError::invalid(format!(
            "{} needs reader features ({flags:#b}) that this version does not know",
            layout.relative()
        )));
    }
    Ok(manifest)
}

/// How the columns of the SSTable at `layout` differ from the base's, if they do. Reads its manifest only.
///
/// # Errors
/// What storage said.
pub(crate) async fn column_difference(
    open: &OpenFiles<'_>,
    layout: &Layout,
) -> Result<Option<String>, TableError> {
    Ok(difference(open.schema, layout, &read_table_manifest(open, layout).await?.schema))
}

fn difference(schema: &TableSchema, layout: &Layout, columns: &LanceSchema) -> Option<String> {
    let difference = schema_difference(&schema.storage, &logical_schema(columns))?;
    Some(format!(
        "{} has not the schema of the table: {difference}; reading generations over a schema change is not \
         supported yet: restore the table to a version with the former schema",
        layout.relative()
    ))
}

/// An SSTable of another schema than the base's would serve wrong columns: refused for now (P15, lance#9143).
fn check_schema(schema: &TableSchema, layout: &Layout, columns: &LanceSchema) -> Result<(), TableError> {
    match difference(schema, layout, columns) {
        None => Ok(()),
        Some(reason) => Err(TableError::SchemaChanged { reason }),
    }
}

/// The one fragment of an SSTable and its one data file.
fn only_fragment<'a>(
    layout: &Layout,
    manifest: &'a Manifest,
) -> Result<(&'a Fragment, &'a DataFile), TableError> {
    let [fragment] = manifest.fragments.as_slice() else {
        let reason = format!("an SSTable has one fragment, this has {}", manifest.fragments.len());
        return Err(corrupt(layout, reason));
    };
    match fragment.files.as_slice() {
        [data] if fragment.id == u64::from(FRAGMENT) => Ok((fragment, data)),
        _ => {
            Err(corrupt(layout, format!("fragment {} has {} data files", fragment.id, fragment.files.len())))
        }
    }
}

async fn open_data(open: &OpenFiles<'_>, layout: &Layout, data: &DataFile) -> Result<FileReader, TableError> {
    let path = layout.data(&data.path);
    let opened = async {
        let file = open.scheduler.open_file(&path, &data.file_size_bytes).await?;
        let options = FileReaderOptions::default();
        FileReader::try_open(file, None, Arc::<DecoderPlugins>::default(), open.cache, options).await
    };
    match opened.await {
        Ok(file) => Ok(file),
        Err(error) => Err(data_error(open.store, layout, data, error).await),
    }
}

/// What a failed read of the data file means. A file that was cut short fails like storage does, so its size
/// is compared with the one the manifest records.
async fn data_error(
    store: &ObjectStore,
    layout: &Layout,
    data: &DataFile,
    error: lance_core::Error,
) -> TableError {
    let path = layout.relative_file(&format!("data/{}", data.path));
    if let Some(recorded) = data.file_size_bytes.get()
        && let Ok(found) = store.size(&layout.data(&data.path)).await
        && found != recorded.get()
    {
        let reason = format!("its manifest records {recorded} bytes, it has {found}");
        return TableError::Corrupt { path, reason };
    }
    error::of_file(&path, error)
}

async fn read_replaced(
    open: &OpenFiles<'_>,
    layout: &Layout,
    fragment: &Fragment,
) -> Result<RoaringBitmap, TableError> {
    let Some(file) = &fragment.deletion_file else { return Ok(RoaringBitmap::new()) };
    let vector = read_deletion_file(fragment.id, file, layout.root(), open.store)
        .await
        .map_err(|error| error::of_file(&layout.relative_file("_deletions"), error))?;
    Ok(RoaringBitmap::from(&vector))
}

async fn open_sidecar(open: &OpenFiles<'_>, layout: &Layout) -> Result<Option<Sidecar>, TableError> {
    if open.schema.key.is_none() {
        return Ok(None);
    }
    let sidecar = Sidecar::open(open.store, layout.sidecar(), open.cache)
        .await
        .map_err(|error| error::of_file(&layout.relative_file("_pk_index"), error))?;
    Ok(Some(sidecar))
}

/// The key columns of an SSTable's schema, in key order.
fn key_part(layout: &Layout, key: &KeySchema, schema: &LanceSchema) -> Result<LanceSchema, TableError> {
    let fields = key
        .columns()
        .iter()
        .map(|column| {
            let field = schema.fields.iter().find(|field| field.name == column.name);
            field.cloned().ok_or_else(|| corrupt(layout, format!("key column {:?} is missing", column.name)))
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(LanceSchema { fields, metadata: HashMap::new() })
}

/// Reads the columns of `schema` by field id from the places the manifest records (P15).
pub(super) fn projection(
    layout: &Layout,
    data: &DataFile,
    schema: &LanceSchema,
) -> Result<ReaderProjection, TableError> {
    let places = data.fields.iter().zip(data.column_indices.iter());
    let places: BTreeMap<u32, u32> = places
        .filter_map(|(field, column)| Some((u32::try_from(*field).ok()?, u32::try_from(*column).ok()?)))
        .collect();
    let version = data.file_version().map_err(|error| corrupt(layout, error.to_string()))?;
    reader_projection_from_field_ids(version, schema, &places)
        .map_err(|error| corrupt(layout, error.to_string()))
}

pub(super) fn corrupt(layout: &Layout, reason: String) -> TableError {
    TableError::Corrupt { path: layout.relative().to_owned(), reason }
}
