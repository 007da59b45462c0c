//! Tables of every kind of key, what is done to them, and what must be read afterwards.
//!
//! A key is written down as a code, a small number, and each kind makes values of it. Rows are compared as
//! lists of JSON values, which is how they travel to the peer; bytes are hexadecimal text there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, LargeBinaryArray, LargeStringArray,
    PrimitiveArray, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use futures::TryStreamExt;
use headwater::{GetRequest, ScanRequest, Sharding, Table};
use lance::Dataset;
use lance::dataset::WriteParams;
use serde_json::{Value, json};

use crate::support::{Rows, options};

/// Codes of keys are below this.
const CODES: i64 = 12;

/// Code of the key, and the value.
pub type Row = (i64, Option<i64>);

/// Live rows by the text of their key.
pub type Model = BTreeMap<String, Value>;

/// Something done to a table.
#[derive(Clone, Debug)]
pub enum Step {
    Put(Vec<Row>),
    Delete(Vec<i64>),
}

/// Replaces rows of the base, within a put and within a generation, deletes in both tiers, and has a null.
pub fn first_steps() -> Vec<Step> {
    vec![
        Step::Put(vec![(1, Some(10)), (6, Some(60)), (7, Some(70)), (1, Some(11))]),
        Step::Delete(vec![2, 7]),
        Step::Put(vec![(6, Some(61)), (8, Some(80)), (9, None)]),
    ]
}

/// Replaces and deletes what [`first_steps`] wrote, writes a deleted key again, deletes one that never was.
pub fn second_steps() -> Vec<Step> {
    vec![
        Step::Put(vec![(8, Some(81)), (2, Some(22)), (10, Some(100))]),
        Step::Delete(vec![3, 6, 11]),
        Step::Put(vec![(10, Some(101))]),
    ]
}

/// One more generation.
pub fn third_steps() -> Vec<Step> {
    vec![Step::Delete(vec![10, 1]), Step::Put(vec![(3, Some(30)), (11, Some(110)), (11, Some(111))])]
}

/// A kind of table: the types of its key columns `k0`, `k1`, …, before `n: Int64` and `name: Utf8`.
#[derive(Clone, Debug)]
pub struct Kind {
    key: Vec<DataType>,
}

impl Kind {
    pub fn of(key: impl Into<Vec<DataType>>) -> Self {
        Self { key: key.into() }
    }

    /// Every type a key column may have, and keys of several columns.
    pub fn all() -> Vec<Self> {
        let single = [
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Boolean,
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Binary,
            DataType::LargeBinary,
        ];
        let several = [
            vec![DataType::Utf8, DataType::Int32],
            vec![DataType::Boolean, DataType::LargeBinary, DataType::UInt16],
        ];
        single.into_iter().map(|of| Self::of([of])).chain(several.into_iter().map(Self::of)).collect()
    }

    /// The kinds that are common.
    pub fn some() -> Vec<Self> {
        let single = [DataType::Int64, DataType::Int32, DataType::Utf8, DataType::Binary];
        let several = vec![DataType::Utf8, DataType::Int32];
        single.into_iter().map(|of| Self::of([of])).chain([Self::of(several)]).collect()
    }

    pub fn key_names(&self) -> Vec<String> {
        (0..self.key.len()).map(|place| format!("k{place}")).collect()
    }

    fn key_fields(&self) -> Vec<Field> {
        let named = self.key_names().into_iter().zip(&self.key);
        named.map(|(name, of)| Field::new(name, of.clone(), false)).collect()
    }

    fn schema(&self) -> Schema {
        let mut fields = self.key_fields();
        fields.push(Field::new("n", DataType::Int64, true));
        fields.push(Field::new("name", DataType::Utf8, true));
        Schema::new(fields)
    }

    /// The columns as the peer makes them: name, type, place in the key.
    pub fn fields(&self) -> Value {
        let key = self.key_names().into_iter().zip(&self.key).zip(1..);
        let mut fields: Vec<Value> =
            key.map(|((name, of), place)| json!([name, name_of(of), place])).collect();
        fields.push(json!(["n", "int64", null]));
        fields.push(json!(["name", "string", null]));
        Value::Array(fields)
    }

    fn key_columns(&self, codes: &[i64]) -> Vec<ArrayRef> {
        let mut columns = Vec::new();
        for (place, of) in self.key.iter().enumerate() {
            // Digits of the code: no column alone tells the key. The first takes what the others leave.
            let later = 3_i64.pow((self.key.len() - 1 - place) as u32);
            let digit = |code: &i64| if place == 0 { code / later } else { code / later % 3 };
            let digits: Vec<i64> = codes.iter().map(digit).collect();
            columns.push(column_of(of, &digits));
        }
        columns
    }

    pub fn keys(&self, codes: &[i64]) -> RecordBatch {
        RecordBatch::try_new(Arc::new(Schema::new(self.key_fields())), self.key_columns(codes)).unwrap()
    }

    pub fn rows(&self, rows: &[Row]) -> RecordBatch {
        let codes: Vec<i64> = rows.iter().map(|(code, _)| *code).collect();
        let names: Vec<Option<String>> =
            rows.iter().map(|(code, n)| n.map(|n| format!("{code}:{n}"))).collect();
        let mut columns = self.key_columns(&codes);
        columns.push(Arc::new(Int64Array::from_iter(rows.iter().map(|(_, n)| *n))));
        columns.push(Arc::new(StringArray::from(names)));
        RecordBatch::try_new(Arc::new(self.schema()), columns).unwrap()
    }

    /// Those codes that make keys of their own: a Boolean key has but two.
    fn distinct(&self, codes: Range<i64>) -> Vec<i64> {
        let mut seen = BTreeSet::new();
        codes.filter(|code| seen.insert(Value::Array(lists(&self.keys(&[*code]))).to_string())).collect()
    }

    /// The rows every base begins with.
    pub fn base(&self) -> Vec<Row> {
        self.distinct(0..6).into_iter().map(|code| (code, Some(code))).collect()
    }

    fn key_text(&self, row: &Value) -> String {
        let values = row.as_array().unwrap();
        Value::Array(values[..self.key.len()].to_vec()).to_string()
    }

    /// What must be there after `steps` on a table with the usual base.
    pub fn after<'a>(&self, steps: impl IntoIterator<Item = &'a Step>) -> Model {
        let mut model = Model::new();
        self.apply(&mut model, &Step::Put(self.base()));
        steps.into_iter().for_each(|step| self.apply(&mut model, step));
        model
    }

    fn apply(&self, model: &mut Model, step: &Step) {
        match step {
            Step::Put(rows) => {
                model.extend(lists(&self.rows(rows)).into_iter().map(|row| (self.key_text(&row), row)));
            }
            Step::Delete(codes) => {
                for key in lists(&self.keys(codes)) {
                    model.remove(&key.to_string());
                }
            }
        }
    }

    /// The rows of an answer of the peer: no key twice, and as many as its count says.
    pub fn model(&self, answer: &Value) -> Model {
        let rows = answer["rows"].as_array().unwrap();
        assert_eq!(answer["count"], json!(rows.len()), "its count and its scan differ");
        self.by_key(rows.clone())
    }

    fn by_key(&self, rows: Vec<Value>) -> Model {
        let count = rows.len();
        let model: Model = rows.into_iter().map(|row| (self.key_text(&row), row)).collect();
        assert_eq!(model.len(), count, "a key was read twice: {model:?}");
        model
    }

    /// A table made by us: the usual base in several fragments, this schema metadata, and a write tier.
    pub async fn create(&self, uri: &str, metadata: &[(&str, &str)]) -> Table {
        let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let schema = Arc::new(self.schema().with_metadata(metadata.collect()));
        let rows = self.rows(&self.base());
        let rows = RecordBatch::try_new(schema.clone(), rows.columns().to_vec()).unwrap();
        let params = WriteParams { max_rows_per_file: 4, ..WriteParams::default() };
        Dataset::write(RecordBatchIterator::new([Ok(rows)], schema), uri, Some(params)).await.unwrap();
        Table::init(uri, &self.key_names(), &Sharding::Unsharded, options()).await.unwrap()
    }

    pub async fn play(&self, table: &Table, steps: &[Step]) {
        for step in steps {
            let ack = match step {
                Step::Put(rows) => table.put(self.rows(rows)).await,
                Step::Delete(codes) => table.delete(self.keys(codes)).await,
            };
            ack.unwrap();
        }
    }

    /// Every kind of read of ours, against the model.
    pub async fn check(&self, table: &Table, model: &Model, context: &str) {
        // First and last: before a scan a get asks the key sidecars, after it the keys that are known.
        self.check_get(table, model, context).await;
        let batches: Vec<RecordBatch> =
            table.scan(&ScanRequest::default()).await.unwrap().try_collect().await.unwrap();
        let rows = self.by_key(batches.iter().flat_map(lists).collect());
        assert_eq!(rows, *model, "scan, {self:?}, {context}");
        assert_eq!(table.count(None).await.unwrap(), model.len() as u64, "count, {self:?}, {context}");
        let n = |row: &Value| row[self.key.len()].as_i64();
        let large = model.values().filter(|row| n(row).is_some_and(|n| n > 50)).count() as u64;
        let counted = table.count(Some("n > 50")).await.unwrap();
        assert_eq!(counted, large, "filtered count, {self:?}, {context}");
        self.check_get(table, model, context).await;
    }

    async fn check_get(&self, table: &Table, model: &Model, context: &str) {
        let keys = self.keys(&self.distinct(0..CODES));
        let live = |key: &Value| model.get(&key.to_string()).cloned();
        let wanted: Vec<Value> = lists(&keys).iter().filter_map(live).collect();
        let got = table.get(&GetRequest { keys, columns: None }).await.unwrap();
        assert_eq!(lists(&got), wanted, "get, {self:?}, {context}");
    }
}

/// Values of a key column for these codes, at both ends of the type's range among them.
fn column_of(of: &DataType, codes: &[i64]) -> ArrayRef {
    macro_rules! numbers {
        ($of:ty, $native:ty) => {{
            let value = |code: &i64| match code % 3 {
                0 => *code as $native,
                1 => <$native>::MAX - *code as $native,
                _ => <$native>::MIN + *code as $native,
            };
            Arc::new(PrimitiveArray::<$of>::from_iter_values(codes.iter().map(value)))
        }};
    }
    match of {
        DataType::Int8 => numbers!(Int8Type, i8),
        DataType::Int16 => numbers!(Int16Type, i16),
        DataType::Int32 => numbers!(Int32Type, i32),
        DataType::Int64 => numbers!(Int64Type, i64),
        DataType::UInt8 => numbers!(UInt8Type, u8),
        DataType::UInt16 => numbers!(UInt16Type, u16),
        DataType::UInt32 => numbers!(UInt32Type, u32),
        DataType::UInt64 => numbers!(UInt64Type, u64),
        DataType::Boolean => {
            Arc::new(BooleanArray::from(codes.iter().map(|code| code % 2 == 1).collect::<Vec<bool>>()))
        }
        DataType::Utf8 => Arc::new(StringArray::from_iter_values(codes.iter().map(text))),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter_values(codes.iter().map(text))),
        DataType::Binary => Arc::new(BinaryArray::from_iter_values(codes.iter().map(bytes))),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from_iter_values(codes.iter().map(bytes))),
        other => panic!("{other} is no type of a key"),
    }
}

/// Empty, and with letters of several bytes.
fn text(code: &i64) -> String {
    if *code == 0 { String::new() } else { format!("clé {code}") }
}

/// Empty, and with zeros in front, which an encoding that ends at a zero would lose.
fn bytes(code: &i64) -> Vec<u8> {
    if *code == 0 {
        return Vec::new();
    }
    let mut bytes = vec![0; (code % 3) as usize];
    bytes.extend([*code as u8, 0, 255]);
    bytes
}

/// What the peer calls a type.
fn name_of(of: &DataType) -> &'static str {
    match of {
        DataType::Int8 => "int8",
        DataType::Int16 => "int16",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt8 => "uint8",
        DataType::UInt16 => "uint16",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Boolean => "bool",
        DataType::Utf8 => "string",
        DataType::LargeUtf8 => "large_string",
        DataType::Binary => "binary",
        DataType::LargeBinary => "large_binary",
        other => panic!("{other} is no type of a key"),
    }
}

/// The rows of a batch, each a list of its values.
pub fn lists(batch: &RecordBatch) -> Vec<Value> {
    let list = |row| Value::Array(batch.columns().iter().map(|column| value_of(column, row)).collect());
    (0..batch.num_rows()).map(list).collect()
}

fn value_of(column: &ArrayRef, row: usize) -> Value {
    macro_rules! number {
        ($of:ty) => {
            json!(column.as_primitive::<$of>().value(row))
        };
    }
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Boolean => json!(column.as_boolean().value(row)),
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => json!(column.as_string::<i64>().value(row)),
        DataType::Binary => hexadecimal(column.as_binary::<i32>().value(row)),
        DataType::LargeBinary => hexadecimal(column.as_binary::<i64>().value(row)),
        other => panic!("{other} is no type of these tables"),
    }
}

fn hexadecimal(bytes: &[u8]) -> Value {
    Value::String(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The rows of an answer of the peer about a table of `support`: names by id.
pub fn names(answer: &Value) -> Rows {
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!(answer["count"], json!(rows.len()), "its count and its scan differ");
    let named = rows.iter().map(|row| (row[0].as_i64().unwrap(), row[1].as_str().unwrap().to_owned()));
    let names: Rows = named.collect();
    assert_eq!(names.len(), rows.len(), "a key was read twice");
    names
}
