//! JSON bodies with one thing wrong.

use serde_json::Value;

use super::dice::Dice;
use super::grammar::{Field, body, good, odd, wrong};

/// What must come of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Any answer but a fault of the server.
    Any,
    /// A refusal whose text has this in it.
    Named(&'static str),
}

/// The body with these fields, in their order, doubled ones too.
pub fn text(fields: &[(String, Value)]) -> String {
    let entries: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}: {value}", Value::from(name.as_str()))).collect();
    format!("{{{}}}", entries.join(", "))
}

/// A body of these fields with a fault.
pub fn faulty(dice: &mut Dice, fields: &[Field]) -> (Vec<u8>, Expect) {
    let mut entries = body(dice, fields);
    let field = dice.pick(fields);
    let known = entries.iter().position(|(name, _)| name == field.name);
    let mut put = |value: Value| match known {
        Some(place) => entries[place].1 = value,
        None => entries.push((field.name.to_owned(), value)),
    };
    match dice.below(8) {
        0 | 1 => {
            put(dice.pick(&wrong(field.kind)));
            (text(&entries).into_bytes(), Expect::Named(field.name))
        }
        2..5 => {
            put(odd(dice, field.kind));
            (text(&entries).into_bytes(), Expect::Any)
        }
        5 => {
            let value = good(dice, field.kind);
            put(value.clone());
            entries.push((field.name.to_owned(), value));
            (text(&entries).into_bytes(), Expect::Named(field.name))
        }
        6 if field.needed => {
            entries.retain(|(name, _)| name != field.name);
            (text(&entries).into_bytes(), Expect::Named(field.name))
        }
        6 => {
            entries.push((dice.odd_text(), odd(dice, field.kind)));
            (text(&entries).into_bytes(), Expect::Any)
        }
        _ => broken(dice, text(&entries).into_bytes()),
    }
}

/// What is no JSON object any more.
fn broken(dice: &mut Dice, mut body: Vec<u8>) -> (Vec<u8>, Expect) {
    const BODY: Expect = Expect::Named("request body");
    match dice.below(9) {
        0 => {
            body.truncate(1 + dice.below(body.len() - 1));
            (body, BODY)
        }
        1 => {
            let place = dice.below(body.len());
            body.insert(place, dice.pick(&[0xff, 0xc0, 0x00, 0x80]));
            (body, BODY)
        }
        2 => {
            body.extend_from_slice(dice.pick(&["{}", "x", ",", "\0", "]"]).as_bytes());
            (body, BODY)
        }
        3 => (dice.pick(&["[]", "3", "\"x\"", "null", "true", "[1, 2]", "[[]]"]).as_bytes().to_vec(), BODY),
        4 => {
            let n = dice.pick(&[100, 200, 100_000]);
            (format!("{{\"x\": {}{}}}", "[".repeat(n), "]".repeat(n)).into_bytes(), Expect::Any)
        }
        5 => ("{\"x\":".repeat(dice.pick(&[10, 100_000])).into_bytes(), BODY),
        6 => {
            let odd =
                ["NaN", "Infinity", "1e999", "-", "01", "'x'", "1.", "undefined", "\"\\ud800\"", "\"\n\""];
            // A reader need not look at what is in a field it does not know.
            (format!("{{\"k\": {}, \"predicate\": \"id = -1\"}}", dice.pick(&odd)).into_bytes(), Expect::Any)
        }
        7 => ([b"\xef\xbb\xbf".as_slice(), &body].concat(), BODY),
        _ => {
            let place = dice.below(body.len());
            body[place] ^= 1 << dice.below(8);
            (body, Expect::Any)
        }
    }
}
