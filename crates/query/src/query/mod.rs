//! Queries: everything a LanceDB client may ask of a table in one request.
//!
//! Owns: [`QueryRequest`], its check, and its plan: conditions, columns as names, paths or SQL, order, limit
//! and offset, and the nearest rows to query vectors. Does not own: the operators (`exec`), rows by key
//! (`get`), SQL statements (`sql`). Keeps P4 and P13: what newer rows hide is taken out of every source
//! before distances are compared, so it never takes a place among the nearest.

mod checked;
mod expression;
mod nearest;
mod plan;
mod request;
mod row_ids;
mod vector;
mod vector_index;

pub(crate) use expression::Expression;
pub use request::{Columns, Metric, OrderBy, QueryRequest, VectorQuery, VectorSearch};
pub(crate) use vector_index::IndexSearch;
