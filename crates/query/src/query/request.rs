//! What a query asks for.
//!
//! Owns: [`QueryRequest`] and its parts, as they are given. Does not own: whether they can be answered
//! (`checked`, `vector`).

use std::str::FromStr;

use lance_linalg::distance::DistanceType;

use crate::error::QueryError;

/// What to read. The default asks for all rows, all columns, in no order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryRequest {
    /// The nearest rows to some vectors, nearest first, in place of all rows.
    pub nearest: Option<VectorQuery>,
    /// A SQL condition as Lance takes it: names with capitals, spaces or dots in backticks; `meta.a` is a
    /// field of a struct; text in single or double quotes. None: every row.
    pub filter: Option<String>,
    /// What to return; none: every column. Nearest rows come with `_distance` whatever is asked for.
    pub columns: Option<Columns>,
    /// The order of the rows. Of nearest rows: the order in which they are returned, not which they are.
    pub order_by: Vec<OrderBy>,
    /// At most so many rows, of nearest rows: for each vector. Any number is fine: what is held in memory
    /// depends on the rows there are.
    pub limit: Option<u64>,
    /// Leave out so many rows first.
    pub offset: u64,
    /// Text to search for. Refused for now.
    pub full_text: Option<String>,
    /// Also return `_rowid`. Refused: rows move between tiers, and none of their ids stays.
    pub with_row_id: bool,
}

/// Columns of a result, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Columns of the table, or paths into them (`meta.a`); each is called as it is given.
    Named(Vec<String>),
    /// A name, and the SQL expression it stands for.
    Computed(Vec<(String, String)>),
}

/// One step of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// A column or a path into one; `_distance` where there is one.
    pub column: String,
    /// Smallest first.
    pub ascending: bool,
    /// Nulls before everything else, whichever way it goes.
    pub nulls_first: bool,
}

/// The nearest rows to each of some vectors.
///
/// Rows come with `_distance` (Float32), and with `query_index` (Int32, the place of the vector) as their
/// first column when there are several vectors; rows of the first vector come first. A row without a vector,
/// or with one that holds a null or NaN, is near to nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorQuery {
    /// The vectors, each of the dimension of the column, all numbers finite. For columns of bytes and of
    /// 8 bit integers: whole numbers that fit.
    pub vectors: Vec<Vec<f32>>,
    /// The column, or a path to it; none: the only one of that dimension.
    pub column: Option<String>,
    /// How distances are measured; none: as the index of the column does, else l2, for bytes hamming.
    pub metric: Option<Metric>,
    /// Only rows at this distance or farther.
    pub lower_bound: Option<f32>,
    /// Only rows nearer than this.
    pub upper_bound: Option<f32>,
    /// Apply the filter to the nearest rows (limit and offset together say how many) instead of looking for
    /// the nearest rows it keeps: there may be fewer rows than the limit then.
    pub postfilter: bool,
    /// How the index of the base is searched.
    pub search: VectorSearch,
}

/// How the index of the base is searched. Rows that are in no index are compared one by one, and so is every
/// row where the base has no index of the metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorSearch {
    /// Compare every row, exactly.
    pub bypass_index: bool,
    /// Pass over rows of the base that its index does not have, and over the base where it has none. Rows
    /// that are not in the base yet are read all the same.
    pub fast: bool,
    /// Partitions searched at least: 1 or more.
    pub minimum_nprobes: Option<u32>,
    /// Partitions searched at most; 0 is no bound.
    pub maximum_nprobes: Option<u32>,
    /// From 0 to 1: how many partitions are searched at first, between the two bounds.
    pub effort: Option<f64>,
    /// Candidates an HNSW index keeps while it searches.
    pub ef: Option<u32>,
    /// Candidates an index gives for each row wanted, of which the nearest by exact distance are taken: 1 or
    /// more.
    pub refine_factor: Option<u32>,
}

/// How the distance of two vectors is measured, as Lance does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The square of the Euclidean distance.
    L2,
    /// 1 less the cosine of the angle between them.
    Cosine,
    /// 1 less their dot product.
    Dot,
    /// Bits in which they differ, of vectors of bytes.
    Hamming,
}

impl From<Metric> for DistanceType {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::L2 => Self::L2,
            Metric::Cosine => Self::Cosine,
            Metric::Dot => Self::Dot,
            Metric::Hamming => Self::Hamming,
        }
    }
}

impl FromStr for Metric {
    type Err = QueryError;

    /// From its name on the wire, in any case.
    fn from_str(name: &str) -> Result<Self, QueryError> {
        match name.to_ascii_lowercase().as_str() {
            "l2" | "euclidean" => Ok(Self::L2),
            "cosine" => Ok(Self::Cosine),
            "dot" => Ok(Self::Dot),
            "hamming" => Ok(Self::Hamming),
            _ => {
                let reason = format!("{name:?} is no metric: there is l2, cosine, dot and hamming");
                Err(QueryError::request("distance_type", reason))
            }
        }
    }
}
