//! Random queries over tables `t` and `u` (see `layout`). None of them can fail on a row: whether a condition
//! that fails is asked of a row is not said by SQL.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::layout::Key;

/// How answers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As multisets.
    Rows,
    /// In their order, which is total.
    Ordered,
    /// So many rows of those there are.
    Part { limit: usize, offset: usize },
}

/// A query.
#[derive(Clone, Debug)]
pub struct Query {
    /// What we are asked.
    pub sql: String,
    /// What the plain table is asked: without a limit that says nothing about which rows it keeps.
    pub whole: String,
    pub shape: Shape,
}

impl Query {
    fn new(sql: String, shape: Shape) -> Self {
        Self { whole: sql.clone(), sql, shape }
    }
}

const NUMBERS: [&str; 6] = ["id", "n", "small", "\"Mixed Case\"", "meta['a']", "t.meta['a']"];
const COLUMNS: [&str; 9] =
    ["id", "n", "small", "x", "name", "\"Mixed Case\"", "flag", "meta['b']", "t.\"Mixed Case\""];
const COMPARE: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

pub struct Grammar {
    key: Key,
    chance: SmallRng,
}

impl Grammar {
    pub fn new(key: Key, seed: u64) -> Self {
        Self { key, chance: SmallRng::seed_from_u64(seed) }
    }

    pub fn query(&mut self) -> Query {
        match self.chance.random_range(0..12) {
            0..4 => self.rows(),
            4 => self.part(),
            5..7 => self.ordered(),
            7..9 => self.grouped(),
            9 => self.distinct(),
            10 => self.joined(),
            _ => self.with_subquery(),
        }
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of.choose(&mut self.chance).unwrap()
    }

    fn filter(&mut self) -> String {
        if self.chance.random_bool(0.2) { String::new() } else { format!(" WHERE {}", self.condition(3)) }
    }

    fn rows(&mut self) -> Query {
        let (columns, filter) = (self.selected(), self.filter());
        Query::new(format!("SELECT {columns} FROM t{filter}"), Shape::Rows)
    }

    fn part(&mut self) -> Query {
        let whole = self.rows().sql;
        let (limit, offset) = (self.chance.random_range(0..12), self.chance.random_range(0..6));
        let sql = match offset {
            0 => format!("{whole} LIMIT {limit}"),
            _ => format!("{whole} LIMIT {limit} OFFSET {offset}"),
        };
        Query { sql, whole, shape: Shape::Part { limit, offset } }
    }

    fn ordered(&mut self) -> Query {
        let (columns, filter) = (self.selected(), self.filter());
        let by = self.pick(&["small", "name", "n", "\"Mixed Case\"", "x", "meta['a']"]);
        let way = self.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        // Key and n together tell every two rows apart.
        let rest = self.pick(&["id, n", "id DESC, n", "n, id"]);
        let cut = match self.chance.random_range(0..3) {
            0 => String::new(),
            1 => format!(" LIMIT {}", self.chance.random_range(0..10)),
            _ => format!(
                " LIMIT {} OFFSET {}",
                self.chance.random_range(0..10),
                self.chance.random_range(0..9)
            ),
        };
        Query::new(format!("SELECT {columns} FROM t{filter} ORDER BY {by}{way}, {rest}{cut}"), Shape::Ordered)
    }

    fn grouped(&mut self) -> Query {
        let aggregates = [
            "count(*)",
            "count(n)",
            "sum(n)",
            "min(n)",
            "max(name)",
            "avg(n)",
            "count(DISTINCT small)",
            "sum(x)",
            "min(meta['a'])",
            "max(flag)",
            "sum(n) FILTER (WHERE flag)",
        ];
        let count = self.chance.random_range(1..4);
        let mut chosen: Vec<&str> = aggregates.choose_multiple(&mut self.chance, count).copied().collect();
        let filter = self.filter();
        if self.chance.random_bool(0.3) {
            return Query::new(format!("SELECT {} FROM t{filter}", chosen.join(", ")), Shape::Rows);
        }
        let by = match self.key {
            Key::Id => self.pick(&["small", "name", "flag", "small, flag", "n % 3", "meta['b']"]),
            Key::TextAndInt => self.pick(&["small", "k", "part", "k, flag", "part, k", "meta['b']"]),
        };
        chosen.insert(0, by);
        let having = self.pick(&["", "", " HAVING count(*) > 1", " HAVING min(n) IS NOT NULL"]);
        Query::new(format!("SELECT {} FROM t{filter} GROUP BY {by}{having}", chosen.join(", ")), Shape::Rows)
    }

    fn distinct(&mut self) -> Query {
        let columns = self.pick(&["small", "small, flag", "name", "n > 3", "meta['b'], flag"]);
        let filter = self.filter();
        Query::new(format!("SELECT DISTINCT {columns} FROM t{filter}"), Shape::Rows)
    }

    fn joined(&mut self) -> Query {
        let kind = self.pick(&["JOIN", "LEFT JOIN", "FULL JOIN"]);
        let on = self.pick(&["t.id = u.id", "t.id = u.id AND t.small = u.small", "t.id = u.n"]);
        let filter =
            self.pick(&["", " WHERE t.n > 2", " WHERE u.name IS NULL", " WHERE t.id < 20 AND u.n > 0"]);
        Query::new(format!("SELECT t.id, t.n, u.n, u.name FROM t {kind} u ON {on}{filter}"), Shape::Rows)
    }

    fn with_subquery(&mut self) -> Query {
        let of_t = self.condition(1);
        let filter = match self.chance.random_range(0..4) {
            0 => format!("id IN (SELECT id FROM u WHERE n > 3) AND {of_t}"),
            1 => format!("n > (SELECT avg(n) FROM u) AND {of_t}"),
            2 => "EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND u.small = 1)".to_owned(),
            _ => "id NOT IN (SELECT id FROM u WHERE flag)".to_owned(),
        };
        Query::new(format!("SELECT id, n FROM t WHERE {filter}"), Shape::Rows)
    }

    fn selected(&mut self) -> String {
        if self.chance.random_bool(0.15) {
            return self.pick(&["*", "t.*"]).to_owned();
        }
        let count = self.chance.random_range(1..4);
        let expressions = (0..count).map(|place| {
            let expression = match self.chance.random_range(0..6) {
                0 => format!("{} + {}", self.pick(&NUMBERS), self.chance.random_range(0..9)),
                1 => format!("({})", self.condition(1)),
                2 => format!("coalesce({}, -1)", self.pick(&NUMBERS)),
                3 if self.key == Key::TextAndInt => {
                    self.pick(&["k", "part", "k || '-'", "t.part + 1"]).to_owned()
                }
                3 => "upper(name)".to_owned(),
                _ => self.pick(&COLUMNS).to_owned(),
            };
            format!("{expression} AS c{place}")
        });
        expressions.collect::<Vec<_>>().join(", ")
    }

    /// A condition, nested at most so deep.
    fn condition(&mut self, depth: u32) -> String {
        if depth > 0 && self.chance.random_bool(0.6) {
            let (left, right) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.chance.random_range(0..5) {
                0 => format!("NOT ({left})"),
                1 | 2 => format!("({left} OR {right})"),
                _ => format!("({left} AND {right})"),
            };
        }
        match self.chance.random_range(0..13) {
            0 => self.of_key(),
            1..4 => self.of_numbers(),
            4 | 5 => self.of_floats(),
            6..8 => self.of_texts(),
            8 => format!("{} {}", self.pick(&COLUMNS), self.pick(&["IS NULL", "IS NOT NULL"])),
            9 => self.of_flags(),
            10 => self.between(),
            11 => self.listed(),
            _ => self.converted(),
        }
    }

    fn of_key(&mut self) -> String {
        if self.key == Key::TextAndInt && self.chance.random_bool(0.8) {
            return self.of_both_columns();
        }
        let key = |chance: &mut SmallRng| chance.random_range(-1_i64..46).to_string();
        match self.chance.random_range(0..3) {
            0 => format!("id = {}", key(&mut self.chance)),
            1 => format!("{} = id", key(&mut self.chance)),
            _ => {
                let keys: Vec<String> =
                    (0..self.chance.random_range(1..9)).map(|_| key(&mut self.chance)).collect();
                format!("id IN ({})", keys.join(", "))
            }
        }
    }

    /// Of the whole key, of one column of it, of several keys.
    fn of_both_columns(&mut self) -> String {
        let (k, part) = (self.chance.random_range(0..10), self.chance.random_range(-1..6));
        match self.chance.random_range(0..7) {
            0 | 1 => format!("(k = 'k{k}' AND part = {part})"),
            2 => format!("(part = {part} AND 'k{k}' = k)"),
            3 => format!("(k IN ('k{k}', 'k{}', 'K1') AND part IN ({part}, 0, 3))", k + 1),
            4 => format!("((k = 'k{k}' AND part = {part}) OR (k = 'k{}' AND part = 2))", k / 2),
            5 => format!("k {} 'k{k}'", self.pick(&COMPARE)),
            _ => format!("(k = 'k{k}' AND part {} {part})", self.pick(&COMPARE)),
        }
    }

    fn of_numbers(&mut self) -> String {
        let (left, compare) = (self.pick(&NUMBERS), self.pick(&COMPARE));
        match self.chance.random_range(0..6) {
            0 => format!("{left} {compare} {}", self.pick(&NUMBERS)),
            1 => format!("{left} + {} {compare} {}", self.pick(&NUMBERS), self.chance.random_range(0..20)),
            2 => format!("{left} % 3 {compare} {}", self.chance.random_range(0..3)),
            3 => format!("{left} {compare} {}.5", self.chance.random_range(0..9)),
            // Without parentheses an AND behind it would be part of its right side.
            4 => format!("({left} IS DISTINCT FROM {})", self.chance.random_range(0..9)),
            _ => format!("{left} {compare} {}", self.chance.random_range(-3..20)),
        }
    }

    fn of_floats(&mut self) -> String {
        let value = self.pick(&["0.0", "-0.0", "0", "1.5", "-2.25", "'NaN'::double", "n"]);
        format!("x {} {value}", self.pick(&COMPARE))
    }

    fn of_texts(&mut self) -> String {
        let column = self.pick(&["name", "meta['b']"]);
        match self.chance.random_range(0..5) {
            0 => format!("{column} {} 'abc'", self.pick(&COMPARE)),
            1 => format!("{column} LIKE '{}'", self.pick(&["a%", "%b", "_b", "%", "x\\%y", ""])),
            2 => format!("{column} NOT LIKE '{}'", self.pick(&["a%", "%b%", "_"])),
            3 => format!("{column} ILIKE '{}'", self.pick(&["A%", "%B"])),
            _ => format!("length({column}) > {}", self.chance.random_range(0..4)),
        }
    }

    fn of_flags(&mut self) -> String {
        let tests =
            ["flag", "NOT flag", "flag IS TRUE", "flag IS NOT FALSE", "flag IS UNKNOWN", "flag = (n > 3)"];
        self.pick(&tests).to_owned()
    }

    fn between(&mut self) -> String {
        let (number, not) = (self.pick(&NUMBERS), self.pick(&["", "NOT "]));
        let low = self.chance.random_range(-3..10);
        let high = low + self.chance.random_range(-1..12);
        format!("{number} {not}BETWEEN {low} AND {high}")
    }

    fn listed(&mut self) -> String {
        let not = self.pick(&["", "NOT "]);
        match self.chance.random_range(0..3) {
            0 => format!("name {not}IN ('ab', 'Ab', '')"),
            1 => format!("{} {not}IN (1, 2, NULL)", self.pick(&NUMBERS)),
            _ => format!("{} {not}IN (0, 1, 2, 3, 5, 8, 13)", self.pick(&NUMBERS)),
        }
    }

    fn converted(&mut self) -> String {
        match self.chance.random_range(0..5) {
            0 => "CAST(n AS VARCHAR) = '12'".to_owned(),
            1 => format!("CAST(small AS BIGINT) > {}", self.chance.random_range(0..4)),
            2 => "TRY_CAST(name AS BIGINT) > 0".to_owned(),
            3 => "CASE WHEN n > 5 THEN 1 ELSE small END = 1".to_owned(),
            _ => "coalesce(n, small, 0) > 4".to_owned(),
        }
    }
}
