//! What reads ask for: `/query/`, `/count_rows/`, `/explain_plan/`, `/describe/`.
//!
//! Owns: the shapes, and which tier a read is about. Does not own: what they mean to a table.

use std::fmt;

use lance_index::scalar::inverted::query::FtsQuery;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::ApiError;

/// The body of a query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Query {
    /// At most this many rows; `i64::MAX` = all.
    pub k: Option<u64>,
    /// Leave out this many rows first.
    pub offset: Option<u64>,
    /// A version of the table; none = the newest.
    pub version: Option<u64>,
    /// A branch of the table.
    pub branch: Option<String>,
    /// A SQL condition.
    pub filter: Option<String>,
    /// Whether the condition holds before the nearest are looked for (default), or of the nearest.
    pub prefilter: Option<bool>,
    /// The columns of the result, in order.
    pub columns: Option<Columns>,
    /// The order of the result.
    pub order_by: Option<Vec<OrderBy>>,
    /// Whether row ids are wanted.
    pub with_row_id: Option<bool>,
    /// Search indexes alone, not the rows that are in none.
    pub fast_search: Option<bool>,
    /// See [`Tier`].
    pub use_lsm: Option<bool>,
    /// See [`Tier`].
    pub use_rte: Option<bool>,
    /// Text to look for.
    pub full_text_query: Option<FullText>,
    /// Vectors to look for the nearest of.
    pub vector: Option<Vectors>,
    /// Where to look for them.
    pub vector_column: Option<String>,
    /// `l2`, `cosine`, `dot` or `hamming`.
    pub distance_type: Option<String>,
    /// Least distance of a result.
    pub lower_bound: Option<f32>,
    /// Distances of results are below.
    pub upper_bound: Option<f32>,
    /// Candidates a graph index keeps.
    pub ef: Option<usize>,
    /// Read so many times as many candidates, and order them by their true distance.
    pub refine_factor: Option<u32>,
    /// Compare every vector.
    pub bypass_vector_index: Option<bool>,
    /// `fast`, `normal` or `accurate`.
    pub approx_mode: Option<String>,
    /// Partitions to look at.
    pub nprobes: Option<usize>,
    /// At least so many.
    pub minimum_nprobes: Option<usize>,
    /// At most so many; 0 = no bound.
    pub maximum_nprobes: Option<usize>,
    /// How hard to search, 0 to 1.
    pub search_effort: Option<f64>,
}

/// One query vector, or several.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Vectors {
    /// One; none at all when it is empty.
    One(Vec<f32>),
    /// Several.
    Many(Vec<Vec<f32>>),
}

/// The columns of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Names, or paths of nested columns.
    Names(Vec<String>),
    /// Names of the result's own, each with the SQL expression that it is; in the order they were sent in.
    Expressions(Vec<(String, String)>),
}

/// One key of an order.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct OrderBy {
    /// The column.
    pub column_name: String,
    /// Smallest first.
    #[serde(default = "yes")]
    pub ascending: bool,
    /// Nulls before everything.
    #[serde(default)]
    pub nulls_first: bool,
}

/// Text to look for.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum FullText {
    /// As old clients send it.
    Flat {
        /// The words.
        query: String,
        /// Where to look; empty = in every column with a text index.
        #[serde(default)]
        columns: Vec<String>,
    },
    /// With structure.
    Structured {
        /// The query.
        query: FtsQuery,
    },
}

/// The body of a count.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Count {
    /// A version of the table.
    pub version: Option<u64>,
    /// A branch of the table.
    pub branch: Option<String>,
    /// Which rows.
    pub predicate: Option<String>,
    /// See [`Tier`].
    pub use_lsm: Option<bool>,
    /// See [`Tier`].
    pub use_rte: Option<bool>,
}

/// The body of a request for a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Explain {
    /// Whether to tell more.
    pub verbose: bool,
    /// What would be asked.
    pub query: Query,
}

/// The body of requests about one version: describe, index lists.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AtVersion {
    /// None = the newest.
    pub version: Option<u64>,
    /// A branch of the table.
    pub branch: Option<String>,
}

/// Which part of a table with a write tier a request is about. Clients of different age call the flag by
/// different names, `use_lsm` and `use_rte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Not said: all of it, if the table has a write tier.
    Any,
    /// All of it; refused on a table without a write tier.
    Fresh,
    /// The base alone.
    Base,
}

impl Tier {
    /// What the two flags say together.
    ///
    /// # Errors
    /// 400 when they contradict each other.
    pub fn of(use_lsm: Option<bool>, use_rte: Option<bool>) -> Result<Self, ApiError> {
        match (use_lsm, use_rte) {
            (Some(lsm), Some(rte)) if lsm != rte => Err(ApiError::invalid(
                "use_lsm and use_rte are two names of one flag: give them the same value, or one",
            )),
            (Some(true), _) | (_, Some(true)) => Ok(Self::Fresh),
            (Some(false), _) | (_, Some(false)) => Ok(Self::Base),
            (None, None) => Ok(Self::Any),
        }
    }
}

fn yes() -> bool {
    true
}

impl<'de> Deserialize<'de> for Columns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Columns;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of column names, or an object of names and SQL expressions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Columns, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = seq.next_element()? {
                    names.push(name);
                }
                Ok(Columns::Names(names))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Columns, A::Error> {
                let mut expressions = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    expressions.push(entry);
                }
                Ok(Columns::Expressions(expressions))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
