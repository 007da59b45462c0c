//! Shadows against a model: for every S, exactly the rows with a later row of their key below S.

use std::sync::Arc;

use headwater_format::coord::Seq;
use proptest::prelude::*;

use super::{Run, Shadow, SourceKeys, SourceKeysBuilder};
use crate::memtable::{BatchKeys, IntKeys};

fn source(keys: &[u64], builder: SourceKeysBuilder) -> Arc<SourceKeys> {
    let mut builder = builder;
    for some in keys.chunks(3) {
        builder.push(&BatchKeys::Ints(IntKeys::new(some.to_vec()))).unwrap();
    }
    Arc::new(builder.finish())
}

/// Runs of `later`, the last of which ends before the row numbered `end`.
fn runs(later: &[Arc<SourceKeys>], end: i64) -> Vec<Run<'_>> {
    let mut end = end;
    let mut runs = Vec::new();
    for keys in later.iter().rev() {
        let run = Run::source(keys, end);
        end = run.order.start;
        runs.push(run);
    }
    runs.reverse();
    runs
}

proptest! {
    #[test]
    fn a_row_is_hidden_at_s_iff_a_later_row_of_its_key_is_below_s(
        base in prop::collection::vec(0..12_u64, 0..30),
        later in prop::collection::vec(prop::collection::vec(0..12_u64, 1..12), 1..5),
        steps in prop::collection::vec(0..40_u64, 1..6),
        before in 0..20_i64,
    ) {
        let keys = source(&base, SourceKeysBuilder::with_duplicates());
        let later: Vec<_> = later.iter().map(|k| source(k, SourceKeysBuilder::newest_wins())).collect();
        let total: i64 = later.iter().map(|keys| i64::from(keys.rows())).sum();
        // `before` rows, at most, come from before this process: they lie below the first Seq.
        let end = (1 + total - before).max(1);
        let runs = runs(&later, end);
        let order: Vec<(i64, u64)> = {
            let all = later.iter().flat_map(|keys| {
                keys.pieces(0..keys.rows()).flat_map(|(_, piece)| match piece {
                    BatchKeys::Ints(ints) => ints.values().to_vec(),
                    _ => Vec::new(),
                }).collect::<Vec<_>>()
            });
            (runs[0].order.start..).zip(all).collect()
        };
        let shadow = Shadow::new(Arc::clone(&keys));
        // Asked in any order of S: what was fed further does not change an older answer (P6).
        for at in &steps {
            let at = Seq::new(1 + *at);
            shadow.catch_up(&runs, at).unwrap();
            let hidden = shadow.hidden(at);
            for (row, key) in (0..).zip(&base) {
                let wanted = order
                    .iter()
                    .any(|(number, later)| later == key && *number < i64::try_from(at.get()).unwrap());
                prop_assert_eq!(hidden.contains(row), wanted, "row {} at {}", row, at);
                prop_assert_eq!(shadow.hides(headwater_format::coord::RowOffset::new(row), at), wanted);
            }
        }
    }
}

#[test]
fn a_gap_between_runs_is_a_violation_of_p8() {
    let keys = source(&[1, 2, 3], SourceKeysBuilder::newest_wins());
    let first = source(&[1], SourceKeysBuilder::newest_wins());
    let second = source(&[2], SourceKeysBuilder::newest_wins());
    let shadow = Shadow::new(keys);
    shadow.catch_up(&[Run::source(&first, 11)], Seq::new(11)).unwrap();
    let error = shadow.catch_up(&[Run::source(&second, 15)], Seq::new(15)).unwrap_err();
    assert!(error.to_string().contains("P8"), "{error}");
}

#[test]
fn of_an_sstable_only_the_newest_row_of_a_key_is_marked_and_of_the_base_every_one() {
    let later = source(&[7], SourceKeysBuilder::newest_wins());
    for (builder, hidden) in
        [(SourceKeysBuilder::newest_wins(), vec![2]), (SourceKeysBuilder::with_duplicates(), vec![0, 2])]
    {
        let shadow = Shadow::new(source(&[7, 8, 7], builder));
        shadow.catch_up(&[Run::source(&later, 2)], Seq::new(2)).unwrap();
        assert_eq!(shadow.hidden(Seq::new(2)).iter().collect::<Vec<_>>(), hidden);
        assert!(shadow.hidden(Seq::new(1)).is_empty(), "the row with Seq 1 is not below S = 1");
    }
}
