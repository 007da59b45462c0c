//! Some columns of an SSTable: as a stream without hidden rows, or of single rows; and the keys of all rows.
//!
//! Owns: what reads of people need beside the seam of the engine. Does not own: which rows are hidden by
//! newer sources (`headwater_engine::shadow`); those the SSTable itself knows of, replaced rows and
//! tombstones, are left out here.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future};
use headwater_engine::ingest::batch_keys;
use headwater_engine::shadow::{SourceKeys, SourceKeysBuilder, unmarked};
use headwater_engine::table::TableError;
use headwater_format::coord::RowOffset;
use headwater_format::key::KeySchema;
use headwater_format::schema::TOMBSTONE;
use lance_core::datatypes::Schema as LanceSchema;
use lance_file::reader::ReaderProjection;
use lance_io::ReadBatchParams;
use roaring::RoaringBitmap;

use super::reader::{SsTableFiles, corrupt, projection};
use super::retype::retype_batch;
use crate::error;

impl SsTableFiles {
    /// Rows in the data file, replaced ones and tombstones included.
    pub fn rows(&self) -> u64 {
        self.physical_rows
    }

    /// Offsets of the rows its own deletion vector marks: replaced inside the generation.
    pub fn replaced(&self) -> &RoaringBitmap {
        &self.replaced
    }

    /// Offsets of the rows that are deletes. Read once.
    ///
    /// # Errors
    /// What storage said.
    pub async fn tombstones(&self) -> Result<Arc<RoaringBitmap>, TableError> {
        self.tombstones.get_or_try_init(|| self.read_tombstones()).await.cloned()
    }

    async fn read_tombstones(&self) -> Result<Arc<RoaringBitmap>, TableError> {
        let mut batches = self.start(ReadBatchParams::RangeFull, &self.part(&[TOMBSTONE])?).await?;
        let (mut found, mut start) = (RoaringBitmap::new(), 0_u32);
        while let Some(batch) = batches.try_next().await? {
            let marks = batch.columns().first().and_then(|column| column.as_boolean_opt());
            let marks =
                marks.ok_or_else(|| corrupt(&self.layout, format!("{TOMBSTONE} is no Boolean column")))?;
            found.extend(marks.values().set_indices().map(|row| start.saturating_add(row as u32)));
            start = start.saturating_add(marks.len() as u32);
        }
        Ok(Arc::new(found))
    }

    /// The keys of all physical rows.
    ///
    /// # Errors
    /// [`TableError::Corrupt`] when they are not the keys of as many rows as the SSTable has; otherwise what
    /// storage said.
    pub async fn keys(&self, key: &KeySchema) -> Result<SourceKeys, TableError> {
        let names: Vec<&str> = key.columns().iter().map(|column| column.name.as_str()).collect();
        let mut batches = self.start(ReadBatchParams::RangeFull, &self.part(&names)?).await?;
        let mut builder = SourceKeysBuilder::default();
        let wrong = |reason: String| corrupt(&self.layout, reason);
        while let Some(batch) = batches.try_next().await? {
            let keys = batch_keys(key, &batch).map_err(|error| wrong(error.to_string()))?;
            builder.push(&keys).map_err(|error| wrong(error.to_string()))?;
        }
        let keys = builder.finish();
        keys.check_rows(self.physical_rows).map_err(|error| wrong(error.to_string()))?;
        Ok(keys)
    }

    /// The live rows that are not in `hidden`, in insert order, with the columns of `schema`, which are
    /// columns of the table. Starts reading when it is polled; dropping it stops the reading.
    pub fn stream(
        self: Arc<Self>,
        schema: SchemaRef,
        hidden: Arc<RoaringBitmap>,
    ) -> BoxStream<'static, Result<RecordBatch, TableError>> {
        let started = async move {
            let gone = &(&self.replaced | &*self.tombstones().await?) | &*hidden;
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let batches = if names.is_empty() {
                self.row_counts()
            } else {
                self.start(ReadBatchParams::RangeFull, &self.part(&names)?).await?
            };
            let mut start = 0_u32;
            Ok(batches.map(move |batch| {
                let batch = batch?;
                let first = start;
                start = start.saturating_add(batch.num_rows() as u32);
                self.shown(&batch, first, &gone, &schema)
            }))
        };
        let batches = futures::stream::once(started).try_flatten();
        batches.try_filter(|batch| future::ready(batch.num_rows() > 0)).boxed()
    }

    /// The rows at `offsets`, in that order, with the columns of `schema`.
    ///
    /// # Errors
    /// [`TableError::Corrupt`] when they are not there; otherwise what storage said.
    pub async fn take(&self, offsets: &[RowOffset], schema: &SchemaRef) -> Result<RecordBatch, TableError> {
        let distinct: RoaringBitmap = offsets.iter().map(|offset| offset.get()).collect();
        let ascending: UInt32Array = distinct.iter().collect::<Vec<_>>().into();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let rows = self.read_ascending(ascending, &self.part(&names)?).await?;
        // The rank of a member counts itself.
        let order: UInt32Array =
            offsets.iter().map(|offset| (distinct.rank(offset.get()) as u32).saturating_sub(1)).collect();
        let rows =
            take_record_batch(&rows, &order).map_err(|error| error::of_arrow("reading rows", &error))?;
        retype_batch(&rows, schema).map_err(|error| corrupt(&self.layout, error.to_string()))
    }

    fn shown(
        &self,
        batch: &RecordBatch,
        first: u32,
        gone: &RoaringBitmap,
        schema: &SchemaRef,
    ) -> Result<RecordBatch, TableError> {
        let wrong = |error: arrow_schema::ArrowError| corrupt(&self.layout, error.to_string());
        let rows = batch.num_rows() as u32;
        match unmarked(gone, first..first.saturating_add(rows)) {
            None => retype_batch(batch, schema).map_err(wrong),
            Some(kept) => {
                let kept = filter_record_batch(batch, &BooleanArray::new(kept, None)).map_err(wrong)?;
                retype_batch(&kept, schema).map_err(wrong)
            }
        }
    }

    /// Batches without columns, for a read that needs none.
    fn row_counts(&self) -> BoxStream<'static, Result<RecordBatch, TableError>> {
        let empty = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(self.physical_rows as usize));
        let batch = RecordBatch::try_new_with_options(empty, Vec::new(), &options);
        let batch = batch.map_err(|error| error::of_arrow("counting rows", &error));
        futures::stream::once(future::ready(batch)).boxed()
    }

    /// Reads the columns of these names.
    fn part(&self, names: &[&str]) -> Result<ReaderProjection, TableError> {
        let field = |name: &&str| {
            let field = self.columns.fields.iter().find(|field| field.name == **name);
            field.cloned().ok_or_else(|| corrupt(&self.layout, format!("column {name:?} is missing")))
        };
        let fields = names.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        projection(&self.layout, &self.data, &LanceSchema { fields, metadata: HashMap::new() })
    }
}
