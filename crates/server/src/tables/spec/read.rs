//! Reads of all tiers.
//!
//! Owns: [`rows`], [`explain`], [`analyze`], [`count`]: what clients ask for, in the words of the library.
//! Does not own: how it is read (`headwater`).

use arrow_schema::SchemaRef;
use futures::{StreamExt, TryStreamExt};
use headwater::{Metric, QueryError, QueryRequest, Table, VectorQuery, VectorSearch};

use crate::bodies::query::{Columns, FullText, OrderBy, Query, Vectors};
use crate::error::{Again, ApiError};
use crate::ipc::reply::Rows;

/// The rows a query asks for.
///
/// # Errors
/// 400 for what a write tier does not do, or a query that is wrong.
pub async fn rows(name: &str, table: &Table, query: Query) -> Result<(SchemaRef, Rows), ApiError> {
    let request = request(name, query)?;
    let found = table.query(&request).await.map_err(|error| ApiError::tier(name, &error, Again::Harmless))?;
    let (schema, name) = (found.schema(), name.to_owned());
    let rows = found.map_err(move |error| ApiError::query(&name, &QueryError::from(error)));
    Ok((schema, rows.boxed()))
}

/// How they would be read.
///
/// # Errors
/// As [`rows`].
pub async fn explain(name: &str, table: &Table, query: Query, verbose: bool) -> Result<String, ApiError> {
    let plan = table.explain_query(&request(name, query)?, verbose).await;
    plan.map_err(|error| ApiError::tier(name, &error, Again::Harmless))
}

/// What reading them took.
///
/// # Errors
/// As [`rows`].
pub async fn analyze(name: &str, table: &Table, query: Query) -> Result<String, ApiError> {
    let plan = table.analyze_query(&request(name, query)?).await;
    plan.map_err(|error| ApiError::tier(name, &error, Again::Harmless))
}

/// How many live rows there are, or a condition keeps.
///
/// # Errors
/// 400 for a condition that is none.
pub async fn count(name: &str, table: &Table, filter: Option<&str>) -> Result<u64, ApiError> {
    table.count(filter).await.map_err(|error| ApiError::tier(name, &error, Again::Harmless))
}

fn request(name: &str, mut query: Query) -> Result<QueryRequest, ApiError> {
    if query.version.is_some() {
        return Err(ApiError::at_version(name));
    }
    let nearest = nearest(&mut query)?;
    Ok(QueryRequest {
        nearest,
        filter: query.filter,
        columns: query.columns.map(|columns| match columns {
            Columns::Names(names) => headwater::Columns::Named(names),
            Columns::Expressions(columns) => headwater::Columns::Computed(columns),
        }),
        order_by: query.order_by.unwrap_or_default().into_iter().map(ordering).collect(),
        limit: query.k.filter(|rows| *rows < i64::MAX.cast_unsigned()),
        offset: query.offset.unwrap_or_default(),
        full_text: query.full_text_query.map(|text| match text {
            FullText::Flat { query, .. } => query,
            FullText::Structured { query } => query.to_string(),
        }),
        with_row_id: query.with_row_id.unwrap_or(false),
    })
}

fn ordering(order: OrderBy) -> headwater::OrderBy {
    headwater::OrderBy {
        column: order.column_name,
        ascending: order.ascending,
        nulls_first: order.nulls_first,
    }
}

fn nearest(query: &mut Query) -> Result<Option<VectorQuery>, ApiError> {
    let vectors = match query.vector.take() {
        None => return Ok(None),
        Some(Vectors::One(vector)) if vector.is_empty() => return Ok(None),
        Some(Vectors::One(vector)) => vec![vector],
        Some(Vectors::Many(vectors)) => vectors,
    };
    let number = |field: &str, number: Option<usize>| {
        let number = number.map(u32::try_from).transpose();
        number.map_err(|_| ApiError::invalid(format!("field {field}: the number is too large")))
    };
    let metric = query.distance_type.as_deref().map(str::parse::<Metric>).transpose();
    Ok(Some(VectorQuery {
        vectors,
        column: query.vector_column.take(),
        metric: metric.map_err(|error| ApiError::invalid(error.to_string()))?,
        lower_bound: query.lower_bound,
        upper_bound: query.upper_bound,
        postfilter: query.prefilter == Some(false),
        search: VectorSearch {
            bypass_index: query.bypass_vector_index.unwrap_or(false),
            fast: query.fast_search.unwrap_or(false),
            minimum_nprobes: number("minimum_nprobes", query.minimum_nprobes.or(query.nprobes))?,
            maximum_nprobes: number("maximum_nprobes", query.maximum_nprobes.or(query.nprobes))?,
            effort: query.search_effort,
            ef: number("ef", query.ef)?,
            refine_factor: query.refine_factor,
        },
    }))
}
