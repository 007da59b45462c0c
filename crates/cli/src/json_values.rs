//! Whether the values of a line of JSON are values of the table's columns.
//!
//! Owns: [`JsonValues`], the rules of what a column takes. Does not own: making arrays of the values
//! (`arrow-json`), which is lenient where this is not: it takes `1.5` for the integer 1, `"12"` for 12, and
//! cuts what a decimal or a timestamp cannot hold. Here nothing passes that would be stored as something else
//! than is written. The one exception is what floats are: a number becomes the nearest value of the column.
//!
//! * An integer column takes numbers written without fraction and exponent (not `1.0`, not `1e3`), within
//!   range.
//! * A float column takes any number within range; a decimal column one whose digits it holds, in quotes too.
//! * A text or binary column takes strings, a boolean column `true` and `false`.
//! * A date, time or timestamp column takes strings no finer than its unit, or integers that count its unit;
//!   a duration column only the latter.
//! * Lists are arrays; structs and maps are objects. A struct, like the row itself, has no field twice.
//! * `null` passes everywhere: whether the column takes nulls is looked at later.
//!
//! The rules for single values hold for CSV too ([`crate::csv_values`]).

use std::borrow::Cow;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use json_event_parser::{JsonEvent, SliceJsonParser};

/// Characters of a value that a message shows.
const SHOWN: usize = 40;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The column at fault, as a path (`a.b`) inside structs; none when the line is no JSON object.
    pub column: Option<String>,
    /// What is wrong.
    pub reason: String,
}

/// The columns of a table, as JSON values have to fit them.
#[derive(Clone, Debug)]
pub struct JsonValues {
    fields: Fields,
}

impl JsonValues {
    pub fn new(fields: Fields) -> Self {
        Self { fields }
    }

    /// Checks that `line` is one JSON object whose values fit.
    ///
    /// # Errors
    /// The first [`Fault`].
    pub fn check(&self, line: &[u8]) -> Result<(), Fault> {
        let mut walk = Walk { events: SliceJsonParser::new(line), path: Vec::new() };
        match walk.next()? {
            JsonEvent::StartObject => walk.object(&self.fields)?,
            _ => return Err(walk.fault("it is no JSON object".to_owned())),
        }
        match walk.next()? {
            JsonEvent::Eof => Ok(()),
            _ => Err(walk.fault("not exactly one JSON object".to_owned())),
        }
    }
}

/// A way through the values of a line, in their order.
struct Walk<'line, 'schema> {
    events: SliceJsonParser<'line>,
    /// Names of the fields around the value at hand.
    path: Vec<&'schema str>,
}

impl<'line, 'schema> Walk<'line, 'schema> {
    fn next(&mut self) -> Result<JsonEvent<'line>, Fault> {
        self.events.parse_next().map_err(|error| self.fault(error.message().to_owned()))
    }

    fn fault(&self, reason: String) -> Fault {
        Fault { column: (!self.path.is_empty()).then(|| self.path.join(".")), reason }
    }

    /// The fields of an object that has just begun, to its end.
    fn object(&mut self, fields: &'schema Fields) -> Result<(), Fault> {
        let mut seen = vec![false; fields.len()];
        let mut expected = 0;
        loop {
            let JsonEvent::ObjectKey(name) = self.next()? else { return Ok(()) };
            let Some(place) = place(fields, &name, expected) else { return Err(self.unknown(&name, fields)) };
            expected = place + 1;
            let Some(field) = fields.get(place) else { continue };
            self.path.push(field.name());
            if seen.get_mut(place).is_some_and(|seen| std::mem::replace(seen, true)) {
                return Err(self.fault("it comes twice in one object".to_owned()));
            }
            let value = self.next()?;
            self.value(value, field.data_type())?;
            self.path.pop();
        }
    }

    fn unknown(&self, name: &str, fields: &Fields) -> Fault {
        let known: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        let (what, around) = match self.path.is_empty() {
            true => ("the table has no such column", String::new()),
            false => ("the struct has no such field", format!("{}.", self.path.join("."))),
        };
        Fault {
            column: Some(format!("{around}{}", shown(name))),
            reason: format!("{what}; it has {}", known.join(", ")),
        }
    }

    fn value(&mut self, value: JsonEvent<'line>, to: &'schema DataType) -> Result<(), Fault> {
        use DataType::{
            Boolean, Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct,
        };
        let checked = match (value, to) {
            (value, Dictionary(_, values)) => return self.value(value, values),
            (JsonEvent::Null, _) | (JsonEvent::Boolean(_), Boolean) => return Ok(()),
            (JsonEvent::StartObject, Struct(fields)) => return self.object(fields),
            (JsonEvent::StartObject, Map(entries, _)) => return self.map(entries),
            (
                JsonEvent::StartArray,
                List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _),
            ) => return self.array(item.data_type()),
            (JsonEvent::Number(text), to) => number(&text, to),
            (JsonEvent::String(text), to) => string(&text, to),
            (JsonEvent::Boolean(value), to) => Err(misfit(&value.to_string(), to)),
            (JsonEvent::StartArray, to) => Err(misfit("an array", to)),
            (_, to) => Err(misfit("an object", to)),
        };
        checked.map_err(|reason| self.fault(reason))
    }

    /// The items of an array that has just begun, to its end.
    fn array(&mut self, item: &'schema DataType) -> Result<(), Fault> {
        loop {
            match self.next()? {
                JsonEvent::EndArray => return Ok(()),
                value => self.value(value, item)?,
            }
        }
    }

    /// The entries of a map that has just begun, to its end. In JSON their keys are strings.
    fn map(&mut self, entries: &'schema Field) -> Result<(), Fault> {
        let DataType::Struct(entry) = entries.data_type() else { return Ok(()) };
        loop {
            let JsonEvent::ObjectKey(_) = self.next()? else { return Ok(()) };
            let value = self.next()?;
            if let Some(values) = entry.get(1) {
                self.value(value, values.data_type())?;
            }
        }
    }
}

/// Where the field `name` is. Usually the fields come in the table's order, so `expected` is looked at first.
fn place(fields: &Fields, name: &str, expected: usize) -> Option<usize> {
    match fields.get(expected) {
        Some(field) if field.name() == name => Some(expected),
        _ => fields.iter().position(|field| field.name() == name),
    }
}

/// Whether the number written as `text` is a value of `to`.
pub fn number(text: &str, to: &DataType) -> Result<(), String> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Float16, Float32, Float64};
    if let Some((least, most)) = integers(to) {
        return integer(text, least, most, to);
    }
    let within = match to {
        // Everything from here on is rounded to infinity.
        Float16 => text.parse::<f32>().is_ok_and(|value| value.abs() < 65_520.0),
        Float32 => text.parse::<f32>().is_ok_and(f32::is_finite),
        Float64 => text.parse::<f64>().is_ok_and(f64::is_finite),
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => {
            return decimal(text, *p, *s, to);
        }
        _ => return Err(misfit(&shown(text), to)),
    };
    if within { Ok(()) } else { Err(format!("{} is out of the range of {to}", shown(text))) }
}

/// The integers that are values of a type; none for types that are not counted in integers.
pub fn integers(to: &DataType) -> Option<(i128, i128)> {
    use DataType::{
        Date32, Date64, Duration, Int8, Int16, Int32, Int64, Time32, Time64, Timestamp, UInt8, UInt16,
        UInt32, UInt64,
    };
    Some(match to {
        Int8 => (i8::MIN.into(), i8::MAX.into()),
        Int16 => (i16::MIN.into(), i16::MAX.into()),
        Int32 | Date32 | Time32(_) => (i32::MIN.into(), i32::MAX.into()),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => (i64::MIN.into(), i64::MAX.into()),
        UInt8 => (0, u8::MAX.into()),
        UInt16 => (0, u16::MAX.into()),
        UInt32 => (0, u32::MAX.into()),
        UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

fn integer(text: &str, least: i128, most: i128, to: &DataType) -> Result<(), String> {
    if text.contains(['.', 'e', 'E']) {
        return Err(format!(
            "{} is not written as an integer, and the column is {to}: write it without fraction and exponent",
            shown(text)
        ));
    }
    // A number too long for this is out of every range.
    match text.parse::<i128>() {
        Ok(value) if (least..=most).contains(&value) => Ok(()),
        _ => Err(format!("{} is out of the range of {to}, {least} to {most}", shown(text))),
    }
}

/// Whether a decimal of `precision` digits, `scale` of them behind the point, holds all digits of `text`.
/// Text that is no number passes: the decoder says what is wrong with it.
fn decimal(text: &str, precision: u8, scale: i8, to: &DataType) -> Result<(), String> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let written = format!("{whole}{fraction}");
    let leading = written.trim_start_matches('0');
    let digits = leading.trim_end_matches('0');
    if digits.is_empty() {
        return Ok(());
    }
    let too_large = || format!("{} has more digits before the point than {to} holds", shown(text));
    let exponent: i64 = exponent.parse().map_err(|_| too_large())?;
    // The value is digits * 10^power.
    let power = exponent.saturating_sub(fraction.len() as i64) + (leading.len() - digits.len()) as i64;
    let behind = power.saturating_add(scale.into());
    if behind < 0 {
        return Err(format!("{} has more digits behind the point than {to} holds", shown(text)));
    }
    if behind.saturating_add(digits.len() as i64) > precision.into() {
        return Err(too_large());
    }
    Ok(())
}

/// Whether a string is written for a value of `to`. What the string has to look like, the decoder knows.
pub fn string(text: &str, to: &DataType) -> Result<(), String> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, FixedSizeBinary,
        Interval, LargeBinary, LargeUtf8, Time32, Time64, Timestamp, Utf8, Utf8View,
    };
    match to {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
        | Interval(_) => Ok(()),
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => decimal(text, *p, *s, to),
        // Years of more than four digits have a sign.
        Date32 if text.len() > "2024-05-31".len() && !text.starts_with(['+', '-']) => {
            Err(format!("{} is more than a date, and the column is {to}", quoted(text)))
        }
        Date32 => Ok(()),
        Time32(_) | Time64(_) if text.parse::<i64>().is_ok() => Err(misfit(&quoted(text), to)),
        Time32(unit) | Time64(unit) | Timestamp(unit, _) => fraction(text, *unit, to),
        Date64 => fraction(text, TimeUnit::Millisecond, to),
        _ => Err(misfit(&quoted(text), to)),
    }
}

/// Whether the fraction of a second in `text` is no finer than `unit`.
fn fraction(text: &str, unit: TimeUnit, to: &DataType) -> Result<(), String> {
    let holds = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let behind = text.split_once('.').map_or("", |(_, behind)| behind);
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    let written = behind.get(..end).unwrap_or_default().trim_end_matches('0').len();
    if written <= holds {
        return Ok(());
    }
    Err(format!("{} is finer than the column holds, which is {to}", quoted(text)))
}

/// Something that is no value of `to`, and what would be.
pub fn misfit(what: &str, to: &DataType) -> String {
    use DataType::{
        Boolean, Date32, Date64, Duration, FixedSizeList, LargeList, LargeListView, List, ListView, Map,
        Struct, Time32, Time64, Timestamp,
    };
    let wanted = match to {
        Boolean => "write true or false",
        Date32 | Date64 => "write a date, such as \"2024-05-31\"",
        Time32(_) | Time64(_) => "write a time, such as \"09:30:00\"",
        Timestamp(..) => "write a timestamp, such as \"2024-05-31T09:30:00Z\"",
        Duration(_) => "write an integer",
        List(_) | LargeList(_) | ListView(_) | LargeListView(_) | FixedSizeList(..) => "write an array",
        Struct(_) | Map(..) => "write an object",
        to if integers(to).is_some() => "write an integer, without quotes",
        to if to.is_floating() => "write a number, without quotes",
        to if to.is_numeric() => "write a number",
        _ => "write a string",
    };
    format!("{what}, where the column is {to}: {wanted}")
}

pub fn quoted(text: &str) -> String {
    format!("the string \"{}\"", shown(text))
}

/// The beginning of a value, for messages.
pub fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests;
