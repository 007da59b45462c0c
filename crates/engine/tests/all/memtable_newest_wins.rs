//! P4 inside a memtable and across memtables, decided when a row arrives.

use headwater_format::coord::{RowOffset, Seq};

use crate::memtable_support::{Key, Table, gone, row};

const KEYED: [Key; 4] = [Key::Int, Key::Text, Key::Binary, Key::Composite];

#[test]
fn of_two_rows_of_one_key_in_one_batch_the_later_one_wins() {
    for key in KEYED {
        let table = Table::new(key);
        let mut memtable = table.memtable(1, 1);
        memtable.append(&table.rows(&[(1, "a"), (2, "b"), (3, "c"), (1, "a2"), (3, "c2")])).unwrap();
        let view = memtable.view();
        let newest = vec![row(2, "b"), row(1, "a2"), row(3, "c2")];
        assert_eq!(table.read(&view.visible(Seq::new(6)).unwrap()), newest, "{key:?}");
        assert_eq!(memtable.rows(), 5);
        let frozen = memtable.freeze();
        assert_eq!(frozen.superseded().iter().collect::<Vec<_>>(), vec![0, 2], "{key:?}");
        assert_eq!(table.read(&frozen.batches()).len(), 5, "every physical row is written");
    }
}

#[test]
fn lance_6888_two_versions_of_a_key_in_one_memtable_are_never_both_visible() {
    for key in KEYED {
        let table = Table::new(key);
        let mut memtable = table.memtable(1, 1);
        memtable.append(&table.rows(&[(1, "near the query")])).unwrap();
        memtable.append(&table.rows(&[(1, "far away"), (2, "close")])).unwrap();
        let view = memtable.view();
        let live = table.read(&view.live(view.end_seq()).unwrap());
        assert_eq!(live, vec![row(1, "far away"), row(2, "close")], "{key:?}");
        assert_eq!(view.superseded_by(RowOffset::new(0)), Seq::new(2));
        assert_eq!(view.predecessor(RowOffset::new(1)), Some(RowOffset::new(0)));
        assert_eq!(view.predecessor(RowOffset::new(2)), None);
    }
}

#[test]
fn lance_6929_a_filter_over_a_memtable_never_finds_the_row_an_update_moved_away() {
    let table = Table::new(Key::Int);
    let mut memtable = table.memtable(1, 1);
    memtable.append(&table.rows(&[(1, "red")])).unwrap();
    memtable.append(&table.rows(&[(1, "blue")])).unwrap();
    let red = |rows: Vec<(i64, Option<String>, bool)>| {
        rows.into_iter().filter(|(_, value, _)| value.as_deref() == Some("red")).count()
    };
    let view = memtable.view();
    assert_eq!(red(table.read(&view.live(view.end_seq()).unwrap())), 0);
    let frozen = memtable.freeze();
    assert_eq!(red(table.read(&frozen.view().live(frozen.end_seq()).unwrap())), 0);
    assert!(frozen.superseded().contains(0));
}

#[test]
fn lance_6754_without_any_index_every_batch_is_visible() {
    for key in [Key::Int, Key::Absent] {
        let table = Table::new(key);
        let mut memtable = table.memtable(1, 1);
        for batch in 0..50 {
            memtable.append(&table.rows(&[(batch, "x")])).unwrap();
            let view = memtable.view();
            assert_eq!(table.read(&view.live(view.end_seq()).unwrap()).len() as i64, batch + 1);
        }
    }
}

#[test]
fn a_delete_hides_older_rows_and_a_later_put_brings_the_key_back() {
    for key in KEYED {
        let table = Table::new(key);
        let mut memtable = table.memtable(1, 10);
        memtable.append(&table.rows(&[(1, "a"), (2, "b")])).unwrap();
        memtable.append(&table.deletes(&[1])).unwrap();
        memtable.append(&table.rows(&[(1, "again")])).unwrap();
        let view = memtable.view();
        let live = |at: u64| table.read(&view.live(Seq::new(at)).unwrap());
        let visible = |at: u64| table.read(&view.visible(Seq::new(at)).unwrap());
        assert_eq!(live(10), vec![]);
        assert_eq!(live(12), vec![row(1, "a"), row(2, "b")]);
        assert_eq!(live(13), vec![row(2, "b")], "{key:?}");
        assert_eq!(visible(13), vec![row(2, "b"), gone(1)], "a tombstone hides older rows elsewhere (P18)");
        assert_eq!(live(14), vec![row(2, "b"), row(1, "again")]);
    }
}

#[test]
fn without_a_key_every_row_is_kept() {
    let table = Table::new(Key::Absent);
    let mut memtable = table.memtable(1, 1);
    memtable.append(&table.rows(&[(1, "a"), (1, "b"), (1, "a")])).unwrap();
    assert_eq!(table.read(&memtable.view().live(Seq::new(4)).unwrap()).len(), 3);
    let frozen = memtable.freeze();
    assert!(frozen.superseded().is_empty());
    assert_eq!(frozen.key_bytes(), None, "absent, not zero");
    assert!(frozen.key().is_none());
}

#[test]
fn a_newer_memtable_replaces_rows_of_a_frozen_one_for_reads_but_not_in_its_files() {
    for key in KEYED {
        let table = Table::new(key);
        let mut memtable = table.memtable(1, 1);
        memtable.append(&table.rows(&[(1, "a"), (2, "b"), (1, "a2")])).unwrap();
        let frozen = memtable.freeze();
        let before = frozen.view();
        let late = table.rows(&[(3, "c"), (1, "a3"), (1, "a4")]);
        let newest = |row| frozen.newest(&late.keys, row).map(RowOffset::get);
        assert_eq!([newest(0), newest(1), newest(2)], [None, Some(2), Some(2)], "{key:?}");
        assert_eq!(frozen.supersede_all(&late.keys, Seq::new(4)), 1, "{key:?}");
        let live = |at: u64| table.read(&before.live(Seq::new(at)).unwrap());
        assert_eq!(live(4), vec![row(2, "b"), row(1, "a2")]);
        assert_eq!(
            live(5),
            vec![row(2, "b"), row(1, "a2")],
            "the replacing row has Seq 5, so S = 5 lacks it"
        );
        assert_eq!(live(6), vec![row(2, "b")], "{key:?}");
        assert_eq!(frozen.superseded().iter().collect::<Vec<_>>(), vec![0], "cut at end(G)");
    }
}

#[test]
fn a_successor_is_written_once() {
    let table = Table::new(Key::Int);
    let mut memtable = table.memtable(1, 1);
    memtable.append(&table.rows(&[(1, "a")])).unwrap();
    let frozen = memtable.freeze();
    assert!(frozen.supersede(RowOffset::new(0), Seq::new(7)));
    assert!(!frozen.supersede(RowOffset::new(0), Seq::new(9)));
    assert!(!frozen.supersede(RowOffset::new(5000), Seq::new(9)), "there is no such row");
    assert_eq!(frozen.view().superseded_by(RowOffset::new(0)), Seq::new(7));
}

#[test]
fn keys_that_look_alike_are_different_keys() {
    // Composite keys whose parts join to the same text; text keys that are prefixes of each other.
    let table = Table::new(Key::Composite);
    let mut memtable = table.memtable(1, 1);
    let all: Vec<(i64, &str)> = (0..200).map(|key| (key, "v")).collect();
    memtable.append(&table.rows(&all)).unwrap();
    assert_eq!(memtable.distinct_keys(), 200);
    let table = Table::new(Key::Text);
    let mut memtable = table.memtable(1, 1);
    memtable.append(&table.rows(&[(1, "a"), (11, "b"), (111, "c"), (1111, "d")])).unwrap();
    assert_eq!(memtable.distinct_keys(), 4);
}

#[test]
fn rows_of_another_form_of_key_or_schema_are_an_internal_error_not_a_panic() {
    let (ints, texts, none) = (Table::new(Key::Int), Table::new(Key::Text), Table::new(Key::Absent));
    let mut memtable = ints.memtable(1, 1);
    let violation = memtable.append(&texts.rows(&[(1, "a")])).unwrap_err();
    assert_eq!(violation.invariant, "P15");
    let mut keyless = none.rows(&[(1, "a")]);
    keyless.batch = ints.rows(&[(1, "a")]).batch;
    let violation = memtable.append(&keyless).unwrap_err();
    assert_eq!(violation.invariant, "P4");
    assert_eq!(memtable.rows(), 0);
}
