//! Get: the live rows of some keys, without planning.
//!
//! Owns: [`GetRequest`]. Looks where the newest rows are first: memtables from the active one back, SSTables
//! newest first, then the base through its key index; a key that was found is not looked for any further
//! (P4). A tombstone is found, and gives no row.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::interleave::interleave_record_batch;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::Expr;
use futures::TryStreamExt;
use headwater_engine::ingest::batch_keys;
use headwater_engine::memtable::{BatchKeys, MemtableView};
use headwater_engine::table::SsTableReader;
use headwater_format::coord::{RowOffset, Seq};
use headwater_format::key::KeySchema;
use headwater_lance::{SsTableFiles, retype_batch};

use crate::error::QueryError;
use crate::snapshot::ReadSnapshot;

/// Keys the base is asked for at once.
const KEYS_PER_PROBE: usize = 500;

/// Which rows to get.
#[derive(Clone, Debug)]
pub struct GetRequest {
    /// The key columns, found by name. Integers of another width and text of another offset width are fine.
    pub keys: RecordBatch,
    /// Top-level columns to return, in this order; none = all.
    pub columns: Option<Vec<String>>,
}

/// Found rows: for each, which key it has, and the row.
#[derive(Default)]
struct Found {
    batches: Vec<RecordBatch>,
    /// Key, batch, row.
    rows: Vec<(usize, usize, usize)>,
}

impl Found {
    fn add(&mut self, batch: RecordBatch, keys: impl IntoIterator<Item = usize>) {
        let number = self.batches.len();
        self.rows.extend(keys.into_iter().enumerate().map(|(row, key)| (key, number, row)));
        self.batches.push(batch);
    }

    /// In the order of the keys.
    fn finish(mut self, schema: &SchemaRef) -> Result<RecordBatch, QueryError> {
        self.rows.sort_unstable();
        if self.rows.is_empty() {
            return Ok(RecordBatch::new_empty(Arc::clone(schema)));
        }
        if schema.fields().is_empty() {
            let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
            let rows = RecordBatch::try_new_with_options(Arc::clone(schema), Vec::new(), &options);
            return rows.map_err(QueryError::execution);
        }
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let places: Vec<_> = self.rows.iter().map(|(_, batch, row)| (*batch, *row)).collect();
        interleave_record_batch(&batches, &places).map_err(QueryError::execution)
    }
}

impl ReadSnapshot {
    /// The live rows of `request.keys`, in the order of the keys. A key without a row gives none, a key asked
    /// for twice gives its row twice, and a key that the base has in several rows gives all of them.
    ///
    /// # Errors
    /// [`QueryError::Keys`] when the table has no key, or the columns are not those of its key;
    /// [`QueryError::Column`]; otherwise as [`ReadSnapshot::scan`].
    pub async fn get(&self, request: &GetRequest) -> Result<RecordBatch, QueryError> {
        let output = self.output(request.columns.as_deref())?;
        let Some(key) = &self.base().key else {
            let reason = "the table has no key: its rows are found by a filter only".to_owned();
            return Err(QueryError::Keys { reason });
        };
        let keys = in_key_types(key, &request.keys)?;
        let wanted = batch_keys(key, &keys).map_err(|error| keys_error(&error))?;
        let mut open: Vec<usize> = (0..keys.num_rows()).collect();
        let mut found = Found::default();
        for shard in self.shards() {
            let at = shard.snapshot.seq();
            let memtables = shard.memtables(self.base().mem_wal.compacted(shard.snapshot.shard()))?;
            for view in memtables.iter().rev() {
                let taken = from_memtable(view, &wanted, &mut open, at, &output);
                let taken = taken.map_err(|error| QueryError::shard(shard.snapshot.shard(), error))?;
                add(&mut found, taken);
            }
            if open.is_empty() {
                break;
            }
            let names = shard.sstables.iter().map(|sstable| &sstable.path);
            for (name, files) in names.zip(shard.open(self.table()).await?).rev() {
                let known = self.cache().known_sstable_keys(shard.snapshot.shard(), name);
                let newest = match known {
                    Some(known) => open.iter().map(|row| known.newest(&wanted, *row)).collect(),
                    None => by_sidecar(&files, &keys, &open).await?,
                };
                add(&mut found, from_sstable(&files, newest, &mut open, &output).await?);
            }
        }
        self.add_from_base(key, &keys, &open, &output, &mut found).await?;
        found.finish(&output)
    }

    async fn add_from_base(
        &self,
        key: &KeySchema,
        keys: &RecordBatch,
        open: &[usize],
        output: &SchemaRef,
        found: &mut Found,
    ) -> Result<(), QueryError> {
        let dataset = &self.base().dataset;
        if open.is_empty() || dataset.fragments().is_empty() {
            return Ok(());
        }
        let encoded = key.encode(keys).map_err(|error| keys_error(&error))?;
        let mut wanted: HashMap<&[u8], Vec<usize>> = HashMap::new();
        open.iter().for_each(|row| wanted.entry(encoded.value(*row)).or_default().push(*row));
        let failed = |error| QueryError::Table(self.table().base_error(error));
        // Also what was not asked for, to tell which row has which key.
        let names: Vec<&str> = read_columns(key, output);
        for some in open.chunks(KEYS_PER_PROBE) {
            let mut scanner = dataset.scan();
            scanner
                .project_with_schema(&self.base().part(&names))
                .map_err(failed)?
                .filter_expr(any_of(key, keys, some)?);
            let mut rows = scanner.try_into_stream().await.map_err(failed)?;
            while let Some(batch) = rows.try_next().await.map_err(failed)? {
                let of = key.encode(&batch).map_err(QueryError::execution)?;
                let shown = retype_batch(&batch, output).map_err(QueryError::execution)?;
                let number = found.batches.len();
                for row in 0..batch.num_rows() {
                    let keys = wanted.get(of.value(row)).map(Vec::as_slice).unwrap_or_default();
                    let keys = keys.iter().filter(|key| some.contains(key));
                    found.rows.extend(keys.map(|key| (*key, number, row)));
                }
                found.batches.push(shown);
            }
        }
        Ok(())
    }
}

type Taken = Option<(RecordBatch, Vec<usize>)>;

fn add(found: &mut Found, taken: Taken) {
    if let Some((batch, keys)) = taken {
        found.add(batch, keys);
    }
}

/// Takes the rows of keys that `view` has, and those keys out of `open`.
fn from_memtable(
    view: &MemtableView,
    wanted: &BatchKeys,
    open: &mut Vec<usize>,
    at: Seq,
    output: &SchemaRef,
) -> Result<Taken, headwater_engine::hold::Violation> {
    let (mut offsets, mut of) = (Vec::new(), Vec::new());
    open.retain(|row| {
        let Some(offset) = view.find(wanted, *row, at) else { return true };
        if !view.is_tombstone(offset) {
            offsets.push(offset);
            of.push(*row);
        }
        false
    });
    if offsets.is_empty() {
        return Ok(None);
    }
    let rows = retype_batch(&view.take(&offsets)?, output);
    let rows = rows.map_err(|error| headwater_engine::hold::Violation::new("P15", error.to_string()))?;
    Ok(Some((rows, of)))
}

/// Takes the rows at `newest`, one answer for each of `open`, and the keys that have one out of `open`.
async fn from_sstable(
    files: &SsTableFiles,
    newest: Vec<Option<RowOffset>>,
    open: &mut Vec<usize>,
    output: &SchemaRef,
) -> Result<Taken, QueryError> {
    if newest.iter().all(Option::is_none) {
        return Ok(None);
    }
    let tombstones = files.tombstones().await?;
    let (mut offsets, mut of, mut still) = (Vec::new(), Vec::new(), Vec::new());
    for (row, offset) in open.iter().zip(newest) {
        let Some(offset) = offset else {
            still.push(*row);
            continue;
        };
        if !tombstones.contains(offset.get()) {
            offsets.push(offset);
            of.push(*row);
        }
    }
    *open = still;
    if offsets.is_empty() {
        return Ok(None);
    }
    Ok(Some((files.take(&offsets, output).await?, of)))
}

/// The newest row of each key of `open`, by the key sidecar.
async fn by_sidecar(
    files: &SsTableFiles,
    keys: &RecordBatch,
    open: &[usize],
) -> Result<Vec<Option<RowOffset>>, QueryError> {
    let rows: arrow_array::UInt32Array = open.iter().map(|row| *row as u32).collect();
    let keys = arrow_select::take::take_record_batch(keys, &rows).map_err(QueryError::execution)?;
    let found = files.find_keys(&keys).await?;
    Ok(found.into_iter().map(|rows| rows.last().copied()).collect())
}

/// The key columns of `keys`, in the types of the table.
fn in_key_types(key: &KeySchema, keys: &RecordBatch) -> Result<RecordBatch, QueryError> {
    let mut columns: BTreeMap<&str, ArrayRef> = BTreeMap::new();
    for (place, field) in keys.schema().fields().iter().enumerate() {
        let Some(column) = key.columns().iter().find(|column| column.name == *field.name()) else {
            let names: Vec<&str> = key.columns().iter().map(|column| column.name.as_str()).collect();
            let reason = format!("{:?} is no key column: the key is {}", field.name(), names.join(", "));
            return Err(QueryError::Keys { reason });
        };
        columns.insert(&column.name, cast(keys.column(place), &column.data_type, &column.name)?);
    }
    let in_order = key.columns().iter().map(|column| {
        let values = columns.get(column.name.as_str()).cloned();
        values.ok_or_else(|| QueryError::Keys { reason: format!("key column {:?} is missing", column.name) })
    });
    let in_order = in_order.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(keys.num_rows()));
    RecordBatch::try_new_with_options(key.schema(), in_order, &options)
        .map_err(|error| QueryError::Keys { reason: error.to_string() })
}

/// The same values in the type of a key column, where they are of its kind and fit.
fn cast(values: &ArrayRef, wanted: &DataType, column: &str) -> Result<ArrayRef, QueryError> {
    let text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let bytes = |of: &DataType| matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let given = values.data_type();
    let alike = given == wanted
        || (given.is_integer() && wanted.is_integer())
        || (text(given) && text(wanted))
        || (bytes(given) && bytes(wanted));
    let refused = |reason: String| QueryError::Keys { reason: format!("key column {column:?}: {reason}") };
    if !alike {
        return Err(refused(format!("{given} values were given, the table has {wanted}")));
    }
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(values, wanted, &exact).map_err(|error| refused(error.to_string()))
}

/// True for rows that have one of the keys at `rows`.
fn any_of(key: &KeySchema, keys: &RecordBatch, rows: &[usize]) -> Result<Expr, QueryError> {
    let column = |name: &str| Expr::Column(Column::from_name(name));
    let value = |place: usize, row: usize| {
        let value = ScalarValue::try_from_array(keys.column(place), row)?;
        Ok::<_, QueryError>(Expr::Literal(value, None))
    };
    if let Some(single) = key.single() {
        let values = rows.iter().map(|row| value(0, *row)).collect::<Result<Vec<_>, _>>()?;
        return Ok(column(&single.name).in_list(values, false));
    }
    let same = |row: usize| {
        let parts = key.columns().iter().enumerate();
        let parts = parts.map(|(place, part)| Ok(column(&part.name).eq(value(place, row)?)));
        let parts = parts.collect::<Result<Vec<Expr>, QueryError>>()?;
        Ok(parts.into_iter().reduce(Expr::and).unwrap_or_else(|| Expr::Literal(true.into(), None)))
    };
    let any = rows.iter().map(|row| same(*row)).collect::<Result<Vec<_>, QueryError>>()?;
    Ok(balanced_or(any).unwrap_or_else(|| Expr::Literal(false.into(), None)))
}

/// All of `parts` joined by OR as a balanced tree: a chain of hundreds would recurse too deep.
fn balanced_or(mut parts: Vec<Expr>) -> Option<Expr> {
    while parts.len() > 1 {
        let mut pairs = std::mem::take(&mut parts).into_iter();
        while let Some(left) = pairs.next() {
            parts.push(match pairs.next() {
                Some(right) => left.or(right),
                None => left,
            });
        }
    }
    parts.pop()
}

fn read_columns<'a>(key: &'a KeySchema, output: &'a SchemaRef) -> Vec<&'a str> {
    let mut names: Vec<&str> = output.fields().iter().map(|field| field.name().as_str()).collect();
    for column in key.columns() {
        if !names.contains(&column.name.as_str()) {
            names.push(&column.name);
        }
    }
    names
}

fn keys_error(error: &impl std::fmt::Display) -> QueryError {
    QueryError::Keys { reason: error.to_string() }
}
