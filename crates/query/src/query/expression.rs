//! An expression over the columns of a row, as Lance plans it.
//!
//! Owns: [`Expression`]. Does not own: SQL; Lance's planner parses, coerces and simplifies, so an expression
//! means the same here and on a plain Lance table (P13). Conditions are `filter`s.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use lance::io::exec::Planner;
use lance_core::datatypes::escape_field_path_for_project;

use super::row_ids;
use crate::error::QueryError;
use crate::filter::{caught, check_whole, names, plain};

/// A checked expression.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    expr: Expr,
    data_type: DataType,
    columns: BTreeSet<String>,
    /// The part of the request it comes from.
    field: &'static str,
}

impl Expression {
    /// A column of `row`, by its whole name, or else a path into one.
    ///
    /// # Errors
    /// [`QueryError::Column`] when there is none; [`QueryError::RowIds`]; [`QueryError::Request`].
    pub(crate) fn path(field: &'static str, path: &str, row: &SchemaRef) -> Result<Self, QueryError> {
        row_ids::refuse_name(path, row)?;
        if row.field_with_name(path).is_ok() {
            return Self::plan(field, path, row, |_| Ok(col_exact(path)));
        }
        let quoted = escape_field_path_for_project(path);
        match Self::plan(field, path, row, |planner| planner.parse_expr(&quoted)) {
            // Named as it was given.
            Err(QueryError::Column { known, .. }) => {
                Err(QueryError::Column { column: path.to_owned(), known })
            }
            end => end,
        }
    }

    /// SQL over the columns of `row`.
    ///
    /// # Errors
    /// As [`Self::path`].
    pub(crate) fn sql(field: &'static str, text: &str, row: &SchemaRef) -> Result<Self, QueryError> {
        let refused = |reason| QueryError::request(field, format!("{text:?}: {reason}"));
        if text.trim().is_empty() {
            return Err(refused("it is empty: name a column or write an expression".to_owned()));
        }
        row_ids::refuse_in(text, row)?;
        // A name as it is, however it is spelled.
        if row.field_with_name(text).is_err() {
            check_whole(text, "expression").map_err(refused)?;
        }
        Self::plan(field, text, row, |planner| planner.parse_expr(text))
    }

    fn plan(
        field: &'static str,
        text: &str,
        row: &SchemaRef,
        parse: impl FnOnce(&Planner) -> lance::Result<Expr>,
    ) -> Result<Self, QueryError> {
        let refused = |reason: String| QueryError::request(field, format!("{text:?}: {reason}"));
        let failed = |error: lance::Error| refused(plain(&error));
        let planned = caught(|| {
            let planner = Planner::new(Arc::clone(row));
            let parsed = parse(&planner).map_err(failed)?;
            let columns: BTreeSet<String> =
                parsed.column_refs().into_iter().map(|column| column.name.clone()).collect();
            if let Some(unknown) = columns.iter().find(|name| row.field_with_name(name).is_err()) {
                return Err(QueryError::Column { column: unknown.clone(), known: names(row) });
            }
            let expr = planner.optimize_expr(parsed).map_err(failed)?;
            let physical = planner.create_physical_expr(&expr).map_err(failed)?;
            let data_type = physical.data_type(row).map_err(|error| refused(error.strip_backtrace()))?;
            Ok(Self { expr, data_type, columns, field })
        });
        planned.unwrap_or_else(|| Err(refused("it cannot be planned: write it in another way".to_owned())))
    }

    /// Top-level columns it needs.
    pub(crate) fn columns(&self) -> &BTreeSet<String> {
        &self.columns
    }

    /// The type of its values.
    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// As an expression on batches of `schema`, which has all its columns.
    pub(crate) fn on(&self, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>, QueryError> {
        let physical = Planner::new(Arc::new(schema.clone())).create_physical_expr(&self.expr);
        physical.map_err(|error| QueryError::request(self.field, plain(&error)))
    }
}

/// The column of exactly this name: dots in it are no path.
fn col_exact(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}
