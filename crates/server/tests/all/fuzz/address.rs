//! Names, paths, parameters and headers that are wrong.

use super::client::Sent;
use super::dice::Dice;

/// Percent encoding, as little of it as possible.
pub fn encoded(text: &str) -> String {
    let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~$".contains(byte);
    let coded = |byte: u8| match harmless(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(coded).collect()
}

/// Ids of tables there cannot be.
const IDS: [&str; 22] = [
    "..",
    ".",
    "...",
    "..%2Fx",
    "x%2F..",
    "a%2Fb",
    "%2F",
    "..%5Cx",
    "a%00",
    "%00",
    "%C3%BC",
    "%FF%FE",
    "%ZZ",
    "%",
    ".hidden",
    "x%0a",
    "a%20b",
    "$",
    "a$$",
    "$a$",
    "..$t",
    "%F0%9F%A6%80",
];

/// Another name of the table in a path; whether it is certain that there can be none of that name.
pub fn id(dice: &mut Dice) -> (String, bool) {
    match dice.below(8) {
        0 => ("y".repeat(dice.pick(&[201, 255, 4_000])), true),
        1 => (vec!["n"; 20].join("$"), true),
        2 => (encoded(&dice.odd_text()), false),
        3 => ("nothere".to_owned(), false),
        4 => ("db$plain".to_owned(), false),
        _ => (dice.pick(&IDS).to_owned(), true),
    }
}

/// A value of a parameter that is a flag, but none.
pub fn no_flag(dice: &mut Dice) -> String {
    encoded(dice.pick(&["", "1", "yes", "null", "tru", "true ", "\u{0}", "[true]"]))
}

/// A value of a parameter that is a number, but none.
pub fn no_number(dice: &mut Dice) -> String {
    encoded(dice.pick(&["", "x", "-1", "1.5", "1e3", " 1", "99999999999999999999999", "\u{0}", "NaN"]))
}

/// What no query string should be.
pub fn odd_query(dice: &mut Dice, query: &str) -> String {
    let more = match dice.below(7) {
        0 => "%".to_owned(),
        1 => "%zz=%f".to_owned(),
        2 => "&&&=&=x&".to_owned(),
        3 => "%ff%fe=%00".to_owned(),
        4 => format!("x={}", "y".repeat(dice.pick(&[100, 9_000, 40_000]))),
        5 => (0..200).map(|n| format!("p{n}={n}")).collect::<Vec<_>>().join("&"),
        _ => format!("{0}={0}", encoded(&dice.odd_text())),
    };
    if dice.one_in(2) { format!("{query}&{more}") } else { format!("{more}&{query}") }
}

/// Puts in a header that is wrong; its name if it must be refused by it.
pub fn header(dice: &mut Dice, sent: &mut Sent) -> Option<&'static str> {
    let mut put = |name: &str, value: &[u8]| {
        sent.headers.retain(|(known, _)| known != name);
        sent.headers.push((name.to_owned(), value.to_vec()));
    };
    match dice.below(9) {
        0 => {
            let names: [&[u8]; 8] = [b"..", b"../x", b"a/b", b"$x", b"a b", b"\xff", b".x", &[b'x'; 300]];
            put("x-lancedb-database", dice.pick(&names));
            Some("database")
        }
        1 => {
            let names: [&[u8]; 6] =
                [b"..", b"a/../b", b"$", b"a%2fb", b"\xc3\xbc", b"a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q"];
            put("x-lancedb-database-prefix", dice.pick(&names));
            Some("database")
        }
        2 => {
            let times: [&[u8]; 7] = [b"", b"x", b"-1", b"1.5", b"1e9", b"99999999999999999999999", b"\xff"];
            put("x-request-timeout-ms", dice.pick(&times));
            Some("x-request-timeout-ms")
        }
        3 => {
            let times: [&[u8]; 3] = [b"0", b"1", b"18446744073709551615"];
            put("x-request-timeout-ms", dice.pick(&times));
            None
        }
        4 => {
            put("content-encoding", dice.pick::<&[u8]>(&[b"gzip", b"br", b"nope", b"gzip, gzip"]));
            Some("content-encoding")
        }
        5 => {
            let long = vec![b'i'; 5_000];
            put("x-request-id", dice.pick::<&[u8]>(&[b"", b"no uuid", b"\xff\xfe", &long]));
            None
        }
        6 => {
            put(
                "x-lancedb-min-version",
                dice.pick::<&[u8]>(&[b"", b"x", b"-1", b"18446744073709551615", b"\xff"]),
            );
            None
        }
        7 => {
            put(
                "content-type",
                dice.pick::<&[u8]>(&[b"", b"text/plain", b"application/vnd.apache.arrow.stream", b"\xff"]),
            );
            None
        }
        _ => {
            let value = dice.bytes(40);
            put(
                dice.pick(&["accept", "x-odd", "x-api-key", "authorization", "expect", "range", "te"]),
                &value,
            );
            None
        }
    }
}
