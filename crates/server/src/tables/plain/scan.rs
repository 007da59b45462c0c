//! Reads of a plain table, through Lance's scanner.
//!
//! Owns: [`scanner`], which turns the body of a query into a scan, [`rows`] and [`count`]. Does not own: what
//! the scan does, or how rows are sent (`ipc`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array};
use arrow_schema::{DataType, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use lance::Dataset;
use lance::dataset::scanner::{ColumnOrdering, Scanner};
use lance_index::scalar::FullTextSearchQuery;
use lance_index::vector::ApproxMode;

use crate::bodies::query::{Columns, FullText, OrderBy, Query, Vectors};
use crate::error::{Again, ApiError};
use crate::ipc::reply::Rows;
use crate::tables::plain::{caught, sql};

/// Bytes a scan reads ahead of a client that takes its time, about. Lance would read gigabytes.
const READ_AHEAD_BYTES: u64 = 64 << 20;

/// A scan that does what `query` asks for.
///
/// # Errors
/// 400 naming what is wrong with it.
pub fn scanner(name: &str, dataset: &Arc<Dataset>, query: &Query) -> Result<Scanner, ApiError> {
    let failed = |error| ApiError::lance(name, error, Again::Harmless);
    check(query)?;
    let mut scanner = dataset.scan();
    scanner.io_buffer_size(READ_AHEAD_BYTES);
    match &query.columns {
        Some(Columns::Names(names)) => scanner.project(names).map_err(failed)?,
        Some(Columns::Expressions(columns)) => scanner.project_with_transform(columns).map_err(failed)?,
        None => &mut scanner,
    };
    if let Some(filter) = &query.filter {
        scanner.filter(filter).map_err(failed)?;
    }
    scanner.prefilter(query.prefilter.unwrap_or(true));
    if query.with_row_id == Some(true) {
        scanner.with_row_id();
    }
    if let Some(text) = &query.full_text_query {
        scanner.full_text_search(full_text(text)?).map_err(failed)?;
    }
    match vectors(query)? {
        Some(vectors) => nearest(name, dataset, &mut scanner, query, &vectors)?,
        None => {
            let (limit, offset) = (query.k.and_then(small), query.offset.and_then(small));
            scanner.limit(limit, offset).map_err(failed)?;
        }
    }
    if query.fast_search == Some(true) {
        scanner.fast_search();
    }
    if let Some(order) = &query.order_by {
        scanner.order_by(Some(order.iter().map(ordering).collect())).map_err(failed)?;
    }
    Ok(scanner)
}

/// Checks what Lance would take apart, or make room for, without looking.
fn check(query: &Query) -> Result<(), ApiError> {
    sql::check_some("field filter", query.filter.as_deref())?;
    if let Some(Columns::Expressions(columns)) = &query.columns {
        for (name, expression) in columns {
            sql::check(&format!("field columns, {name:?}"), expression)?;
        }
    }
    let least = [
        ("refine_factor", query.refine_factor.map(u64::from)),
        ("minimum_nprobes", query.minimum_nprobes.map(|least| least as u64)),
        ("nprobes", query.nprobes.map(|probes| probes as u64)),
        ("ef", query.ef.map(|candidates| candidates as u64)),
    ];
    match least.iter().find(|(_, number)| *number == Some(0)) {
        Some((field, _)) => Err(ApiError::invalid(format!("field {field}: it is 1 or more"))),
        None => Ok(()),
    }
}

/// A number of rows, where it is one: clients say the largest for "all".
fn small(rows: u64) -> Option<i64> {
    i64::try_from(rows).ok().filter(|rows| *rows < i64::MAX)
}

fn ordering(order: &OrderBy) -> ColumnOrdering {
    ColumnOrdering {
        ascending: order.ascending,
        nulls_first: order.nulls_first,
        column_name: order.column_name.clone(),
    }
}

fn full_text(text: &FullText) -> Result<FullTextSearchQuery, ApiError> {
    match text {
        FullText::Structured { query } => Ok(FullTextSearchQuery::new_query(query.clone())),
        FullText::Flat { query, columns } => {
            let search = FullTextSearchQuery::new(query.clone());
            if columns.is_empty() {
                return Ok(search);
            }
            let search = search.with_columns(columns);
            search.map_err(|error| ApiError::lance("full_text_query", error, Again::Harmless))
        }
    }
}

/// The vectors asked for, none of them empty, all of one length and finite.
fn vectors(query: &Query) -> Result<Option<Vec<&[f32]>>, ApiError> {
    let vectors: Vec<&[f32]> = match &query.vector {
        None => return Ok(None),
        Some(Vectors::One(vector)) if vector.is_empty() => return Ok(None),
        Some(Vectors::One(vector)) => vec![vector],
        Some(Vectors::Many(vectors)) => vectors.iter().map(Vec::as_slice).collect(),
    };
    let length = vectors.first().map(|vector| vector.len()).unwrap_or_default();
    for (place, vector) in vectors.iter().enumerate() {
        if vector.is_empty() || vector.len() != length {
            let lengths = format!("has {} values, the first one {length}", vector.len());
            return Err(ApiError::invalid(format!("field vector: vector {place} {lengths}")));
        }
        if !vector.iter().all(|value| value.is_finite()) {
            return Err(ApiError::invalid(format!(
                "field vector: vector {place} has a value that is not finite"
            )));
        }
    }
    Ok(Some(vectors))
}

fn nearest(
    name: &str,
    dataset: &Arc<Dataset>,
    scanner: &mut Scanner,
    query: &Query,
    vectors: &[&[f32]],
) -> Result<(), ApiError> {
    let failed = |error| ApiError::lance(name, error, Again::Harmless);
    let length = vectors.first().map(|vector| vector.len()).unwrap_or_default();
    let column = match &query.vector_column {
        Some(column) => vector_column(name, dataset, column)?,
        None => only_vector_column(name, dataset, length)?,
    };
    // Lance makes room for k rows, and there are no more than this.
    let all = dataset
        .manifest()
        .fragments
        .iter()
        .filter_map(|fragment| fragment.physical_rows)
        .sum::<usize>()
        .max(1);
    let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
    let offset = query.offset.map(count).unwrap_or_default();
    let wanted = query.k.map(count).unwrap_or(usize::MAX);
    if wanted == 0 {
        return Err(ApiError::invalid("field k: at least 1 is needed to look for the nearest"));
    }
    scanner
        .nearest(&column, &keys(vectors, length)?, wanted.saturating_add(offset).min(all))
        .map_err(failed)?;
    // Several vectors have `k` rows each; a limit would be one of them all.
    let (limit, skipped) =
        (query.k.and_then(small), query.offset.filter(|offset| *offset > 0).and_then(small));
    if vectors.len() == 1 {
        scanner.limit(limit, skipped).map_err(failed)?;
    } else if skipped.is_some() {
        return Err(ApiError::invalid("field offset: it cannot be used with several query vectors"));
    }
    if let Some(metric) = &query.distance_type {
        let metric = metric.as_str().try_into();
        scanner.distance_metric(
            metric.map_err(|error| ApiError::invalid(format!("field distance_type: {error}")))?,
        );
    }
    scanner.distance_range(query.lower_bound, query.upper_bound);
    if let Some(effort) = query.search_effort {
        scanner.search_effort(effort).map_err(failed)?;
    }
    if let Some(least) = query.minimum_nprobes.or(query.nprobes) {
        scanner.minimum_nprobes(least);
    }
    // 0: no bound, which is what Lance does when it is told nothing.
    if let Some(most) = query.maximum_nprobes.or(query.nprobes).filter(|most| *most > 0) {
        scanner.maximum_nprobes(most);
    }
    // Nor are there more candidates than rows, whatever Lance would make room for.
    if let Some(ef) = query.ef {
        scanner.ef(ef.min(all));
    }
    if let Some(factor) = query.refine_factor {
        scanner.refine(factor.min(u32::try_from(all).unwrap_or(u32::MAX)));
    }
    if let Some(mode) = &query.approx_mode {
        scanner.approx_mode(approx_mode(mode)?);
    }
    if query.bypass_vector_index == Some(true) {
        scanner.use_index(false);
    }
    Ok(())
}

fn approx_mode(mode: &str) -> Result<ApproxMode, ApiError> {
    match mode.to_ascii_lowercase().as_str() {
        "fast" => Ok(ApproxMode::Fast),
        "normal" => Ok(ApproxMode::Normal),
        "accurate" => Ok(ApproxMode::Accurate),
        _ => Err(ApiError::invalid(format!("field approx_mode: {mode:?} is none of fast, normal, accurate"))),
    }
}

fn keys(vectors: &[&[f32]], length: usize) -> Result<ArrayRef, ApiError> {
    if let [vector] = vectors {
        return Ok(Arc::new(Float32Array::from(vector.to_vec())));
    }
    let length =
        i32::try_from(length).map_err(|_| ApiError::invalid("field vector: the vectors are too long"))?;
    let rows = vectors.iter().map(|vector| Some(vector.iter().copied().map(Some)));
    Ok(Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, length)))
}

/// The column to search that is named. Whether its vectors can be searched is for Lance to say.
fn vector_column(name: &str, dataset: &Dataset, column: &str) -> Result<String, ApiError> {
    let wrong = |what: String| Err(ApiError::invalid(format!("field vector_column: table {name:?} {what}")));
    match dataset.schema().field(column).map(|field| field.data_type()) {
        Some(DataType::FixedSizeList(..) | DataType::List(_)) => Ok(column.to_owned()),
        Some(other) => wrong(format!("has no vectors in column {column:?}, which holds {other}")),
        None => wrong(format!("has no column {column:?}")),
    }
}

/// The column to search when none is named.
fn only_vector_column(name: &str, dataset: &Dataset, length: usize) -> Result<String, ApiError> {
    let fields = dataset.schema().fields.iter().filter(|field| is_vector(&field.data_type()));
    let columns: Vec<(String, DataType)> =
        fields.map(|field| (field.name.clone(), field.data_type())).collect();
    let fitting: Vec<&String> = columns
        .iter()
        .filter(|(_, data_type)| dimension(data_type) == Some(length))
        .map(|(name, _)| name)
        .collect();
    match (columns.as_slice(), fitting.as_slice()) {
        ([(column, _)], _) => Ok(column.clone()),
        (_, [column]) => Ok((*column).clone()),
        ([], _) => Err(ApiError::invalid(format!("table {name:?} has no column of vectors"))),
        (several, _) => {
            let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            let names = names.join(", ");
            Err(ApiError::invalid(format!(
                "field vector_column: name one of the columns of vectors, {names}"
            )))
        }
    }
}

fn is_vector(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(item, _) => {
            item.data_type().is_floating() || *item.data_type() == DataType::UInt8
        }
        DataType::List(item) => matches!(item.data_type(), DataType::FixedSizeList(..)),
        _ => false,
    }
}

fn dimension(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeList(_, length) => usize::try_from(*length).ok(),
        DataType::List(item) => dimension(item.data_type()),
        _ => None,
    }
}

/// The rows of a scan.
///
/// # Errors
/// 400 for what Lance cannot do; otherwise what storage says.
pub async fn rows(name: &str, scanner: &Scanner) -> Result<(SchemaRef, Rows), ApiError> {
    let stream = scanner.try_into_stream().await;
    let stream = stream.map_err(|error| ApiError::lance(name, error, Again::Harmless))?;
    let stream = SendableRecordBatchStream::from(stream);
    let (schema, name) = (stream.schema(), name.to_owned());
    let rows = AssertUnwindSafe(stream).catch_unwind().map(move |rows| match rows {
        Ok(rows) => rows.map_err(|error| of_step(&name, error)),
        Err(_panic) => Err(caught::cannot(&name)),
    });
    Ok((schema, rows.boxed()))
}

/// What a step of a plan says: Lance carries its own errors through.
fn of_step(name: &str, error: DataFusionError) -> ApiError {
    ApiError::lance(name, lance::Error::from(error), Again::Harmless)
}

/// How many rows there are, or a condition keeps.
///
/// # Errors
/// 400 for a condition that is none; otherwise what storage says.
pub async fn count(name: &str, dataset: &Dataset, filter: Option<String>) -> Result<u64, ApiError> {
    sql::check_some("field predicate", filter.as_deref())?;
    let rows = dataset.count_rows(filter).await;
    rows.map(|rows| rows as u64).map_err(|error| ApiError::lance(name, error, Again::Harmless))
}
