//! Tables with rows in every tier, and the plain table of the rows that are live.

use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    RecordBatchIterator, StringArray, StructArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use headwater::{Sharding, Table};
use lance::Dataset;
use lance::dataset::{WriteMode, WriteParams};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::support::{Home, keys, options};

/// Where the rows of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Base,
    Memtables,
    BaseSsTables,
    BaseSsTablesMemtable,
    DeletedStable,
    KeysTwice,
    Shards,
    Emptied,
}

/// What the key of a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `id`.
    Id,
    /// `k` and `part`: a text and a number, neither of which tells rows apart alone.
    TextAndInt,
}

impl Key {
    fn names(self) -> Vec<String> {
        let names: &[&str] = match self {
            Self::Id => &["id"],
            Self::TextAndInt => &["k", "part"],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The columns that a table has because of its key, besides those of every table.
    fn columns(self, ids: &[i64]) -> Vec<(&'static str, ArrayRef)> {
        match self {
            Self::Id => Vec::new(),
            Self::TextAndInt => {
                let k = StringArray::from_iter_values(ids.iter().map(|id| format!("k{}", id / 5)));
                let part = Int32Array::from_iter_values(ids.iter().map(|id| (id % 5) as i32));
                vec![("k", Arc::new(k)), ("part", Arc::new(part))]
            }
        }
    }

    fn fields(self) -> Vec<Field> {
        let columns = self.columns(&[]).into_iter();
        columns.map(|(name, column)| Field::new(name, column.data_type().clone(), false)).collect()
    }

    /// The keys of these rows.
    fn keys(self, ids: &[i64]) -> RecordBatch {
        match self {
            Self::Id => keys(ids),
            Self::TextAndInt => {
                let columns = self.columns(ids).into_iter().map(|(_, column)| column).collect();
                RecordBatch::try_new(Arc::new(Schema::new(self.fields())), columns).unwrap()
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Row {
    id: i64,
    n: Option<i64>,
    small: Option<i32>,
    x: Option<f64>,
    name: Option<String>,
    mixed: Option<i64>,
    flag: Option<bool>,
    meta: Option<(Option<i64>, Option<String>)>,
    v: Option<[f32; DIMENSION as usize]>,
}

/// Numbers in a vector of column `v`.
pub const DIMENSION: i32 = 4;

impl Row {
    fn random(id: i64, chance: &mut SmallRng) -> Self {
        fn some<T>(chance: &mut SmallRng, value: impl FnOnce(&mut SmallRng) -> T) -> Option<T> {
            chance.random_bool(0.8).then(|| value(chance))
        }
        let pick = |chance: &mut SmallRng, of: &[&str]| (*of.choose(chance).unwrap()).to_owned();
        // Sums of these are exact in any order.
        let floats = [0.0, -0.0, 1.5, -2.25, 8.0, f64::NAN, 0.5];
        // Drawn by themselves, so that the other values are those of earlier versions of the test.
        let v = vector(&mut SmallRng::seed_from_u64(chance.clone().random()));
        Self {
            v,
            id,
            n: some(chance, |chance| chance.random_range(-5..20)),
            small: some(chance, |chance| chance.random_range(0..4)),
            x: some(chance, |chance| *floats.choose(chance).unwrap()),
            name: some(chance, |chance| pick(chance, &["ab", "abc", "", "x%y", "Ab", "12", "-3", "größe"])),
            mixed: some(chance, |chance| chance.random_range(0..10)),
            flag: some(chance, |chance| chance.random_bool(0.5)),
            meta: some(chance, |chance| {
                (some(chance, |c| c.random_range(0..5)), some(chance, |c| pick(c, &["p", "q"])))
            }),
        }
    }
}

/// Half of them on a grid, so that some are equally far from another; some null, some with NaN, some zero.
fn vector(chance: &mut SmallRng) -> Option<[f32; DIMENSION as usize]> {
    let mut vector = match chance.random_range(0..10) {
        0 => return None,
        1 => [0.0; 4],
        2..6 => std::array::from_fn(|_| chance.random_range(-2_i8..3).into()),
        _ => std::array::from_fn(|_| chance.random_range(-2.0..2.0)),
    };
    if chance.random_bool(0.05) {
        vector[2] = f32::NAN;
    }
    Some(vector)
}

fn meta_fields() -> Fields {
    Fields::from(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)])
}

fn schema(key: Key) -> SchemaRef {
    let mut fields = vec![
        Field::new("id", DataType::Int64, false),
        Field::new("n", DataType::Int64, true),
        Field::new("small", DataType::Int32, true),
        Field::new("x", DataType::Float64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("Mixed Case", DataType::Int64, true),
        Field::new("flag", DataType::Boolean, true),
        Field::new("meta", DataType::Struct(meta_fields()), true),
        Field::new_fixed_size_list("v", Field::new("item", DataType::Float32, true), DIMENSION, true),
    ];
    fields.extend(key.fields());
    Arc::new(Schema::new(fields))
}

fn batch(key: Key, rows: &[Row]) -> RecordBatch {
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let a: Int64Array = rows.iter().map(|row| row.meta.as_ref().and_then(|meta| meta.0)).collect();
    let b: StringArray = rows.iter().map(|row| row.meta.as_ref().and_then(|meta| meta.1.clone())).collect();
    let there: NullBuffer = rows.iter().map(|row| row.meta.is_some()).collect::<Vec<_>>().into();
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.clone())),
        Arc::new(rows.iter().map(|row| row.n).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.small).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|row| row.x).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.name.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.mixed).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.flag).collect::<BooleanArray>()),
        Arc::new(StructArray::new(meta_fields(), vec![Arc::new(a), Arc::new(b)], Some(there))),
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
            rows.iter().map(|row| row.v.map(|v| v.map(Some))),
            DIMENSION,
        )),
    ];
    columns.extend(key.columns(&ids).into_iter().map(|(_, column)| column));
    RecordBatch::try_new(schema(key), columns).unwrap()
}

async fn write(uri: &str, key: Key, rows: &[Row], params: WriteParams) -> Dataset {
    let batches = RecordBatchIterator::new([Ok(batch(key, rows))], schema(key));
    Dataset::write(batches, uri, Some(params)).await.unwrap()
}

/// A table and its live rows.
pub struct Tiers {
    pub table: Table,
    key: Key,
    live: Vec<Row>,
    chance: SmallRng,
    plain: Home,
    _home: Home,
}

impl Tiers {
    pub async fn build(layout: Layout, key: Key, seed: u64) -> Self {
        let mut chance = SmallRng::seed_from_u64(seed * 100 + layout as u64);
        let (home, plain) = (Home::new(), Home::new());
        let base_ids = if layout == Layout::Memtables { 0..0 } else { 0..30 };
        let mut live: Vec<Row> = base_ids.map(|id| Row::random(id, &mut chance)).collect();
        if layout == Layout::KeysTwice {
            for id in 0..10 {
                // Told from the first by a value no other row has.
                live.push(Row { n: Some(1_000 + id), ..Row::random(id, &mut chance) });
            }
        }
        // Small fragments, so that addresses are not row numbers.
        let enable_stable_row_ids = layout == Layout::DeletedStable;
        let params = WriteParams { max_rows_per_file: 7, enable_stable_row_ids, ..WriteParams::default() };
        let mut base = write(&home.uri(), key, &live, params).await;
        if layout == Layout::DeletedStable {
            base.delete("id % 4 = 1").await.unwrap();
            live.retain(|row| row.id % 4 != 1);
        }
        let sharding = match layout {
            Layout::Shards => Sharding::Bucket { column: key.names().swap_remove(0), num_buckets: 3 },
            _ => Sharding::Unsharded,
        };
        let mut options = options();
        if layout == Layout::Shards {
            options.settings.freeze.max_rows = 8;
        }
        let table = Table::init(&home.uri(), &key.names(), &sharding, options).await.unwrap();
        let mut tiers = Self { table, key, live, chance, plain, _home: home };
        tiers.fill(layout).await;
        write(&tiers.plain(), key, &tiers.live, WriteParams::default()).await;
        tiers
    }

    /// Appends rows of new keys to the base and to the plain table, behind the back of the write tier.
    pub async fn append_to_base(&mut self) {
        let rows: Vec<Row> = (100..112).map(|id| Row::random(id, &mut self.chance)).collect();
        let append = || WriteParams { mode: WriteMode::Append, ..WriteParams::default() };
        write(self.table.uri(), self.key, &rows, append()).await;
        write(&self.plain(), self.key, &rows, append()).await;
        self.live.extend(rows);
        self.table.refresh().await.unwrap();
    }

    /// Where the plain table of the live rows is.
    pub fn plain(&self) -> String {
        self.plain.uri()
    }

    async fn fill(&mut self, layout: Layout) {
        let (sstables, memtable) = match layout {
            Layout::Base => (0, false),
            Layout::Memtables => (0, true),
            Layout::BaseSsTables | Layout::Emptied => (3, false),
            _ => (2, true),
        };
        for _ in 0..sstables {
            self.change(6).await;
            self.table.flush().await.unwrap();
        }
        if memtable {
            self.change(8).await;
        }
        if layout == Layout::Emptied {
            let ids: Vec<i64> = self.live.iter().map(|row| row.id).collect();
            self.table.delete(self.key.keys(&ids)).await.unwrap();
            self.live.clear();
        }
    }

    /// Puts and deletes.
    async fn change(&mut self, times: usize) {
        for _ in 0..times {
            let count = self.chance.random_range(1..5);
            let ids: Vec<i64> = (0..count).map(|_| self.chance.random_range(0..45)).collect();
            if self.chance.random_bool(0.7) {
                let rows: Vec<Row> = ids.iter().map(|id| Row::random(*id, &mut self.chance)).collect();
                self.table.put(batch(self.key, &rows)).await.unwrap();
                for row in rows {
                    self.live.retain(|old| old.id != row.id);
                    self.live.push(row);
                }
            } else {
                self.table.delete(self.key.keys(&ids)).await.unwrap();
                self.live.retain(|row| !ids.contains(&row.id));
            }
        }
    }
}
