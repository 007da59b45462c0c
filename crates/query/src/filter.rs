//! A filter: one SQL condition, as Lance plans it.
//!
//! Owns: [`Filter`]. Does not own: SQL; Lance's planner parses, coerces and simplifies, so a filter means the
//! same here and on a plain Lance table (P13).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use lance::io::exec::Planner;

use crate::error::QueryError;

/// Operators a filter may have. Several times as many overflow the stack of a thread in an unoptimised build.
const MAX_OPERATORS: usize = 250;

/// A checked condition on the rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    text: String,
    expr: Expr,
    columns: Vec<String>,
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
        check_whole(text).map_err(refused)?;
        // Planning some nonsense panics in the libraries below (P14).
        let planned = catch_unwind(AssertUnwindSafe(|| Self::plan(text, table)));
        planned
            .unwrap_or_else(|_panic| Err(refused("it cannot be planned: write it in another way".to_owned())))
    }

    fn plan(text: &str, table: &SchemaRef) -> Result<Self, QueryError> {
        let refused = |reason: String| QueryError::Filter { filter: text.to_owned(), reason };
        let planner = Planner::new(Arc::clone(table));
        let parsed = planner.parse_filter(text).map_err(|error| refused(plain(&error)))?;
        let columns = top_level(&Planner::column_names_in_expr(&parsed), table);
        let columns = columns.map_err(|unknown| refused(unknown_column(&unknown, table)))?;
        let expr = planner.optimize_expr(parsed).map_err(|error| refused(plain(&error)))?;
        let physical = planner.create_physical_expr(&expr).map_err(|error| refused(plain(&error)))?;
        match physical.data_type(table) {
            Ok(DataType::Boolean) => {}
            Ok(other) => return Err(refused(format!("it gives {other}; a condition gives true or false"))),
            Err(error) => return Err(refused(error.strip_backtrace())),
        }
        Ok(Self { text: text.to_owned(), expr, columns })
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
            _ => false,
        };
        // An expression that cannot be walked is not known to be safe.
        !self.expr.exists(|expr| Ok(!safe(expr))).unwrap_or(true)
    }

    /// Top-level columns it needs.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// As an expression on batches of `schema`, which has all its columns.
    pub(crate) fn on(&self, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>, QueryError> {
        let planner = Planner::new(Arc::new(schema.clone()));
        let physical = planner.create_physical_expr(&self.expr);
        physical.map_err(|error| QueryError::Filter { filter: self.text.clone(), reason: plain(&error) })
    }
}

/// Checks that the whole text is one condition. Lance's parser reads it as the end of a statement and leaves
/// out what follows the condition, so `n = 1 LIMIT 2` would read more rows than it says.
fn check_whole(text: &str) -> Result<(), String> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().map_err(|error| error.to_string())?;
    if let Some(placeholder) = tokens.iter().find(|token| matches!(token, Token::Placeholder(_))) {
        return Err(format!("{placeholder} stands for a value that is not given: write the value"));
    }
    // Expressions are walked by recursion, a step an operator.
    let operators = tokens.iter().filter(|token| is_operator(token)).count();
    if operators > MAX_OPERATORS {
        return Err(format!(
            "it has {operators} operators, more than {MAX_OPERATORS}: use IN for many values"
        ));
    }
    // Lance takes `==` for `=`.
    let mut last_was_equals = false;
    let tokens = tokens.into_iter().filter(|token| {
        let equals = *token == Token::Eq;
        let doubled = equals && std::mem::replace(&mut last_was_equals, equals);
        last_was_equals = equals;
        !doubled
    });
    let mut parser = Parser::new(&GenericDialect {}).with_tokens(tokens.collect());
    parser.parse_expr().map_err(|error| error.to_string())?;
    match parser.peek_token().token {
        Token::EOF => Ok(()),
        other => Err(format!("it goes on after the condition, with {other}")),
    }
}

fn compares_or_joins(operator: Operator) -> bool {
    use Operator as O;
    let compares = matches!(operator, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq);
    compares || matches!(operator, O::IsDistinctFrom | O::IsNotDistinctFrom | O::And | O::Or)
}

/// Whether the token joins two conditions or values.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(word.keyword, Keyword::AND | Keyword::OR | Keyword::NOT),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod => true,
        Token::StringConcat | Token::DoubleColon | Token::Ampersand | Token::Pipe | Token::Caret => true,
        _ => false,
    }
}

/// The top-level column each of the paths starts with; the first path that starts with none.
fn top_level(paths: &[String], table: &Schema) -> Result<Vec<String>, String> {
    let mut columns = Vec::new();
    for path in paths {
        let head = path.split('.').next().unwrap_or(path);
        let known = [path.as_str(), head].into_iter().find(|name| table.field_with_name(name).is_ok());
        let known = known.ok_or_else(|| path.clone())?.to_owned();
        if !columns.contains(&known) {
            columns.push(known);
        }
    }
    Ok(columns)
}

fn unknown_column(column: &str, table: &Schema) -> String {
    format!("there is no column {column:?}; the table has {}", names(table))
}

/// The columns of a schema, for people.
pub(crate) fn names(schema: &Schema) -> String {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    names.join(", ")
}

/// What Lance said, without the place in its source where it said it.
fn plain(error: &lance::Error) -> String {
    let text = match error {
        lance::Error::InvalidInput { source, .. } => source.to_string(),
        other => other.to_string(),
    };
    text.split(", /").next().unwrap_or(&text).trim().to_owned()
}
