//! Random puts, deletes and freezes against a naive model, read at every Seq.

use headwater_engine::ingest::PreparedBatch;
use headwater_engine::memtable::{FrozenMemtable, Memtable, MemtableView};
use headwater_format::coord::{RowOffset, Seq};
use proptest::prelude::*;

use crate::memtable_support::{Key, Row, Table};

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<i64>),
    Delete(Vec<i64>),
    /// A batch too heavy to merge with others.
    Heavy(i64),
    Freeze,
    View,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let keys = |most: usize| proptest::collection::vec(0..30_i64, 1..most);
    let step = prop_oneof![
        8 => keys(4).prop_map(Step::Put),
        2 => keys(40).prop_map(Step::Put),
        3 => keys(4).prop_map(Step::Delete),
        1 => (0..30_i64).prop_map(Step::Heavy),
        1 => Just(Step::Freeze),
        3 => Just(Step::View),
    ];
    proptest::collection::vec(step, 1..120)
}

/// All rows ever appended, by Seq (the first has Seq 1), with their generations.
#[derive(Default)]
struct Model {
    rows: Vec<(u64, Row)>,
}

impl Model {
    fn seq(index: usize) -> u64 {
        index as u64 + 1
    }

    /// Rows of `generation` nobody had replaced at `at`, by comparing every row with every later one.
    fn visible(&self, generation: u64, at: u64) -> Vec<Row> {
        let there = || self.rows.iter().enumerate().filter(|(index, _)| Self::seq(*index) < at);
        there()
            .filter(|(index, (of, row))| {
                *of == generation && !there().any(|(later, (_, other))| later > *index && other.0 == row.0)
            })
            .map(|(_, (_, row))| row.clone())
            .collect()
    }

    fn end(&self) -> u64 {
        self.rows.len() as u64 + 1
    }
}

/// The memtables as the conductor runs them.
struct Real<'a> {
    table: &'a Table,
    active: Memtable,
    frozen: Vec<FrozenMemtable>,
    model: Model,
    views: Vec<(u64, MemtableView)>,
}

impl<'a> Real<'a> {
    fn new(table: &'a Table) -> Self {
        let active = table.memtable(1, 1);
        Self { table, active, frozen: Vec::new(), model: Model::default(), views: Vec::new() }
    }

    fn append(&mut self, prepared: &PreparedBatch, rows: Vec<Row>) {
        let first = self.active.end_seq();
        assert_eq!(first.get(), self.model.end());
        let offsets = self.active.append(prepared).unwrap();
        assert_eq!((offsets.end.get() - offsets.start.get()) as usize, rows.len());
        for frozen in &self.frozen {
            frozen.supersede_all(&prepared.keys, first);
        }
        let generation = self.active.generation().get();
        self.model.rows.extend(rows.into_iter().map(|row| (generation, row)));
    }

    fn step(&mut self, number: usize, step: &Step) {
        match step {
            Step::Put(keys) => {
                let values: Vec<String> = keys.iter().map(|key| format!("{number} {key}")).collect();
                let rows: Vec<_> = keys.iter().copied().zip(values.iter().map(String::as_str)).collect();
                let expected =
                    rows.iter().map(|(key, value)| (*key, Some((*value).to_owned()), false)).collect();
                self.append(&self.table.rows(&rows), expected);
            }
            Step::Delete(keys) => {
                let expected = keys.iter().map(|key| (*key, None, true)).collect();
                self.append(&self.table.deletes(keys), expected);
            }
            Step::Heavy(key) => {
                let value = format!("{number} ").repeat(30_000);
                self.append(&self.table.rows(&[(*key, &value)]), vec![(*key, Some(value.clone()), false)]);
            }
            Step::Freeze => self.freeze(),
            Step::View => self.views.push((self.model.end(), self.active.view())),
        }
    }

    fn freeze(&mut self) {
        let next = self.table.memtable(self.active.generation().next().get(), self.model.end());
        let frozen = std::mem::replace(&mut self.active, next).freeze();
        self.views.push((self.model.end(), frozen.view()));
        self.frozen.push(frozen);
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (taken, view) in &self.views {
            let generation = view.generation().get();
            // Every cut costs the model a quadratic pass: all near the ends, some in between.
            let cuts = (1..=*taken).filter(|at| at % 7 == 0 || taken - at < 3 || *at < 3);
            for at in cuts {
                let visible = self.model.visible(generation, at);
                prop_assert_eq!(
                    &self.table.read(&view.visible(Seq::new(at)).unwrap()),
                    &visible,
                    "at {}",
                    at
                );
                let live: Vec<Row> = visible.into_iter().filter(|(_, _, deleted)| !deleted).collect();
                prop_assert_eq!(&self.table.read(&view.live(Seq::new(at)).unwrap()), &live, "at {}", at);
            }
        }
        for frozen in &self.frozen {
            self.check_frozen(frozen)?;
        }
        Ok(())
    }

    fn check_frozen(&self, frozen: &FrozenMemtable) -> Result<(), TestCaseError> {
        let generation = frozen.generation().get();
        let first = frozen.first_seq().get() as usize - 1;
        let rows: Vec<Row> =
            self.model.rows.iter().filter(|(of, _)| *of == generation).map(|(_, row)| row.clone()).collect();
        prop_assert_eq!(&self.table.read(&frozen.batches()), &rows);
        let later = |index: usize| rows.iter().skip(index + 1).position(|other| other.0 == rows[index].0);
        let replaced: Vec<u32> =
            (0..rows.len()).filter(|index| later(*index).is_some()).map(|index| index as u32).collect();
        prop_assert_eq!(frozen.superseded().iter().collect::<Vec<_>>(), replaced);
        for (index, row) in rows.iter().enumerate() {
            let offset = RowOffset::new(index as u32);
            let successor = self.model.rows.iter().enumerate().skip(first + index + 1);
            let successor =
                successor.filter(|(_, (_, other))| other.0 == row.0).map(|(at, _)| Model::seq(at)).next();
            prop_assert_eq!(frozen.view().superseded_by(offset), successor.map_or(Seq::MAX, Seq::new));
            let older = rows[..index].iter().rposition(|other| other.0 == row.0);
            let older = older.map(|index| RowOffset::new(index as u32));
            prop_assert_eq!(frozen.view().predecessor(offset), older);
        }
        Ok(())
    }
}

fn holds(key: Key, steps: &[Step]) -> Result<(), TestCaseError> {
    let table = Table::new(key);
    let mut real = Real::new(&table);
    for (number, step) in steps.iter().enumerate() {
        real.step(number, step);
    }
    real.freeze();
    real.check()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memtables_with_an_int_key_equal_the_model(steps in steps()) {
        holds(Key::Int, &steps)?;
    }

    #[test]
    fn memtables_with_a_text_key_equal_the_model(steps in steps()) {
        holds(Key::Text, &steps)?;
    }

    #[test]
    fn memtables_with_a_binary_key_equal_the_model(steps in steps()) {
        holds(Key::Binary, &steps)?;
    }

    #[test]
    fn memtables_with_a_composite_key_equal_the_model(steps in steps()) {
        holds(Key::Composite, &steps)?;
    }
}
