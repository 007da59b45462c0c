//! The keys a condition names.
//!
//! Owns: [`named_keys`]. Where every row a condition keeps has one of a few keys, key indexes find them; the
//! condition is asked of what was found all the same, so naming too many keys costs time and no more.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use headwater_format::key::{KeyColumn, KeySchema};

/// Keys looked up for one query; with more it is a scan.
const MAX_KEYS: usize = 1_000;

/// The keys of all rows `condition` can keep, if it says so: it fixes every key column to one of some values.
pub(crate) fn named_keys(condition: &Expr, key: &KeySchema) -> Option<RecordBatch> {
    let parts = split_conjunction(condition);
    let fixed = |column: &KeyColumn| {
        let values = parts.iter().filter_map(|part| values(part, column));
        values.min_by_key(Vec::len)
    };
    let columns = key.columns().iter().map(fixed).collect::<Option<Vec<_>>>()?;
    let keys = columns.iter().try_fold(1_usize, |keys, values| keys.checked_mul(values.len()))?;
    if keys > MAX_KEYS {
        return None;
    }
    // Every combination: of each column, each value so often in a row that the columns after it fit in.
    let mut repeat = keys;
    let mut arrays = Vec::with_capacity(columns.len());
    for (values, column) in columns.iter().zip(key.columns()) {
        repeat /= values.len().max(1);
        let all = values.iter().flat_map(|value| std::iter::repeat_n(value, repeat)).cycle();
        arrays.push(array(all.take(keys).cloned(), column)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(keys));
    RecordBatch::try_new_with_options(key.schema().clone(), arrays, &options).ok()
}

fn array(values: impl Iterator<Item = ScalarValue>, column: &KeyColumn) -> Option<ArrayRef> {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Some(new_empty_array(&column.data_type));
    }
    ScalarValue::iter_to_array(values).ok()
}

/// The values `column` can have where `condition` is true, if it says so. Null is never one.
fn values(condition: &Expr, column: &KeyColumn) -> Option<Vec<ScalarValue>> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let value = if is(left, column) { right } else { is(right, column).then_some(left)? };
            Some(literal(value, column)?.into_iter().collect())
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (mut all, more) = (values(left, column)?, values(right, column)?);
            all.extend(more);
            (all.len() <= MAX_KEYS).then_some(all)
        }
        Expr::InList(list) if !list.negated && is(&list.expr, column) && list.list.len() <= MAX_KEYS => {
            let values = list.list.iter().map(|value| literal(value, column));
            Some(values.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
        }
        _ => None,
    }
}

fn is(expr: &Expr, column: &KeyColumn) -> bool {
    matches!(expr, Expr::Column(found) if found.name == column.name)
}

/// The value of a literal of the column's own type, no value for null; none for anything else.
#[expect(clippy::option_option, reason = "not known, known to be null, known")]
fn literal(expr: &Expr, column: &KeyColumn) -> Option<Option<ScalarValue>> {
    let Expr::Literal(value, _) = expr else { return None };
    if value.is_null() {
        return Some(None);
    }
    (value.data_type() == column.data_type).then(|| Some(value.clone()))
}
