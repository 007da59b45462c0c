//! The rows read workloads read: an int64 key, 100 bytes of text and an int32 value; and which of them
//! replace which.
//!
//! Owns: [`Layout`], [`Rows`] and [`Digest`]. Does not own: writing them (`tiers`). A row is told by its
//! number and its version: version 0 is in the base, version `p + 1` came with part `p`. Parts are what
//! becomes an SSTable each, and the memtable last. Every part has its share of the replaced base rows,
//! spread over the base; new keys, a tenth as many; and a tenth of the part before it once more, so that
//! SSTables have hidden rows too.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use anyhow::{Context, Result};
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::data::{self, KEY, TEXT_BYTES};

/// The column R2 reads.
pub const VALUE: &str = "value";
const TEXT: &str = "text";
/// All of them.
pub const COLUMNS: [&str; 3] = [KEY, TEXT, VALUE];
/// Rows of a batch of a plain Lance write.
const WRITE_ROWS: u64 = 8_192;
/// Rows of a put.
const PUT_ROWS: usize = 1_000;
/// A prime that divides no base here: multiplying by it modulo the base permutes its rows.
const SPREAD: u64 = 1_000_003;

/// The shape of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout {
    /// Rows of the base.
    pub base: usize,
    /// SSTables. There is always a memtable beside them.
    pub sstables: usize,
    /// Percent of base rows that newer ones replace.
    pub replaced: usize,
}

impl Layout {
    /// For people.
    pub fn name(self) -> String {
        let (base, sstables, replaced) = (self.base, self.sstables, self.replaced);
        format!("{base} base rows, {sstables} SSTables + memtable, {replaced} % replaced")
    }
}

/// Where the newest row of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In the memtable.
    Memtable,
    /// In any SSTable.
    SsTable,
    /// In the base.
    Base,
}

/// All rows of a table of some layout.
pub struct Rows {
    /// Its shape.
    pub layout: Layout,
    /// Numbers of the rows of each part.
    parts: Vec<Vec<u64>>,
    /// By number: the newest version.
    newest: Arc<[u16]>,
}

impl Rows {
    /// Of this shape.
    pub fn new(layout: Layout) -> Self {
        let count = layout.sstables + 1;
        let base = layout.base as u64;
        let replaced = layout.base * layout.replaced / 100;
        let new = (replaced / 10).max(layout.base / 1_000).max(count);
        let replaced: Vec<u64> = (0..replaced as u64).map(|rank| rank * SPREAD % base).collect();
        let new: Vec<u64> = (base..base + new as u64).collect();
        let mut newest = vec![0_u16; layout.base + new.len()];
        let mut parts: Vec<Vec<u64>> = Vec::with_capacity(count);
        for part in 0..count {
            let mut numbers = share(&replaced, part, count).to_vec();
            numbers.extend_from_slice(share(&new, part, count));
            if let Some(before) = parts.last() {
                numbers.extend(before.iter().step_by(10));
            }
            for number in &numbers {
                if let Some(newest) = newest.get_mut(*number as usize) {
                    *newest = part as u16 + 1;
                }
            }
            parts.push(numbers);
        }
        Self { layout, parts, newest: newest.into() }
    }

    /// The columns. `marked` adds Lance's marker to the key.
    pub fn schema(marked: bool) -> SchemaRef {
        let key = if marked { data::marked_key() } else { Field::new(KEY, DataType::Int64, false) };
        let text = Field::new(TEXT, DataType::Utf8, true);
        Arc::new(Schema::new(vec![key, text, Field::new(VALUE, DataType::Int32, true)]))
    }

    /// Rows of the base, in the order of their numbers.
    pub fn base(&self) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + use<> {
        batches(self.layout.base as u64, |_| 0)
    }

    /// The live rows, in the order of their numbers: what a plain table holds in their place.
    pub fn live(&self) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + use<> {
        let newest = Arc::clone(&self.newest);
        batches(newest.len() as u64, move |number| version(&newest, number))
    }

    /// The puts of a part.
    pub fn puts(&self, part: usize) -> Result<Vec<RecordBatch>, ArrowError> {
        let words = data::words();
        let numbers = self.parts.get(part).map(Vec::as_slice).unwrap_or_default();
        let puts = numbers.chunks(PUT_ROWS).map(|numbers| {
            let rows = numbers.iter().map(|number| (*number, part as u16 + 1));
            batch(&words, &rows.collect::<Vec<_>>(), &Self::schema(false))
        });
        puts.collect()
    }

    /// Rows of the largest part.
    pub fn largest_part(&self) -> usize {
        self.parts.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Keys that are not only in the base.
    pub fn fresh_keys(&self) -> usize {
        self.newest.iter().filter(|version| **version > 0).count()
    }

    /// How many rows live.
    pub fn live_count(&self) -> u64 {
        self.newest.len() as u64
    }

    /// `count` numbers of rows whose newest version is in `tier`, scattered, some several times if there are
    /// fewer.
    pub fn numbers_in(&self, tier: Tier, count: usize) -> Result<Vec<u64>> {
        let memtable = self.layout.sstables as u16 + 1;
        let within = |version: u16| match tier {
            Tier::Base => version == 0,
            Tier::Memtable => version == memtable,
            Tier::SsTable => version > 0 && version < memtable,
        };
        let all = self.newest.iter().enumerate().filter(|(_, version)| within(**version));
        let all: Vec<u64> = all.map(|(number, _)| number as u64).collect();
        let picked = (0..count as u64).map(|rank| {
            let place = (rank * SPREAD).checked_rem(all.len() as u64)?;
            all.get(usize::try_from(place).ok()?).copied()
        });
        picked.collect::<Option<_>>().with_context(|| format!("no key is in {tier:?}"))
    }

    /// The value a read of this row gives.
    pub fn value(&self, number: u64) -> i32 {
        value(number, version(&self.newest, number))
    }
}

/// The rows of one of `count` parts of the same size.
fn share(numbers: &[u64], part: usize, count: usize) -> &[u64] {
    let (from, to) = (numbers.len() * part / count, numbers.len() * (part + 1) / count);
    numbers.get(from..to).unwrap_or_default()
}

fn version(newest: &[u16], number: u64) -> u16 {
    usize::try_from(number).ok().and_then(|number| newest.get(number)).copied().unwrap_or(0)
}

fn batches(
    count: u64,
    version: impl Fn(u64) -> u16 + Send + 'static,
) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static {
    let (words, schema) = (data::words(), Rows::schema(true));
    (0..count.div_ceil(WRITE_ROWS)).map(move |index| {
        let numbers = index * WRITE_ROWS..count.min((index + 1) * WRITE_ROWS);
        batch(&words, &numbers.map(|number| (number, version(number))).collect::<Vec<_>>(), &schema)
    })
}

/// Rows by number and version.
fn batch(words: &[&str], rows: &[(u64, u16)], schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let keys: Int64Array = rows.iter().map(|(number, _)| data::key(*number)).collect::<Vec<i64>>().into();
    let mut texts = StringBuilder::with_capacity(rows.len(), rows.len() * TEXT_BYTES);
    for (number, version) in rows {
        texts.append_value(data::text(words, seed(*number, *version)));
    }
    let values = rows.iter().map(|(number, version)| value(*number, *version));
    let values: Int32Array = values.collect::<Vec<i32>>().into();
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(texts.finish()), Arc::new(values)];
    RecordBatch::try_new(Arc::clone(schema), columns)
}

fn value(number: u64, version: u16) -> i32 {
    let mut state = seed(number, version);
    i32::try_from(data::mixed(&mut state) >> 33).unwrap_or(0)
}

/// Numbers stay below 2^40.
fn seed(number: u64, version: u16) -> u64 {
    number | u64::from(version) << 40
}

/// What a read came to, whatever the order of its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Rows.
    pub rows: u64,
    /// Sum of a hash of each row.
    pub sum: u64,
}

impl Digest {
    /// Adds the rows of `batch`, of whose columns these are looked at.
    pub fn add(&mut self, batch: &RecordBatch, columns: &[&str]) -> Result<()> {
        let mut hashes = vec![DefaultHasher::new(); batch.num_rows()];
        for name in columns {
            let column = batch.column_by_name(name).with_context(|| format!("no column {name}"))?;
            hash_column(column, &mut hashes).with_context(|| format!("column {name}"))?;
        }
        self.rows += hashes.len() as u64;
        self.sum = hashes.iter().fold(self.sum, |sum, hash| sum.wrapping_add(hash.finish()));
        Ok(())
    }
}

fn hash_column(column: &ArrayRef, hashes: &mut [DefaultHasher]) -> Result<()> {
    if column.null_count() > 0 {
        anyhow::bail!("there are nulls, and none was written");
    }
    if let Some(keys) = column.as_primitive_opt::<Int64Type>() {
        hashes.iter_mut().zip(keys.values()).for_each(|(hash, key)| hash.write_i64(*key));
    } else if let Some(values) = column.as_primitive_opt::<Int32Type>() {
        hashes.iter_mut().zip(values.values()).for_each(|(hash, value)| hash.write_i32(*value));
    } else if let Some(texts) = column.as_string_opt::<i32>() {
        let texts = texts.iter().map(Option::unwrap_or_default);
        hashes.iter_mut().zip(texts).for_each(|(hash, text)| hash.write(text.as_bytes()));
    } else {
        anyhow::bail!("it has another type than was written: {}", column.data_type());
    }
    Ok(())
}
