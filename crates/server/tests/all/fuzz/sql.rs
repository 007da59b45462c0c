//! Conditions and expressions: good ones, odd ones, and such as no parser should live through.

use super::dice::Dice;

/// Conditions that are wrong, odd, or fail on some row.
const CONDITIONS: [&str; 104] = [
    "",
    " ",
    "1",
    "'x'",
    "null",
    "id",
    "id >",
    "> id",
    "nope = 1",
    "id = nope",
    "id = 'x'",
    "name = 1",
    "v = 1",
    "v[1] > 1",
    "v[0] > 1",
    "v[-1] > 1",
    "v[id] > 1",
    "meta.a = 1",
    "meta.nope = 1",
    "meta.a.b = 1",
    "nope.a = 1",
    "meta = 1",
    "1 / 0 = 1",
    "id / 0 > 1",
    "id % 0 = 0",
    "1 / (id - id) > 0",
    "cast(name as int) = 1",
    "cast('x' as int) = 1",
    "try_cast(name as int) = 1",
    "cast(id as nope) = 1",
    "id::text = 1",
    "id::blob = 1",
    "id = (select 1)",
    "exists (select 1)",
    "id in (select id from t)",
    "id = any (select 1)",
    "id = 1; drop table t",
    "id = 1 -- x",
    "id = 1 /* x",
    "id = 1 limit 2",
    "id = 1 order by id",
    "id = 1 group by id",
    "id = 1 union select 1",
    "true) or (true",
    "id = 'x",
    "id = \"x",
    "`id",
    "`id` = 1",
    "\"id\" = 1",
    "[id] = 1",
    "id == 1",
    "id === 1",
    "id = 99999999999999999999999999",
    "id = 1e400",
    "id = -9223372036854775808",
    "id = 9223372036854775807 + 1",
    "-9223372036854775808 / -1 = id",
    "id * 9223372036854775807 > 0",
    "-id - 9223372036854775807 > 5",
    "abs(-9223372036854775808) = 1",
    "power(id, 100000) = 0",
    "factorial(1000) = 1",
    "sqrt(-1) > 0",
    "ln(0) < 0",
    "id << 100 > 0",
    "id >> -1 > 0",
    "regexp_like(name, '(')",
    "regexp_like(name, '(a{1000}){1000}')",
    "regexp_like(name, name)",
    "name ~ '['",
    "name similar to '('",
    "name like 5",
    "name like 'a' escape 'xx'",
    "name like '\\'",
    "count(id) > 1",
    "sum(id) = 1",
    "row_number() over () = 1",
    "unnest(v) = 1",
    "$1 = 1",
    "? = 1",
    "id in ()",
    "id in (1, 'x')",
    "id between 1",
    "not",
    "not not not id",
    "case when id then 1 end",
    "case id when 'x' then true end",
    "now() > 1",
    "random() > 0.5",
    "date '2020-99-99' = now()",
    "interval '1' month > 5",
    "arrow_cast(id, 'Nope') = 1",
    "id = array[1, 2]",
    "struct(1) = 1",
    "named_struct('a') = 1",
    "x'zz' = 1",
    "x'00' = 1",
    "*",
    "id.* = 1",
    "_rowid = 1",
    "_rowid in (1, 2, 18446744073709551615)",
    "_rowaddr > 0",
    "_distance < 1",
    "_score > 0",
];

/// Expressions that are wrong, odd, or fail on some row.
const EXPRESSIONS: [&str; 44] = [
    "",
    " ",
    "nope",
    "id +",
    "id + 'x'",
    "name + 1",
    "1 / 0",
    "id / (id - id)",
    "cast(name as int)",
    "cast('x' as date)",
    "(select 1)",
    "count(*)",
    "sum(id)",
    "row_number() over ()",
    "*",
    "id, name",
    "id as x",
    "$1",
    "?",
    "null",
    "true",
    "[1.0, 2.0]",
    "[1.0]",
    "['x']",
    "[]",
    "v",
    "v[1]",
    "meta",
    "meta.a",
    "chr(-1)",
    "chr(99999999)",
    "substr(name, -9223372036854775808, 9223372036854775807)",
    "left(name, -9223372036854775808)",
    "to_timestamp('x')",
    "date_trunc('nope', now())",
    "regexp_replace(name, '(', 'x')",
    "nope(id)",
    "arrow_typeof(id)",
    "9223372036854775807 + id",
    "-(-9223372036854775808)",
    "id; drop table t",
    "id from t",
    "'\u{0}'",
    "repeat('x', 70000)",
];

const COLUMNS: [&str; 6] = ["id", "name", "n", "v", "meta.a", "`id`"];
const OPERATORS: [&str; 18] = [
    "=",
    "<>",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "and",
    "or",
    "like",
    "is distinct from",
    "&",
    "<<",
    "~",
    "^",
];
const FUNCTIONS: [&str; 24] = [
    "abs",
    "upper",
    "length",
    "substr",
    "coalesce",
    "nullif",
    "round",
    "date_part",
    "to_timestamp",
    "regexp_like",
    "concat",
    "array_length",
    "array_has",
    "trim",
    "left",
    "lpad",
    "strpos",
    "md5",
    "encode",
    "greatest",
    "get_field",
    "make_array",
    "contains",
    "split_part",
];
const TYPES: [&str; 9] =
    ["int", "bigint", "tinyint", "double", "text", "boolean", "date", "timestamp", "decimal(5, 2)"];
const LITERALS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "1.5",
    "1e308",
    "9223372036854775807",
    "'x'",
    "''",
    "'1'",
    "null",
    "true",
    "'2020-01-01'",
    "date '2020-01-01'",
    "[1.0, 0.0, 0.0, 0.0]",
    "0.1::decimal(38, 37)",
    "interval '1 day'",
];

/// A condition that is good on every table of the world.
pub fn good(dice: &mut Dice) -> String {
    dice.pick(&[
        "id > 5",
        "id in (1, 2, 3)",
        "name like 'a%' and id < 9",
        "n is null or n >= 0",
        "not (id = 7)",
    ])
    .to_owned()
}

/// A condition that may be anything.
pub fn condition(dice: &mut Dice) -> String {
    match dice.below(10) {
        0..4 => dice.pick(&CONDITIONS).to_owned(),
        4 => monstrous(dice),
        5 => garbled(dice, good),
        6 => format!("{} {} {}", expression(dice, 2), dice.pick(&OPERATORS), expression(dice, 2)),
        _ => garbled(dice, |dice| grown(dice, 4)),
    }
}

/// An expression that may be anything.
pub fn value(dice: &mut Dice) -> String {
    match dice.below(10) {
        0..4 => dice.pick(&EXPRESSIONS).to_owned(),
        4 => monstrous(dice),
        5 => dice.pick(&CONDITIONS).to_owned(),
        _ => garbled(dice, |dice| expression(dice, 4)),
    }
}

fn grown(dice: &mut Dice, depth: usize) -> String {
    let below = depth.saturating_sub(1);
    match if depth == 0 { 0 } else { dice.below(9) } {
        0 => format!("{} = {}", dice.pick(&COLUMNS), dice.pick(&LITERALS)),
        1 => format!("({})", grown(dice, below)),
        2 => format!("not {}", grown(dice, below)),
        3 => format!("{} and {}", grown(dice, below), grown(dice, below)),
        4 => format!("{} or {}", grown(dice, below), grown(dice, below)),
        5 => format!("{} is not null", expression(dice, below)),
        6 => {
            format!("{} in ({}, {})", expression(dice, below), dice.pick(&LITERALS), expression(dice, below))
        }
        7 => format!(
            "{} between {} and {}",
            expression(dice, below),
            dice.pick(&LITERALS),
            expression(dice, below)
        ),
        _ => format!("{} {} {}", expression(dice, below), dice.pick(&OPERATORS), expression(dice, below)),
    }
}

fn expression(dice: &mut Dice, depth: usize) -> String {
    let below = depth.saturating_sub(1);
    match if depth == 0 { dice.below(2) } else { dice.below(9) } {
        0 => dice.pick(&COLUMNS).to_owned(),
        1 => dice.pick(&LITERALS).to_owned(),
        2 | 3 => format!("{} {} {}", expression(dice, below), dice.pick(&OPERATORS), expression(dice, below)),
        4 => format!("cast({} as {})", expression(dice, below), dice.pick(&TYPES)),
        5 => format!("case when {} then {} else {} end", grown(dice, below), expression(dice, below), "1"),
        6 => format!("({})", expression(dice, below)),
        _ => {
            let count = dice.below(4);
            let arguments: Vec<String> = (0..count).map(|_| expression(dice, below)).collect();
            format!("{}({})", dice.pick(&FUNCTIONS), arguments.join(", "))
        }
    }
}

/// Now and then with a piece missing, doubled or put in.
fn garbled(dice: &mut Dice, text: impl FnOnce(&mut Dice) -> String) -> String {
    let text = text(dice);
    if !dice.one_in(3) {
        return text;
    }
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let place = dice.below(words.len());
    match dice.below(3) {
        0 => {
            words.remove(place);
        }
        1 => words.insert(place, words[place].clone()),
        _ => words.insert(place, dice.odd_text()),
    }
    words.join(" ")
}

/// What nests or goes on for longer than a stack, or a patient reader, can bear.
fn monstrous(dice: &mut Dice) -> String {
    let n = dice.pick(&[10, 60, 240, 300, 5_000, 60_000]);
    match dice.below(14) {
        0 => format!("{}id = 1{}", "(".repeat(n), ")".repeat(n)),
        1 => "(".repeat(n),
        2 => vec!["id = 1"; n].join(" or "),
        3 => format!("{} = 1", vec!["id"; n].join(" + ")),
        4 => format!("{} id = 1", "not".to_owned() + &" not".repeat(n)),
        5 => format!("{}id = 1", "- ".repeat(n)),
        6 => format!("id in ({})", (0..n.min(20_000)).map(|n| n.to_string()).collect::<Vec<_>>().join(", ")),
        7 => format!("name = '{}'", "x".repeat(n)),
        8 => format!("{}id{} = 1", "abs(".repeat(n), ")".repeat(n)),
        9 => format!("id{} = 1", "::text".repeat(n)),
        10 => format!("id{} > 0", "[0]".repeat(n)),
        11 => format!("{} id = 1 {}", "case when true then".repeat(n), " end".repeat(n)),
        12 => format!("id{}", " is null".repeat(n)),
        _ => format!("meta{} = 1", ".a".repeat(n)),
    }
}
