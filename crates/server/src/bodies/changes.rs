//! What changes of a table say: rows, columns, indexes, the write tier.
//!
//! Owns: the shapes. Does not own: what they do.

use std::collections::BTreeMap;

use headwater::{Sharding, WriterSpec};
use lance::arrow::json::JsonDataType;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Deletes rows.
#[derive(Clone, Debug, Deserialize)]
pub struct Delete {
    /// Which.
    pub predicate: String,
    /// A branch of the table.
    #[serde(default)]
    pub branch: Option<String>,
}

/// Changes rows.
#[derive(Clone, Debug, Deserialize)]
pub struct Update {
    /// Columns, each with the SQL expression of its new value.
    pub updates: Vec<(String, String)>,
    /// Which rows; none = all.
    #[serde(default)]
    pub predicate: Option<String>,
    /// A branch of the table.
    #[serde(default)]
    pub branch: Option<String>,
}

/// Adds columns.
#[derive(Clone, Debug, Deserialize)]
pub struct AddColumns {
    /// Which.
    pub new_columns: Vec<NewColumn>,
    /// A branch of the table.
    #[serde(default)]
    pub branch: Option<String>,
}

/// A column to add.
#[derive(Clone, Debug, Deserialize)]
pub struct NewColumn {
    /// Its name.
    pub name: String,
    /// Its value, a SQL expression.
    pub expression: String,
}

/// Changes columns.
#[derive(Debug, Deserialize)]
pub struct AlterColumns {
    /// How.
    pub alterations: Vec<Alteration>,
    /// A branch of the table.
    #[serde(default)]
    pub branch: Option<String>,
}

/// A change of one column.
#[derive(Debug, Deserialize)]
pub struct Alteration {
    /// The column.
    pub path: String,
    /// Its new name.
    #[serde(default)]
    pub rename: Option<String>,
    /// Its new type.
    #[serde(default)]
    pub data_type: Option<JsonDataType>,
    /// Whether it may hold nulls.
    #[serde(default)]
    pub nullable: Option<bool>,
}

/// Drops columns.
#[derive(Clone, Debug, Deserialize)]
pub struct DropColumns {
    /// Which.
    pub columns: Vec<String>,
    /// A branch of the table.
    #[serde(default)]
    pub branch: Option<String>,
}

/// Changes the metadata of columns.
#[derive(Clone, Debug, Deserialize)]
pub struct UpdateFieldMetadata {
    /// How.
    pub updates: Vec<FieldMetadata>,
    /// A branch of the table.
    #[serde(default)]
    pub branch: Option<String>,
}

/// New metadata of one column.
#[derive(Clone, Debug, Deserialize)]
pub struct FieldMetadata {
    /// The column.
    pub path: String,
    /// Values by key; null takes the key away.
    pub metadata: BTreeMap<String, Option<String>>,
    /// Whether keys that are not named go.
    #[serde(default)]
    pub replace: bool,
}

/// Makes an index.
#[derive(Clone, Debug, Deserialize)]
pub struct CreateIndex {
    /// The column.
    pub column: String,
    /// Its kind.
    pub index_type: String,
    /// Its name; `{column}_idx` when left out.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether an index of that name is replaced; it is unless said otherwise.
    #[serde(default)]
    pub replace: Option<bool>,
    /// `l2`, `cosine`, `dot` or `hamming`.
    #[serde(default)]
    pub metric_type: Option<String>,
    /// Partitions of a vector index.
    #[serde(default)]
    pub num_partitions: Option<usize>,
    /// Codes of a vector.
    #[serde(default)]
    pub num_sub_vectors: Option<usize>,
    /// Bits of a code.
    #[serde(default)]
    pub num_bits: Option<u8>,
    /// Vectors looked at for each partition.
    #[serde(default)]
    pub sample_rate: Option<usize>,
    /// Rounds of training.
    #[serde(default)]
    pub max_iterations: Option<usize>,
    /// Neighbours in a graph index.
    #[serde(default)]
    pub m: Option<usize>,
    /// Candidates while a graph is built.
    #[serde(default)]
    pub ef_construction: Option<usize>,
    /// What the kinds above do not know: parameters of text indexes.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What a table's write tier is like.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WriteSpec {
    /// How rows are spread.
    pub sharding: ShardingSpec,
    /// Indexes of the base that writers maintain; null = all they can.
    #[serde(default)]
    pub maintained_indexes: Option<Vec<String>>,
    /// Settings for writers.
    #[serde(default)]
    pub writer_config_defaults: BTreeMap<String, String>,
}

/// How rows are spread over shards.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum ShardingSpec {
    /// One shard takes every row.
    Unsharded,
    /// By the hash of a column.
    Bucket {
        /// The column.
        column: String,
        /// 1 to 1024.
        num_buckets: u32,
    },
    /// A shard for each value of a column.
    Identity {
        /// The column.
        column: String,
    },
    /// Shards made by hand: told of tables that were initialised elsewhere, never asked for.
    Manual,
}

impl WriteSpec {
    /// In the words of the library.
    pub fn parts(self) -> (Sharding, WriterSpec) {
        let sharding = match self.sharding {
            ShardingSpec::Unsharded => Sharding::Unsharded,
            ShardingSpec::Bucket { column, num_buckets } => Sharding::Bucket { column, num_buckets },
            ShardingSpec::Identity { column } => Sharding::Identity { column },
            ShardingSpec::Manual => Sharding::Manual,
        };
        (sharding, WriterSpec { maintained: self.maintained_indexes, defaults: self.writer_config_defaults })
    }
}

impl From<&Sharding> for ShardingSpec {
    fn from(sharding: &Sharding) -> Self {
        match sharding.clone() {
            Sharding::Unsharded => Self::Unsharded,
            Sharding::Bucket { column, num_buckets } => Self::Bucket { column, num_buckets },
            Sharding::Identity { column } => Self::Identity { column },
            Sharding::Manual => Self::Manual,
        }
    }
}

/// What a request for statistics wants to know.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TierStats {
    /// Rows of SSTables, as clients from 0.41 on ask.
    pub include_sstable_rows: bool,
    /// The same, as older ones ask.
    pub include_generation_rows: bool,
}
