//! Whether the text of a CSV value is a value of the table's column, and making arrays of it.
//!
//! Owns: [`check`], the rules of what a column takes, and the column types that `arrow-csv` does not read
//! ([`read_as`], [`finish`]). Does not own: rows and lines ([`crate::csv_file`]). As in NDJSON nothing passes
//! that would be stored as something else than is written, floats excepted, which are rounded; `arrow-csv`
//! alone would cut what a decimal or a timestamp cannot hold.
//!
//! * Empty is null, in columns of text too.
//! * An integer or duration column takes digits, with a sign at most; a boolean column `true` and `false`, in
//!   capitals too, as Python writes them.
//! * A float column takes any number within range, and `NaN`, `inf` and `-inf`.
//! * Dates, times and timestamps are written as in NDJSON's strings, no finer than the column.
//! * Bytes are hex, as `scan --format csv` prints them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};

use crate::json_values::{integers, misfit, number, shown, string};

/// Longest text of a decimal: more than any decimal has digits, and few enough to count in a byte.
const MAX_DECIMAL: usize = 200;
/// Longest exponent of a decimal, with its sign: all that a decimal could hold, and no number is too large to
/// be counted.
const MAX_EXPONENT: usize = 4;

/// Whether `text`, which is not empty, is a value of `to`. What a date or a time has to look like is left to
/// the decoder.
///
/// # Errors
/// What is wrong with it, for people.
pub fn check(text: &str, to: &DataType) -> Result<(), String> {
    use DataType::{
        Binary, BinaryView, Boolean, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, Duration,
        FixedSizeBinary, LargeBinary, Null,
    };
    match to {
        Dictionary(_, values) => check(text, values),
        Boolean if ["true", "false"].iter().any(|word| word.eq_ignore_ascii_case(text)) => Ok(()),
        Duration(_) => integer(text, to),
        to if to.is_integer() => integer(text, to),
        to if to.is_floating() => float(text, to),
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => decimal(text, to),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => hex_digits(text, to),
        Null => Err(format!("\"{}\", where the column takes nothing but nulls: leave it empty", shown(text))),
        to => string(text, to),
    }
}

/// What is said of text that is no value of `to`.
pub fn wrong(text: &str, to: &DataType) -> String {
    if integers(to).is_some() && to.is_integer() {
        return format!(
            "\"{}\" is not written as an integer, and the column is {to}: write digits, with a sign at most",
            shown(text)
        );
    }
    misfit(&format!("\"{}\"", shown(text)), to)
}

fn integer(text: &str, to: &DataType) -> Result<(), String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong(text, to));
    }
    // Its range.
    number(text, to)
}

fn float(text: &str, to: &DataType) -> Result<(), String> {
    if text.parse::<f64>().is_err() {
        return Err(wrong(text, to));
    }
    // `NaN` and `inf` are values of their own; a number that only becomes infinite is out of range.
    if text.contains(['n', 'N']) { Ok(()) } else { number(text, to) }
}

fn decimal(text: &str, to: &DataType) -> Result<(), String> {
    let exponent = text.split_once(['e', 'E']).map_or("", |(_, exponent)| exponent);
    if text.len() > MAX_DECIMAL || exponent.len() > MAX_EXPONENT {
        return Err(wrong(text, to));
    }
    // It tells what the column does not hold: too many digits.
    string(text, to)
}

fn hex_digits(text: &str, to: &DataType) -> Result<(), String> {
    let digits = text.len();
    let is_hex = digits.is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = match to {
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).is_ok_and(|bytes| digits == 2 * bytes),
        _ => true,
    };
    if is_hex && fits {
        return Ok(());
    }
    Err(format!("\"{}\", where the column is {to}: write its bytes as hex, such as 1f8b", shown(text)))
}

/// What `arrow-csv` reads for a column of `to`; none when CSV has no such values.
pub fn read_as(to: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256,
        Dictionary, Duration, FixedSizeBinary, Float16, Float32, Float64, Int64, LargeBinary, LargeUtf8,
        Null, Time32, Time64, Timestamp, Utf8, Utf8View,
    };
    match to {
        Boolean | Date32 | Date64 | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..)
        | Float32 | Float64 | Null | Time32(_) | Time64(_) | Timestamp(..) | Utf8 | Utf8View => {
            Some(to.clone())
        }
        to if to.is_integer() => Some(to.clone()),
        Duration(_) => Some(Int64),
        // A dictionary that is too small for its values is an error of the cast, and a panic of the reader.
        Dictionary(_, values) if **values == Utf8 => Some(Utf8),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) | Float16 | LargeUtf8 => Some(Utf8),
        _ => None,
    }
}

/// A column as it was read, as one of type `to`.
///
/// # Errors
/// When a value is none of `to`.
pub fn finish(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    if column.data_type() == to {
        return Ok(Arc::clone(column));
    }
    match to {
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => cast(&bytes(column)?, to),
        to => cast(column, to),
    }
}

/// The bytes that text spells in hex.
fn bytes(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let texts = column.as_string_opt::<i32>();
    let texts = texts.ok_or_else(|| ArrowError::CsvError("bytes are read as text".to_owned()))?;
    let bytes = texts.iter().map(|text| text.map(hex::decode).transpose());
    let bytes: Vec<Option<Vec<u8>>> = bytes
        .collect::<Result<_, hex::FromHexError>>()
        .map_err(|error| ArrowError::CsvError(error.to_string()))?;
    Ok(Arc::new(bytes.into_iter().collect::<BinaryArray>()))
}

fn cast(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(column, to, &CastOptions { safe: false, ..CastOptions::default() })
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn values_pass_that_are_stored_as_they_are_written() {
        for (text, to) in [
            ("12", DataType::Int64),
            ("-12", DataType::Int8),
            ("+12", DataType::UInt8),
            ("1.5e300", DataType::Float64),
            ("NaN", DataType::Float32),
            ("-inf", DataType::Float64),
            ("True", DataType::Boolean),
            ("12.50", DataType::Decimal128(4, 2)),
            ("2024-05-31", DataType::Date32),
            ("2024-05-31T09:30:00.120", DataType::Timestamp(TimeUnit::Millisecond, None)),
            ("09:30:00", DataType::Time32(TimeUnit::Second)),
            ("1f8b", DataType::Binary),
            ("1F8B", DataType::FixedSizeBinary(2)),
            ("any text, \"quoted\"", DataType::Utf8),
            ("7", DataType::Duration(TimeUnit::Second)),
        ] {
            assert_eq!(check(text, &to), Ok(()), "{text} as {to}");
        }
    }

    #[test]
    fn values_are_refused_that_would_be_stored_as_something_else() {
        let long_zero = format!("0e{}", "9".repeat(9));
        for (text, to) in [
            ("1.5", DataType::Int64),
            ("1e3", DataType::Int64),
            (" 12", DataType::Int64),
            ("-", DataType::Int64),
            ("300", DataType::UInt8),
            ("-1", DataType::UInt8),
            ("1e400", DataType::Float64),
            ("1e39", DataType::Float32),
            ("12,5", DataType::Float64),
            ("yes", DataType::Boolean),
            ("12.505", DataType::Decimal128(4, 2)),
            ("1234", DataType::Decimal128(4, 2)),
            (long_zero.as_str(), DataType::Decimal128(4, 2)),
            ("2024-05-31T09:30:00", DataType::Date32),
            ("2024-05-31T09:30:00.5", DataType::Timestamp(TimeUnit::Second, None)),
            ("34200", DataType::Time32(TimeUnit::Second)),
            ("1f8", DataType::Binary),
            ("1f8b", DataType::FixedSizeBinary(4)),
            ("x", DataType::Null),
        ] {
            assert!(check(text, &to).is_err(), "{text} as {to}");
        }
    }

    #[test]
    fn an_integer_says_how_it_is_to_be_written_and_a_boolean_too() {
        let said = check("1.5", &DataType::Int64).expect_err("a fraction");
        assert!(said.contains("\"1.5\" is not written as an integer"), "{said}");
        let said = check("yes", &DataType::Boolean).expect_err("no boolean");
        assert!(said.contains("write true or false"), "{said}");
    }
}
