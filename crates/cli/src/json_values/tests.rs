#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;

/// What is wrong with `value` in a column of type `to`.
fn fault(value: &str, to: &DataType) -> Option<Fault> {
    let values = JsonValues::new(vec![Field::new("x", to.clone(), true)].into());
    values.check(format!("{{\"x\": {value}}}\n").as_bytes()).err()
}

#[track_caller]
fn passes(to: &DataType, values: &[&str]) {
    for value in values.iter().chain(&["null"]) {
        assert_eq!(fault(value, to), None, "{value} is a value of {to}");
    }
}

#[track_caller]
fn refused(to: &DataType, values: &[&str]) {
    for value in values {
        let fault = fault(value, to).unwrap_or_else(|| panic!("{value} is no value of {to}"));
        assert_eq!(fault.column.as_deref(), Some("x"), "{value}: {fault:?}");
        assert!(fault.reason.contains(&to.to_string()), "{value}: {fault:?} names the type");
    }
}

#[test]
fn an_integer_column_takes_what_is_written_as_an_integer_within_its_range() {
    passes(&DataType::Int64, &["0", "-0", "12", "9223372036854775807", "-9223372036854775808"]);
    passes(&DataType::UInt64, &["18446744073709551615"]);
    passes(&DataType::Int8, &["-128", "127"]);
    refused(&DataType::Int64, &["1.5", "1.0", "1e3", "1E3", "9223372036854775808", "\"12\"", "true"]);
    refused(&DataType::Int64, &["[1]", "{\"y\": 1}", "99999999999999999999999999999999999999999999"]);
    refused(&DataType::Int8, &["128", "-129"]);
    refused(&DataType::UInt8, &["-1", "256"]);
    refused(&DataType::UInt64, &["18446744073709551616", "-1"]);
}

#[test]
fn a_float_column_takes_numbers_it_can_round_to() {
    passes(&DataType::Float64, &["1", "1.5", "1e3", "-0.1", "9007199254740993", "1e-999"]);
    refused(&DataType::Float64, &["1e999", "\"1.5\"", "\"NaN\"", "true"]);
    passes(&DataType::Float32, &["3.4e38"]);
    refused(&DataType::Float32, &["3.5e38"]);
    passes(&DataType::Float16, &["65504"]);
    refused(&DataType::Float16, &["65520"]);
}

#[test]
fn a_decimal_column_takes_what_it_holds_to_the_last_digit() {
    let price = DataType::Decimal128(5, 2);
    passes(&price, &["1", "1.5", "1.50", "1.500", "-999.99", "1e2", "1.2345e2", "\"12.34\"", "0.000", "0e9"]);
    refused(&price, &["1.234", "0.001", "1000", "1e3", "99999999999999999999", "\"1.234\"", "1e-3", "true"]);
    refused(&price, &["1e99999999999999999999"]);
    passes(&DataType::Decimal256(76, 0), &["1234567890123456789012345678901234567890"]);
    passes(&DataType::Decimal128(3, -2), &["12300", "99900"]);
    refused(&DataType::Decimal128(3, -2), &["12345", "100000"]);
}

#[test]
fn text_and_booleans_are_written_as_what_they_are() {
    for to in [DataType::Utf8, DataType::LargeUtf8, DataType::Binary] {
        passes(&to, &["\"ab\""]);
        refused(&to, &["12", "1.5", "true", "[\"ab\"]", "{}"]);
    }
    passes(&DataType::Boolean, &["true", "false"]);
    refused(&DataType::Boolean, &["1", "0", "\"true\""]);
}

#[test]
fn times_are_strings_no_finer_than_their_unit_or_integers() {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    passes(&DataType::Date32, &["\"2024-05-31\"", "\"+10999-12-31\"", "19000"]);
    refused(&DataType::Date32, &["\"2024-05-31T12:00:00\"", "1.5", "true", "9999999999"]);
    let at = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    passes(&at(Second), &["\"2024-05-31\"", "\"2024-05-31T12:00:00Z\"", "\"2024-05-31T12:00:00.000Z\"", "1"]);
    refused(&at(Second), &["\"2024-05-31T12:00:00.5Z\"", "1717149600.5", "true"]);
    passes(&at(Millisecond), &["\"2024-05-31T12:00:00.125+02:00\""]);
    refused(&at(Millisecond), &["\"2024-05-31T12:00:00.1255+02:00\""]);
    passes(&at(Nanosecond), &["\"2024-05-31T12:00:00.123456789Z\""]);
    refused(&at(Nanosecond), &["\"2024-05-31T12:00:00.1234567891Z\""]);
    passes(&DataType::Time64(Microsecond), &["\"12:00:00.123456\"", "12"]);
    refused(&DataType::Time64(Microsecond), &["\"12:00:00.1234567\"", "\"12\"", "1.5"]);
    passes(&DataType::Duration(Second), &["12"]);
    refused(&DataType::Duration(Second), &["\"12\"", "1.5"]);
}

#[test]
fn values_inside_lists_structs_and_maps_are_looked_at_too() {
    let item = |to| Arc::new(Field::new("item", to, true));
    let list = DataType::List(item(DataType::Int64));
    passes(&list, &["[]", "[1, null, 3]"]);
    assert!(fault("[1, 2.5]", &list).unwrap().reason.contains("2.5"));
    let point = DataType::Struct(vec![Field::new("a", DataType::Int64, true)].into());
    passes(&point, &["{}", "{\"a\": 1}"]);
    let of_point = |value| fault(value, &point).unwrap();
    assert_eq!(of_point("{\"a\": 1.5}").column.as_deref(), Some("x.a"));
    assert_eq!(of_point("{\"b\": 1}").column.as_deref(), Some("x.b"));
    assert_eq!(of_point("{\"a\": 1, \"a\": 2}").column.as_deref(), Some("x.a"));
    let entries =
        vec![Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Int64, true)];
    let map = DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries.into()), false)), false);
    passes(&map, &["{}", "{\"a\": 1, \"b\": null}"]);
    assert!(fault("{\"a\": \"1\"}", &map).unwrap().reason.contains("Int64"));
}

#[test]
fn unknown_and_repeated_columns_are_named() {
    let values = JsonValues::new(
        vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)].into(),
    );
    let fault = |line: &str| values.check(line.as_bytes()).unwrap_err();
    assert_eq!(values.check(b"{\"b\": 1, \"a\": 2}"), Ok(()));
    let unknown = fault("{\"a\": 1, \"c\": 2}");
    assert_eq!((unknown.column.as_deref(), unknown.reason.contains("a, b")), (Some("c"), true));
    assert_eq!(fault("{\"a\": 1, \"a\": 1}").column.as_deref(), Some("a"));
    assert_eq!(fault("{\"a\": 1}{\"a\": 1}").column, None);
    assert_eq!(fault("[1]").column, None);
}
