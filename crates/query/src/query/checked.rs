//! A request that can be answered.
//!
//! Owns: [`Checked`]: every name, expression and number of a request, checked before anything is read.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, SortOptions};

use super::expression::Expression;
use super::request::{Columns, QueryRequest};
use super::row_ids;
use super::vector::Nearest;
use crate::error::QueryError;
use crate::exec::DISTANCE;
use crate::filter::Filter;

/// The place of the query vector a row is near to.
pub(super) const QUERY_INDEX: &str = "query_index";

/// A checked request.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    /// Names and what they stand for, in their order.
    pub outputs: Vec<(String, Expression)>,
    pub filter: Option<Arc<Filter>>,
    pub order: Vec<(Expression, SortOptions)>,
    pub limit: Option<usize>,
    pub offset: usize,
    pub nearest: Option<Nearest>,
}

impl Checked {
    /// Checks `request` against the columns of the table.
    ///
    /// # Errors
    /// [`QueryError::Request`] and [`QueryError::Column`] with what is wrong, [`QueryError::Filter`],
    /// [`QueryError::RowIds`], [`QueryError::FullText`].
    pub(super) fn new(request: &QueryRequest, table: &SchemaRef) -> Result<Self, QueryError> {
        if request.with_row_id {
            return Err(QueryError::RowIds { asked: "with_row_id".to_owned() });
        }
        if request.full_text.is_some() {
            return Err(QueryError::FullText);
        }
        let nearest = request.nearest.as_ref().map(|query| Nearest::new(query, table)).transpose()?;
        let row = match &nearest {
            None => Arc::clone(table),
            Some(nearest) => with_distance(table, nearest.keys.len())?,
        };
        let filter = request.filter.as_deref().map(|text| {
            row_ids::refuse_in(text, table)?;
            Filter::parse(text, table).map(Arc::new)
        });
        let mut outputs = outputs(request.columns.as_ref(), &row)?;
        if nearest.is_some() && !outputs.iter().any(|(name, _)| name == DISTANCE) {
            outputs.push((DISTANCE.to_owned(), Expression::path("columns", DISTANCE, &row)?));
        }
        let order = request.order_by.iter().map(|by| {
            let options = SortOptions { descending: !by.ascending, nulls_first: by.nulls_first };
            Ok((Expression::path("order_by", &by.column, &row)?, options))
        });
        let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        Ok(Self {
            outputs,
            filter: filter.transpose()?,
            order: order.collect::<Result<_, QueryError>>()?,
            limit: request.limit.map(count),
            offset: count(request.offset),
            nearest,
        })
    }

    /// More rows than this are of no use.
    pub(super) fn enough(&self) -> Option<usize> {
        self.limit.map(|limit| limit.saturating_add(self.offset))
    }

    /// The columns of the table that must be read of a row, and those it is found by: of every row, if it is
    /// not looked for by distance; `_distance` is not among them.
    pub(super) fn reads(&self, table: &Schema) -> SchemaRef {
        let outputs = self.outputs.iter().map(|(_, output)| output);
        let by = self.order.iter().map(|(by, _)| by);
        let mut needed: BTreeSet<&str> =
            outputs.chain(by).flat_map(Expression::columns).map(String::as_str).collect();
        if let Some(filter) = self.postfilter() {
            needed.extend(filter.columns().iter().map(String::as_str));
        }
        part(table, |name| needed.contains(name))
    }

    /// The filter as far as it is asked of every row.
    pub(super) fn prefilter(&self) -> Option<&Arc<Filter>> {
        self.filter.as_ref().filter(|_| !self.is_postfiltered())
    }

    /// The filter as far as it is asked of nearest rows only.
    pub(super) fn postfilter(&self) -> Option<&Arc<Filter>> {
        self.filter.as_ref().filter(|_| self.is_postfiltered())
    }

    fn is_postfiltered(&self) -> bool {
        self.nearest.as_ref().is_some_and(|nearest| nearest.postfilter)
    }
}

/// The columns of `table` that are `wanted`, in the table's order.
pub(super) fn part(table: &Schema, wanted: impl Fn(&str) -> bool) -> SchemaRef {
    let fields: Vec<_> = table.fields().iter().filter(|field| wanted(field.name())).cloned().collect();
    Arc::new(Schema::new_with_metadata(fields, table.metadata().clone()))
}

fn with_distance(table: &Schema, vectors: usize) -> Result<SchemaRef, QueryError> {
    let taken = [(DISTANCE, true), (QUERY_INDEX, vectors > 1)];
    let taken = taken.into_iter().find(|(name, used)| *used && table.field_with_name(name).is_ok());
    if let Some((name, _)) = taken {
        let reason = format!("the table has a column {name}, which is what the search calls one of its own");
        return Err(QueryError::request("vector", reason));
    }
    let distance = Arc::new(Field::new(DISTANCE, DataType::Float32, true));
    let fields: Vec<_> = table.fields().iter().cloned().chain([distance]).collect();
    Ok(Arc::new(Schema::new_with_metadata(fields, table.metadata().clone())))
}

fn outputs(columns: Option<&Columns>, row: &SchemaRef) -> Result<Vec<(String, Expression)>, QueryError> {
    let path = |name: &String| Ok((name.clone(), Expression::path("columns", name, row)?));
    let outputs: Result<Vec<_>, QueryError> = match columns {
        None => row.fields().iter().map(|field| path(field.name())).collect(),
        Some(Columns::Named(names)) => names.iter().map(path).collect(),
        Some(Columns::Computed(columns)) => {
            let sql =
                |(name, text): &(String, String)| Ok((name.clone(), Expression::sql("columns", text, row)?));
            columns.iter().map(sql).collect()
        }
    };
    let outputs = outputs?;
    let mut seen = BTreeSet::new();
    match outputs.iter().find(|(name, _)| !seen.insert(name.as_str())) {
        Some((twice, _)) => Err(QueryError::request("columns", format!("{twice:?} is asked for twice"))),
        None => Ok(outputs),
    }
}
