//! The vectors of a query, checked.
//!
//! Owns: [`Nearest`]: which column is searched, and the query vectors in its type. Does not own: the metric
//! where none is asked for (`vector_index`), how distances are computed (`exec`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, Float32Array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, SchemaRef};
use lance_core::datatypes::{format_field_path, parse_field_path};

use super::expression::Expression;
use super::request::{Metric, VectorQuery, VectorSearch};
use crate::error::QueryError;

/// A checked search for nearest rows.
#[derive(Clone, Debug)]
pub(super) struct Nearest {
    /// The column of vectors.
    pub column: Expression,
    /// Its path as Lance spells it.
    pub path: String,
    /// The type of the numbers in a vector.
    pub element: DataType,
    /// The query vectors, of that type: one or more.
    pub keys: Vec<ArrayRef>,
    pub metric: Option<Metric>,
    pub lower_bound: Option<f32>,
    pub upper_bound: Option<f32>,
    pub postfilter: bool,
    pub search: VectorSearch,
}

impl Nearest {
    /// Checks `query` against the columns of the table.
    ///
    /// # Errors
    /// [`QueryError::Request`] and [`QueryError::Column`].
    pub(super) fn new(query: &VectorQuery, table: &SchemaRef) -> Result<Self, QueryError> {
        let Some(first) = query.vectors.first() else {
            return Err(QueryError::request("vector", "there is none: give one or more"));
        };
        let name = match &query.column {
            Some(name) => name.clone(),
            None => only_column(table, first.len())?,
        };
        let column = Expression::path("vector_column", &name, table)?;
        let (element, dimension) = vector_type(&name, column.data_type())?;
        let keys = query.vectors.iter().enumerate().map(|(place, vector)| {
            key(vector, &element, dimension).map_err(|reason| {
                QueryError::request("vector", told(place, query.vectors.len(), &name, &reason))
            })
        });
        let keys = keys.collect::<Result<_, _>>()?;
        check_bound("lower_bound", query.lower_bound)?;
        check_bound("upper_bound", query.upper_bound)?;
        check_search(&query.search)?;
        Ok(Self {
            path: lance_path(&name, table),
            column,
            element,
            keys,
            metric: query.metric,
            lower_bound: query.lower_bound,
            upper_bound: query.upper_bound,
            postfilter: query.postfilter,
            search: query.search.clone(),
        })
    }
}

/// The only column of vectors of `dimension`.
fn only_column(table: &SchemaRef, dimension: usize) -> Result<String, QueryError> {
    let vectors = table.fields().iter().filter(|field| vector_type(field.name(), field.data_type()).is_ok());
    let (all, fitting): (Vec<String>, Vec<String>) =
        vectors.fold(Default::default(), |(mut all, mut fitting), field| {
            let size = match field.data_type() {
                DataType::FixedSizeList(_, size) => *size,
                _ => 0,
            };
            all.push(format!("{} (dimension {size})", field.name()));
            if usize::try_from(size) == Ok(dimension) {
                fitting.push(field.name().clone());
            }
            (all, fitting)
        });
    match (fitting.as_slice(), all.as_slice()) {
        ([only], _) => Ok(only.clone()),
        ([], []) => Err(QueryError::request("vector_column", "the table has no column of vectors")),
        ([], all) => {
            let reason = format!(
                "no column has vectors of dimension {dimension}, which the query vector has: there is {}",
                all.join(", ")
            );
            Err(QueryError::request("vector", reason))
        }
        (several, _) => {
            let reason = format!("say which: {} are columns of such vectors", several.join(", "));
            Err(QueryError::request("vector_column", reason))
        }
    }
}

/// The type and number of the elements of a vector.
fn vector_type(column: &str, data_type: &DataType) -> Result<(DataType, usize), QueryError> {
    let refused =
        |reason: String| Err(QueryError::request("vector_column", format!("column {column:?}: {reason}")));
    match data_type {
        DataType::FixedSizeList(item, size) => {
            let element = item.data_type();
            let dimension = usize::try_from(*size).unwrap_or_default();
            let fits = element.is_floating() || matches!(element, DataType::UInt8 | DataType::Int8);
            match fits && dimension > 0 {
                true => Ok((element.clone(), dimension)),
                false => refused(format!("lists of {size} {element} are no vectors")),
            }
        }
        DataType::List(item) if matches!(item.data_type(), DataType::FixedSizeList(..)) => {
            refused("several vectors a row are not supported on a table with a write tier yet".to_owned())
        }
        other => refused(format!("{other} values are no vectors: those are lists of a fixed size")),
    }
}

/// A query vector in the type of the column.
fn key(vector: &[f32], element: &DataType, dimension: usize) -> Result<ArrayRef, String> {
    if vector.len() != dimension {
        return Err(format!(
            "it has {} numbers, the column has vectors of dimension {dimension}",
            vector.len()
        ));
    }
    if let Some(place) = vector.iter().position(|number| !number.is_finite()) {
        return Err(format!("number {place} is not finite"));
    }
    let given: ArrayRef = Arc::new(Float32Array::from(vector.to_vec()));
    let exact = CastOptions { safe: true, ..CastOptions::default() };
    let cast = |values: &ArrayRef, to: &DataType| {
        cast_with_options(values, to, &exact).map_err(|error| error.to_string())
    };
    let key = cast(&given, element)?;
    let back = cast(&key, &DataType::Float32)?;
    let back = back.as_primitive::<Float32Type>();
    let whole = !element.is_floating();
    let fits = |place: usize, number: f32| {
        let found = back.is_valid(place).then(|| back.value(place));
        found.is_some_and(|found| found.is_finite() && (!whole || found == number))
    };
    match vector.iter().enumerate().find(|(place, number)| !fits(*place, **number)) {
        Some((place, number)) => {
            Err(format!("number {place}, {number}, is no {element}, which the column has"))
        }
        None => Ok(key),
    }
}

fn told(place: usize, vectors: usize, column: &str, reason: &str) -> String {
    match vectors {
        1 => format!("for column {column:?}: {reason}"),
        _ => format!("vector {place}, for column {column:?}: {reason}"),
    }
}

fn check_bound(field: &'static str, bound: Option<f32>) -> Result<(), QueryError> {
    match bound {
        Some(bound) if bound.is_nan() => Err(QueryError::request(field, "NaN is no distance")),
        _ => Ok(()),
    }
}

fn check_search(search: &VectorSearch) -> Result<(), QueryError> {
    if search.minimum_nprobes == Some(0) {
        return Err(QueryError::request("minimum_nprobes", "it is 1 or more"));
    }
    if let (Some(least), Some(most)) = (search.minimum_nprobes, search.maximum_nprobes)
        && most > 0
        && least > most
    {
        let reason = format!("{least} is more than maximum_nprobes, which is {most}");
        return Err(QueryError::request("minimum_nprobes", reason));
    }
    if search.effort.is_some_and(|effort| !(0.0..=1.0).contains(&effort)) {
        return Err(QueryError::request("search_effort", "it is a number from 0 to 1"));
    }
    if search.refine_factor == Some(0) {
        return Err(QueryError::request("refine_factor", "it is 1 or more"));
    }
    Ok(())
}

/// The path as Lance spells it, quoted where a name needs it.
fn lance_path(name: &str, table: &SchemaRef) -> String {
    let parts = match table.field_with_name(name) {
        Ok(_) => vec![name.to_owned()],
        Err(_) => parse_field_path(name).unwrap_or_else(|_| vec![name.to_owned()]),
    };
    format_field_path(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}
