//! `column = expression`, for the rows of an update.
//!
//! Owns: [`Assignment`]. Does not own: SQL; Lance's planner parses and coerces expressions as it does those
//! of filters, vector literals such as `[1.0, 2.0]` among them. Values are cast to the type of the column,
//! and one that does not fit is an error, never another value or null (P14).

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{FieldRef, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use headwater_format::key::KeySchema;
use lance::io::exec::Planner;

use crate::error::QueryError;
use crate::filter::{caught, check_known, check_whole, names, plain};

/// What one column becomes.
#[derive(Debug)]
pub(super) struct Assignment {
    /// Its place among the columns of the table.
    pub place: usize,
    field: FieldRef,
    value: Arc<dyn PhysicalExpr>,
}

impl Assignment {
    /// Checks it against the columns of the table.
    ///
    /// # Errors
    /// [`QueryError::Column`] for an unknown column; [`QueryError::Assignment`] for one of the key, and when
    /// the expression is none or of a type that no value of the column can be made of.
    pub(super) fn parse(
        column: &str,
        text: &str,
        table: &SchemaRef,
        key: &KeySchema,
    ) -> Result<Self, QueryError> {
        let refused = |reason: String| QueryError::Assignment { column: column.to_owned(), reason };
        let Some((place, field)) = table.fields().find(column) else {
            return Err(QueryError::Column { column: column.to_owned(), known: names(table) });
        };
        if key.columns().iter().any(|part| part.name == column) {
            let reason = "it is part of the key, which never changes: delete the row and write a new one";
            return Err(refused(reason.to_owned()));
        }
        if text.trim().is_empty() {
            return Err(refused("the expression is empty; NULL stands for no value".to_owned()));
        }
        check_whole(text, "expression").map_err(refused)?;
        let value = caught(|| plan(text, table)).unwrap_or_else(|| Err("it cannot be planned".to_owned()));
        let value = value.map_err(|reason| refused(format!("{text}: {reason}")))?;
        let from = value.data_type(table).map_err(|error| refused(error.strip_backtrace()))?;
        if from != *field.data_type() && !can_cast_types(&from, field.data_type()) {
            return Err(refused(format!("{text} gives {from}, the column has {}", field.data_type())));
        }
        Ok(Self { place, field: Arc::clone(field), value })
    }

    /// The column's new values for `rows`, which have all columns of the table.
    ///
    /// # Errors
    /// [`QueryError::Assignment`] for a value that cannot be computed or does not fit.
    pub(super) fn values(&self, rows: &RecordBatch) -> Result<ArrayRef, QueryError> {
        let refused = |reason: String| QueryError::Assignment { column: self.field.name().clone(), reason };
        let failed = |error: DataFusionError| refused(error.find_root().strip_backtrace());
        let values = self.value.evaluate(rows).map_err(failed)?;
        let values = values.into_array(rows.num_rows()).map_err(failed)?;
        let exact = CastOptions { safe: false, ..CastOptions::default() };
        let values = cast_with_options(&values, self.field.data_type(), &exact)
            .map_err(|error| refused(error.to_string()))?;
        if !self.field.is_nullable() && values.null_count() > 0 {
            return Err(refused("the expression gives null, where the column takes none".to_owned()));
        }
        Ok(values)
    }
}

fn plan(text: &str, table: &Schema) -> Result<Arc<dyn PhysicalExpr>, String> {
    let planner = Planner::new(Arc::new(table.clone()));
    let parsed = planner.parse_expr(text).map_err(|error| plain(&error))?;
    check_known(&parsed, table)?;
    let expr = planner.optimize_expr(parsed).map_err(|error| plain(&error))?;
    planner.create_physical_expr(&expr).map_err(|error| plain(&error))
}
