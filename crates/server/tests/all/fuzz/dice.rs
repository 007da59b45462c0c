//! Chance, from a seed.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Number, Value, json};

/// Where chance comes from.
pub struct Dice(SmallRng);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// From 0 to below `end`; 0 when there is nothing below.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { self.0.random_range(0..end) }
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    pub fn byte(&mut self) -> u8 {
        self.0.random()
    }

    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.byte()).collect()
    }

    /// A number that some code takes for another one.
    pub fn extreme(&mut self) -> Value {
        let whole: [i128; 16] = [
            0,
            1,
            -1,
            2,
            127,
            255,
            65_536,
            i128::from(i32::MAX),
            i128::from(i32::MAX) + 1,
            i128::from(i32::MIN),
            i128::from(u32::MAX),
            i128::from(i64::MAX),
            i128::from(i64::MAX) - 1,
            i128::from(i64::MIN),
            i128::from(u64::MAX),
            1 << 40,
        ];
        match self.below(4) {
            0 => {
                Value::Number(Number::from_f64(self.pick(&[0.5, -0.0, 1e39, -1e39, 1e300, 1e-320])).unwrap())
            }
            _ => {
                let number = self.pick(&whole);
                match (u64::try_from(number), i64::try_from(number)) {
                    (Ok(number), _) => json!(number),
                    (_, Ok(number)) => json!(number),
                    _ => unreachable!(),
                }
            }
        }
    }

    /// Text that is no good name of anything.
    pub fn odd_text(&mut self) -> String {
        let texts = [
            "",
            " ",
            ".",
            "..",
            "/",
            "../../x",
            "\u{0}",
            "a\u{0}b",
            "\n",
            "\u{feff}",
            "ü",
            "名前",
            "🦀",
            "%",
            "%00",
            "$",
            "$$",
            "a$b",
            "'",
            "\"",
            "`",
            "\\",
            "{}",
            "null",
            "NaN",
            "-1",
            "1e999",
            "true",
            "main",
            "_rowid",
            "_distance",
            "_score",
            "__lance_mem_wal",
            "id.name",
            "v[0]",
            "meta.a",
            "meta.nope",
            "ID",
            "*",
        ];
        match self.below(12) {
            0 => "x".repeat(self.pick(&[199, 200, 201, 255, 256, 1_000, 70_000])),
            1 => "\u{10ffff}".repeat(self.below(300)),
            _ => self.pick(&texts).to_owned(),
        }
    }
}
