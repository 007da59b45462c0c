//! Shadows against a model: for every S, exactly the rows with a later row of their key below S.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headwater_format::coord::Seq;
use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::{BaseShadow, FreshKeys, HiddenRows, Run, Shadow, SourceKeys, SourceKeysBuilder, unmarked};
use crate::memtable::{BatchKeys, ByteKeys, IntKeys};

fn ints(keys: &[u64]) -> BatchKeys {
    BatchKeys::Ints(IntKeys::new(keys.to_vec()))
}

fn source(keys: &[u64]) -> Arc<SourceKeys> {
    let mut builder = SourceKeysBuilder::default();
    for some in keys.chunks(3) {
        builder.push(&ints(some)).unwrap();
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

fn end_of(later: &[Vec<u64>], before: i64) -> i64 {
    let total: i64 = later.iter().map(|keys| keys.len() as i64).sum();
    // `before` rows, at most, come from before this process: they lie below the first Seq.
    (1 + total - before).max(1)
}

/// Whether a row of `later`, whose first one has the number `start`, has `key` and lies below `at`.
fn has_later(later: &[Vec<u64>], start: i64, key: u64, at: Seq) -> bool {
    let mut numbered = (start..).zip(later.iter().flatten());
    numbered.any(|(number, later)| *later == key && number < i64::try_from(at.get()).unwrap())
}

/// Looks `keys` up in `base`, rows by address.
fn look_up(base: &BTreeMap<u64, u64>, keys: &FreshKeys) -> Vec<(u64, Seq)> {
    let found = base.iter().filter_map(|(row, key)| Some((*row, keys.first(&ints(&[*key]), 0)?)));
    found.collect()
}

fn catch_up(shadow: &BaseShadow, base: &BTreeMap<u64, u64>, runs: &[Run<'_>], at: Seq) -> usize {
    let Some(tail) = shadow.tail(runs, at).unwrap() else { return 0 };
    shadow.feed(&tail, look_up(base, &tail.keys)).unwrap();
    tail.keys.len()
}

/// Rows of some fragments: key by address.
fn base_rows(keys: &[Vec<u64>]) -> BTreeMap<u64, u64> {
    let fragments = (0_u64..).zip(keys);
    let rows = fragments.flat_map(|(fragment, keys)| (fragment << 32..).zip(keys.iter().copied()));
    rows.collect()
}

fn some_keys() -> impl Strategy<Value = Vec<Vec<u64>>> {
    prop::collection::vec(prop::collection::vec(0..12_u64, 1..12), 1..5)
}

proptest! {
    #[test]
    fn a_row_of_an_sstable_is_hidden_at_s_iff_a_later_row_of_its_key_is_below_s(
        rows in prop::collection::vec(0..12_u64, 0..30),
        later in some_keys(),
        steps in prop::collection::vec(0..40_u64, 1..6),
        before in 0..20_i64,
    ) {
        let sources: Vec<_> = later.iter().map(|keys| source(keys)).collect();
        let runs = runs(&sources, end_of(&later, before));
        let (keys, shadow) = (source(&rows), Shadow::default());
        // Asked in any order of S: what was fed further does not change an older answer (P6).
        for at in &steps {
            let at = Seq::new(1 + *at);
            shadow.catch_up(&keys, &runs, at).unwrap();
            let hidden = shadow.hidden(at);
            for (row, key) in (0..).zip(&rows) {
                // An older row of the key in the SSTable itself is not the shadow's business.
                let newest = !rows[row as usize + 1..].contains(key);
                let wanted = newest && has_later(&later, runs[0].order.start, *key, at);
                prop_assert_eq!(hidden.contains(row), wanted, "row {} at {}", row, at);
            }
        }
    }

    #[test]
    fn every_row_of_the_base_is_hidden_at_s_iff_a_later_row_of_its_key_is_below_s(
        base in some_keys(),
        later in some_keys(),
        steps in prop::collection::vec(0..40_u64, 1..6),
        before in 0..20_i64,
    ) {
        let base = base_rows(&base);
        let sources: Vec<_> = later.iter().map(|keys| source(keys)).collect();
        let runs = runs(&sources, end_of(&later, before));
        let shadow = BaseShadow::default();
        let mut looked_for = 0;
        for at in &steps {
            let at = Seq::new(1 + *at);
            looked_for += catch_up(&shadow, &base, &runs, at);
            let hidden = shadow.hidden(at);
            for (row, key) in &base {
                let wanted = has_later(&later, runs[0].order.start, *key, at);
                prop_assert_eq!(hidden.contains(*row), wanted, "row {} at {}", row, at);
            }
            prop_assert_eq!(hidden.rows(), base.keys().filter(|row| hidden.contains(**row)).count() as u64);
        }
        // Of a run that was fed in part its own older rows are not known, so its keys may come once more.
        let distinct: BTreeSet<_> = later.iter().flatten().collect();
        prop_assert!(looked_for < distinct.len() + steps.len() * 12);
    }

    #[test]
    fn a_shadow_carried_to_a_later_version_is_as_one_made_anew(
        base in some_keys(),
        appended in some_keys(),
        deleted in prop::collection::btree_set(0..5_u64, 0..5),
        later in some_keys(),
        fed in 0..40_u64,
        at in 0..40_u64,
    ) {
        let old = base_rows(&base);
        let sources: Vec<_> = later.iter().map(|keys| source(keys)).collect();
        let runs = runs(&sources, end_of(&later, 3));
        let shadow = BaseShadow::default();
        catch_up(&shadow, &old, &runs, Seq::new(1 + fed));

        let gone = |row: u64| deleted.contains(&(row & 0xffff_ffff));
        let new = base_rows(&appended).into_iter().map(|(row, key)| (row | 9 << 32, key));
        let new: BTreeMap<u64, u64> = new.collect();
        let mut both: BTreeMap<u64, u64> = old.into_iter().filter(|(row, _)| !gone(*row)).collect();
        let carried = shadow.carried(&runs, |row| !gone(row));
        // A shadow that was never fed has nothing to carry.
        let carried = carried.unwrap_or_default();
        carried.add(look_up(&new, &carried.accounted(&runs).unwrap()));
        both.extend(new);
        let at = Seq::new(1 + at);
        catch_up(&carried, &both, &runs, at);
        let anew = BaseShadow::default();
        catch_up(&anew, &both, &runs, at);
        prop_assert_eq!(carried.hidden(at), anew.hidden(at));
        for (row, key) in &both {
            let wanted = has_later(&later, runs[0].order.start, *key, at);
            prop_assert_eq!(carried.hidden(at).contains(*row), wanted, "row {} at {}", row, at);
        }
    }

    #[test]
    fn what_is_kept_of_a_batch_is_what_is_not_hidden(
        hidden in prop::collection::btree_set((0..3_u64, 0..40_u64), 0..60),
        rows in prop::collection::vec((0..4_u64, 0..40_u64), 0..50),
        sorted in any::<bool>(),
        run in (0..3_u64, 0..40_u64, 0..20_u64),
    ) {
        let address = |(fragment, offset): (u64, u64)| fragment << 32 | offset;
        let set: HiddenRows = hidden.iter().copied().map(address).collect();
        prop_assert_eq!(set.rows(), hidden.len() as u64);
        let mut rows: Vec<u64> = rows.into_iter().map(address).collect();
        if sorted {
            rows.sort_unstable();
            rows.dedup();
        }
        let neighbours: Vec<u64> = (0..run.2).map(|next| address((run.0, run.1 + next))).collect();
        for rows in [rows, neighbours] {
            let kept = set.kept(&rows);
            let every = rows.iter().all(|row| !set.contains(*row));
            prop_assert_eq!(kept.is_none(), every);
            let kept: Vec<bool> = kept.map_or(vec![true; rows.len()], |kept| kept.iter().collect());
            let wanted: Vec<bool> = rows.iter().map(|row| !set.contains(*row)).collect();
            prop_assert_eq!(kept, wanted);
        }
    }

    #[test]
    fn the_union_of_two_sets_has_the_rows_of_both(
        one in prop::collection::btree_set((0..3_u64, 0..9_u64), 0..20),
        other in prop::collection::btree_set((0..3_u64, 0..9_u64), 0..20),
    ) {
        let set = |rows: &BTreeSet<(u64, u64)>| -> HiddenRows {
            rows.iter().map(|(fragment, offset)| fragment << 32 | offset).collect()
        };
        let mut both = set(&one);
        both.extend(&set(&other));
        prop_assert_eq!(both, set(&one.union(&other).copied().collect()));
    }

    #[test]
    fn unmarked_rows_of_a_range_are_those_not_in_the_set(
        marked in prop::collection::btree_set(0..50_u32, 0..40),
        start in 0..50_u32,
        rows in 0..30_u32,
    ) {
        let set: RoaringBitmap = marked.iter().collect();
        let kept = unmarked(&set, start..start + rows);
        let wanted: Vec<bool> = (start..start + rows).map(|row| !marked.contains(&row)).collect();
        prop_assert_eq!(kept.is_none(), wanted.iter().all(|kept| *kept));
        if let Some(kept) = kept {
            prop_assert_eq!(kept.iter().collect::<Vec<_>>(), wanted);
        }
    }
}

#[test]
fn a_gap_between_runs_is_a_violation_of_p8() {
    let (first, second) = (source(&[1]), source(&[2]));
    let (keys, shadow) = (source(&[1, 2, 3]), Shadow::default());
    shadow.catch_up(&keys, &[Run::source(&first, 11)], Seq::new(11)).unwrap();
    let error = shadow.catch_up(&keys, &[Run::source(&second, 15)], Seq::new(15)).unwrap_err();
    assert!(error.to_string().contains("P8"), "{error}");

    let shadow = BaseShadow::default();
    let tail = shadow.tail(&[Run::source(&first, 11)], Seq::new(11)).unwrap().unwrap();
    shadow.feed(&tail, Vec::new()).unwrap();
    let error = shadow.tail(&[Run::source(&second, 15)], Seq::new(15)).unwrap_err();
    assert!(error.to_string().contains("P8"), "{error}");
    let error = shadow.feed(&tail, Vec::new()).unwrap_err();
    assert!(error.to_string().contains("P8"), "fed twice: {error}");
}

#[test]
fn a_key_is_looked_for_in_the_base_once_however_often_it_is_written() {
    let (first, second, third) = (source(&[7, 8, 7, 7]), source(&[8, 7, 9]), source(&[9, 8, 5]));
    let shadow = BaseShadow::default();
    let later = [first, second, third];
    let runs = runs(&later, 11);
    let base = base_rows(&[vec![7, 8, 7], vec![9]]);
    assert_eq!(catch_up(&shadow, &base, &runs, Seq::new(5)), 2);
    assert_eq!(catch_up(&shadow, &base, &runs, Seq::new(8)), 1, "of 8, 7 and 9 only 9 is new");
    assert_eq!(catch_up(&shadow, &base, &runs, Seq::new(11)), 1, "of 9, 8 and 5 only 5 is new");
    assert_eq!(catch_up(&shadow, &base, &runs, Seq::new(11)), 0);
    assert_eq!(shadow.hidden(Seq::new(11)).rows(), 4, "both rows of 7 among them");
    assert_eq!(shadow.hidden(Seq::new(2)).rows(), 2);
}

#[test]
fn a_shadow_is_not_carried_over_rows_that_became_part_of_the_base() {
    let later = [source(&[1, 2]), source(&[3])];
    let shadow = BaseShadow::default();
    catch_up(&shadow, &base_rows(&[vec![1, 3]]), &runs(&later, 4), Seq::new(4));
    assert!(shadow.carried(&runs(&later, 4), |_| true).is_some());
    assert!(shadow.carried(&runs(&later[1..], 4), |_| true).is_none());
}

#[test]
fn keys_of_one_hash_are_told_apart_by_their_bytes() {
    let texts =
        |keys: &[&str]| BatchKeys::Bytes(ByteKeys::short(arrow_array::BinaryArray::from_iter_values(keys)));
    let mut builder = SourceKeysBuilder::default();
    builder.push(&texts(&["a", "", "a", "b"])).unwrap();
    let keys = builder.finish();
    let fresh = FreshKeys::of(&[Run::source(&keys, 5)], &(1..5)).unwrap();
    assert_eq!(fresh.len(), 3);
    let asked = texts(&["b", "c", "a", ""]);
    let found: Vec<_> = (0..4).map(|row| fresh.first(&asked, row).map(Seq::get)).collect();
    assert_eq!(found, [Some(4), None, Some(1), Some(2)]);
    // Of another form: none is found, nothing panics.
    assert_eq!(fresh.first(&ints(&[1]), 0), None);
}
