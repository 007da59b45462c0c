//! Whether an expression is one of a single row: its columns and constants, and nothing else.
//!
//! Owns: the two looks a condition is given: at its text as it was parsed, for what Lance's planner does not
//! know, and at its plan, for what only names of functions tell. Does not own: anything else that can be
//! wrong with a condition (`filter`).

use std::ops::ControlFlow;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, visit_expressions};

/// What a condition may be, for people.
const CONDITION: &str = "a filter is a condition on the columns of one row, and SQL asks for more";

/// Refuses a condition that has a part which is not of one row.
///
/// # Errors
/// Which part, and why.
pub(crate) fn check_text(condition: &SqlExpr) -> Result<(), String> {
    let found = visit_expressions(condition, |part| match beyond_in_text(part) {
        None => ControlFlow::Continue(()),
        Some(why) => ControlFlow::Break(format!("{part} {why}: {CONDITION}")),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(reason) => Err(reason),
    }
}

fn beyond_in_text(part: &SqlExpr) -> Option<&'static str> {
    match part {
        SqlExpr::Subquery(_) | SqlExpr::InSubquery { .. } | SqlExpr::Exists { .. } => {
            Some("is another query")
        }
        SqlExpr::InUnnest { .. } => Some("makes rows of a list"),
        SqlExpr::Wildcard(_) | SqlExpr::QualifiedWildcard(..) => Some("stands for all columns"),
        SqlExpr::GroupingSets(_) | SqlExpr::Cube(_) | SqlExpr::Rollup(_) => Some("groups rows"),
        SqlExpr::Function(function) if function.over.is_some() => Some("looks at other rows"),
        _ => None,
    }
}

/// As [`check_text`], of a condition that was planned.
///
/// # Errors
/// As [`check_text`].
pub(crate) fn check_plan(condition: &Expr) -> Result<(), String> {
    let mut found = None;
    let walked = condition.apply(|part| {
        found = beyond(part).map(|why| format!("{} {why}: {CONDITION}", part.human_display()));
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    match (found, walked) {
        (Some(reason), _) => Err(reason),
        (None, Ok(_)) => Ok(()),
        (None, Err(error)) => Err(error.strip_backtrace()),
    }
}

fn beyond(part: &Expr) -> Option<&'static str> {
    match part {
        Expr::AggregateFunction(_) | Expr::GroupingSet(_) => Some("is of many rows"),
        Expr::WindowFunction(_) => Some("looks at other rows"),
        Expr::Unnest(_) => Some("makes rows of a list"),
        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => {
            Some("is another query")
        }
        Expr::OuterReferenceColumn(..) => Some("is of another query"),
        Expr::Placeholder(_) => Some("stands for a value that is not given"),
        _ => None,
    }
}
