//! A filter: one SQL condition, as Lance plans it.
//!
//! Owns: [`Filter`]. Does not own: SQL; Lance's planner parses, coerces and simplifies, so a filter means the
//! same here and on a plain Lance table (P13). Conditions of SQL queries, which DataFusion has planned, go
//! through the same planner: it is what makes -0.0 equal 0.0.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use headwater_format::key::KeySchema;
use headwater_lance::without_places;
use lance::io::exec::Planner;

use crate::depth::check_depth;
use crate::error::QueryError;
use crate::key_filter::named_keys;
use crate::of_rows;

/// A checked condition on the rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    text: String,
    expr: Expr,
    columns: BTreeSet<String>,
    keys: Option<RecordBatch>,
}

impl Filter {
    /// Checks the condition against the columns of the table.
    ///
    /// # Errors
    /// [`QueryError::Filter`] when it is no SQL condition, names unknown columns, or is of wrong types.
    pub(crate) fn parse(text: &str, table: &SchemaRef) -> Result<Self, QueryError> {
        let refused = |reason: String| QueryError::Filter { filter: text.to_owned(), reason };
        if text.trim().is_empty() {
            return Err(refused("it is empty: leave it out to read every row".to_owned()));
        }
        check_whole(text, "condition").map_err(refused)?;
        let planner = Planner::new(Arc::clone(table));
        let parse = || planner.parse_filter(text).map_err(|error| refused(plain(&error)));
        caught(|| Self::plan(text, &planner, parse()?, table))
            .unwrap_or_else(|| Err(refused("it cannot be planned: write it in another way".to_owned())))
    }

    /// All of `conditions`, which DataFusion has planned for this table; none when there are none.
    ///
    /// # Errors
    /// [`QueryError::Filter`] for one that is none of [`Self::takes`].
    pub(crate) fn all_of(conditions: &[Expr], table: &SchemaRef) -> Result<Option<Self>, QueryError> {
        let Some(all) = conjunction(conditions.iter().cloned()) else { return Ok(None) };
        let (text, planner) = (all.to_string(), Planner::new(Arc::clone(table)));
        caught(|| Self::plan(&text, &planner, all, table).map(Some)).unwrap_or_else(|| {
            let reason = "it cannot be planned: write it in another way".to_owned();
            Err(QueryError::Filter { filter: text.clone(), reason })
        })
    }

    /// Whether a condition DataFusion has planned can be asked of each source by itself: it gives the same
    /// answer whenever it is asked, and depends on nothing but the row.
    pub(crate) fn takes(condition: &Expr, table: &SchemaRef) -> bool {
        let changes = condition.exists(|expr| Ok(expr.is_volatile_node())).unwrap_or(true);
        !changes
            && of_rows::check_plan(condition).is_ok()
            && Self::all_of(&[unnormalize_col(condition.clone())], table).is_ok()
    }

    fn plan(text: &str, planner: &Planner, parsed: Expr, table: &SchemaRef) -> Result<Self, QueryError> {
        let refused = |reason: String| QueryError::Filter { filter: text.to_owned(), reason };
        of_rows::check_plan(&parsed).map_err(refused)?;
        let columns = check_known(&parsed, table).map_err(refused)?;
        let expr = planner.optimize_expr(parsed).map_err(|error| refused(plain(&error)))?;
        let physical = planner.create_physical_expr(&expr).map_err(|error| refused(plain(&error)))?;
        match physical.data_type(table) {
            Ok(DataType::Boolean) => {}
            Ok(other) => return Err(refused(format!("it gives {other}; a condition gives true or false"))),
            Err(error) => return Err(refused(error.strip_backtrace())),
        }
        Ok(Self { text: text.to_owned(), expr, columns, keys: None })
    }

    /// Finds out which keys it names, on a table with this key.
    pub(crate) fn naming_keys(mut self, key: Option<&KeySchema>) -> Self {
        self.keys = key.and_then(|key| named_keys(&self.expr, key));
        self
    }

    /// The keys of all rows it can keep, if it names them.
    pub(crate) fn keys(&self) -> Option<&RecordBatch> {
        self.keys.as_ref()
    }

    /// As Lance takes it.
    pub(crate) fn expr(&self) -> &Expr {
        &self.expr
    }

    /// Whether it gives an answer on every row there can be: columns and literals, compared and combined.
    /// Arithmetic, conversions and functions can fail, on a division by zero or a text that is no number.
    pub(crate) fn cannot_fail(&self) -> bool {
        let safe = |expr: &Expr| match expr {
            Expr::BinaryExpr(binary) => compares_or_joins(binary.op),
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Between(_)
            | Expr::InList(_)
            | Expr::Like(_) => true,
            // A field of a struct.
            Expr::ScalarFunction(call) => call.func.name() == "get_field",
            _ => false,
        };
        // An expression that cannot be walked is not known to be safe.
        !self.expr.exists(|expr| Ok(!safe(expr))).unwrap_or(true)
    }

    /// Top-level columns it needs.
    pub(crate) fn columns(&self) -> &BTreeSet<String> {
        &self.columns
    }

    /// Those of `rows`, which have all its columns, that it keeps.
    pub(crate) fn of(&self, rows: &RecordBatch) -> Result<RecordBatch, QueryError> {
        Ok(rows_kept(rows, &self.on(rows.schema_ref())?)?)
    }

    /// As an expression on batches of `schema`, which has all its columns.
    pub(crate) fn on(&self, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>, QueryError> {
        let planner = Planner::new(Arc::new(schema.clone()));
        let physical = planner.create_physical_expr(&self.expr);
        physical.map_err(|error| QueryError::Filter { filter: self.text.clone(), reason: plain(&error) })
    }
}

/// The rows of `batch` for which `condition` is true.
pub(crate) fn rows_kept(
    batch: &RecordBatch,
    condition: &Arc<dyn PhysicalExpr>,
) -> Result<RecordBatch, DataFusionError> {
    let answers = condition.evaluate(batch)?.into_array(batch.num_rows())?;
    let answers = answers.as_boolean_opt().ok_or_else(|| {
        QueryError::execution(format!("a filter gave {}, no condition", answers.data_type()))
    })?;
    Ok(filter_record_batch(batch, answers)?)
}

/// The columns of `expr`, all of which the table has.
pub(crate) fn check_known(expr: &Expr, table: &Schema) -> Result<BTreeSet<String>, String> {
    let columns: BTreeSet<String> =
        expr.column_refs().into_iter().map(|column| column.name.clone()).collect();
    match columns.iter().find(|name| table.field_with_name(name).is_err()) {
        Some(unknown) => Err(format!("there is no column {unknown:?}; the table has {}", names(table))),
        None => Ok(columns),
    }
}

/// Checks that the whole text is one `what`. Lance's parser reads it as the end of a statement and leaves out
/// what follows, so `n = 1 LIMIT 2` would read more rows than it says.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn check_whole(text: &str, what: &str) -> Result<(), String> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().map_err(|error| error.to_string())?;
    if let Some(placeholder) = tokens.iter().find(|token| matches!(token, Token::Placeholder(_))) {
        return Err(format!("{placeholder} stands for a value that is not given: write the value"));
    }
    check_depth(&tokens)?;
    // Lance takes `==` for `=`.
    let mut last_was_equals = false;
    let tokens = tokens.into_iter().filter(|token| {
        let equals = *token == Token::Eq;
        let doubled = equals && std::mem::replace(&mut last_was_equals, equals);
        last_was_equals = equals;
        !doubled
    });
    let mut parser = Parser::new(&GenericDialect {}).with_tokens(tokens.collect());
    let condition = parser.parse_expr().map_err(|error| error.to_string())?;
    of_rows::check_text(&condition)?;
    match parser.peek_token().token {
        Token::EOF => Ok(()),
        other => Err(format!("it goes on after the {what}, with {other}")),
    }
}

fn compares_or_joins(operator: Operator) -> bool {
    use Operator as O;
    let compares = matches!(operator, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq);
    compares || matches!(operator, O::IsDistinctFrom | O::IsNotDistinctFrom | O::And | O::Or)
}

/// Plans; none when it panics, which planning some nonsense does in the libraries below (P14).
pub(crate) fn caught<T>(plan: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(plan)).ok()
}

/// The columns of a schema, for people.
pub(crate) fn names(schema: &Schema) -> String {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    names.join(", ")
}

/// What Lance said, without the place in its source where it said it.
pub(crate) fn plain(error: &lance::Error) -> String {
    let text = match error {
        lance::Error::InvalidInput { source, .. } => source.to_string(),
        other => other.to_string(),
    };
    without_places(&text).trim().to_owned()
}
