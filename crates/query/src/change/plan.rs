//! What a statement makes of rows.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use headwater_format::key::KeySchema;

use super::assignment::Assignment;
use crate::error::QueryError;
use crate::filter::Filter;

/// An update or a delete, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Columns with the SQL expressions that give their new values, from the row as it is; none: the rows are
    /// deleted.
    pub updates: Option<Vec<(String, String)>>,
    /// A SQL condition on the rows it is about; none: all rows.
    pub predicate: Option<String>,
}

/// A [`Statement`], checked against the columns of a table.
#[derive(Debug)]
pub struct Change {
    filter: Option<Filter>,
    assignments: Vec<Assignment>,
}

impl Statement {
    /// Checks it against the columns and the key of a table.
    ///
    /// # Errors
    /// [`QueryError::Filter`] for the condition; [`QueryError::Column`] and [`QueryError::Assignment`] for an
    /// update, [`QueryError::Sql`] for one that changes nothing.
    pub fn plan(&self, table: &SchemaRef, key: &KeySchema) -> Result<Change, QueryError> {
        let filter = self.predicate.as_deref().map(|text| Filter::parse(text, table)).transpose()?;
        let updates = self.updates.as_deref().unwrap_or_default().iter();
        if self.updates.as_ref().is_some_and(Vec::is_empty) {
            let reason = "the update changes no column: name one with its new value".to_owned();
            return Err(QueryError::Sql { reason });
        }
        let mut seen = BTreeSet::new();
        let assignments = updates.map(|(column, text)| {
            let assignment = Assignment::parse(column, text, table, key)?;
            if !seen.insert(assignment.place) {
                let reason = "it is assigned twice".to_owned();
                return Err(QueryError::Assignment { column: column.clone(), reason });
            }
            Ok(assignment)
        });
        Ok(Change { filter, assignments: assignments.collect::<Result<_, _>>()? })
    }
}

impl Change {
    /// Those of `rows`, which have all columns of the table, that the condition keeps, with their new values.
    ///
    /// # Errors
    /// [`QueryError::Assignment`] for a value that cannot be computed or does not fit its column;
    /// [`QueryError::Execution`] when the condition cannot be told of a row.
    pub fn apply(&self, rows: &RecordBatch) -> Result<RecordBatch, QueryError> {
        let kept = match &self.filter {
            None => rows.clone(),
            Some(filter) => filter.of(rows)?,
        };
        let mut columns = kept.columns().to_vec();
        for assignment in &self.assignments {
            let values = assignment.values(&kept)?;
            if let Some(column) = columns.get_mut(assignment.place) {
                *column = values;
            }
        }
        RecordBatch::try_new(kept.schema(), columns).map_err(|error: ArrowError| QueryError::execution(error))
    }
}
