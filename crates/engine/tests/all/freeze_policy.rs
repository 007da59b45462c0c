//! When a memtable is frozen.

use std::time::Duration;

use headwater_engine::freeze::{FreezeReason, Incoming, MemtableStats, choose_freeze};
use headwater_engine::settings::FreezeSettings;
use proptest::prelude::*;

fn settings() -> FreezeSettings {
    FreezeSettings {
        max_rows: 100,
        max_bytes: 1000,
        max_entries: 10,
        max_wal_bytes: 500,
        max_age_ms: Some(60_000),
    }
}

fn stats() -> MemtableStats {
    MemtableStats { rows: 1, bytes: 10, entries: 1, wal_bytes: 10, age: Duration::from_secs(1) }
}

fn chosen(stats: MemtableStats, incoming: Incoming) -> Option<FreezeReason> {
    choose_freeze(&stats, incoming, &settings())
}

#[test]
fn each_limit_freezes_when_it_is_reached_and_not_before() {
    let nothing = Incoming::default();
    let cases = [
        (MemtableStats { rows: 99, ..stats() }, None),
        (MemtableStats { rows: 100, ..stats() }, Some(FreezeReason::Rows)),
        (MemtableStats { bytes: 999, ..stats() }, None),
        (MemtableStats { bytes: 1000, ..stats() }, Some(FreezeReason::Bytes)),
        (MemtableStats { entries: 9, ..stats() }, None),
        (MemtableStats { entries: 10, ..stats() }, Some(FreezeReason::Entries)),
        (MemtableStats { wal_bytes: 499, ..stats() }, None),
        (MemtableStats { wal_bytes: 500, ..stats() }, Some(FreezeReason::WalBytes)),
        (MemtableStats { age: Duration::from_millis(59_999), ..stats() }, None),
        (MemtableStats { age: Duration::from_secs(60), ..stats() }, Some(FreezeReason::Age)),
    ];
    for (stats, expected) in cases {
        assert_eq!(chosen(stats, nothing), expected, "{stats:?}");
    }
}

#[test]
fn a_put_that_would_take_it_past_a_limit_freezes_it_first() {
    let almost = MemtableStats { rows: 60, bytes: 600, ..stats() };
    assert_eq!(chosen(almost, Incoming { rows: 40, bytes: 400 }), None, "it fits exactly");
    assert_eq!(chosen(almost, Incoming { rows: 41, bytes: 1 }), Some(FreezeReason::Rows));
    assert_eq!(chosen(almost, Incoming { rows: 1, bytes: 401 }), Some(FreezeReason::Bytes));
}

#[test]
fn an_empty_memtable_is_never_frozen() {
    let empty =
        MemtableStats { rows: 0, age: Duration::from_secs(1000), entries: 99, ..MemtableStats::default() };
    assert_eq!(chosen(empty, Incoming { rows: 1000, bytes: 1 << 40 }), None);
}

#[test]
fn without_a_limit_on_age_an_old_memtable_stays() {
    let old = MemtableStats { age: Duration::from_secs(1 << 40), ..stats() };
    let settings = FreezeSettings { max_age_ms: None, ..settings() };
    assert_eq!(choose_freeze(&old, Incoming::default(), &settings), None);
}

#[test]
fn one_key_overwritten_for_ever_rotates() {
    // Rows count physically, whatever they replace; so do entries.
    let mut stats = MemtableStats::default();
    let mut rotations = 0;
    for _ in 0..1000 {
        let incoming = Incoming { rows: 1, bytes: 1 };
        if chosen(stats, incoming).is_some() {
            rotations += 1;
            stats = MemtableStats::default();
        }
        stats.rows += 1;
        stats.entries += 1;
    }
    assert_eq!(rotations, 99);
}

proptest! {
    #[test]
    fn followed_a_memtable_never_exceeds_a_limit_but_by_a_single_put(
        puts in proptest::collection::vec((1..150_u64, 0..1500_u64), 1..60)
    ) {
        let mut stats = MemtableStats::default();
        for (rows, bytes) in puts {
            if chosen(stats, Incoming { rows, bytes }).is_some() {
                prop_assert!(stats.rows > 0);
                stats = MemtableStats::default();
            }
            let alone = stats.rows == 0;
            stats.rows += rows;
            stats.bytes += bytes;
            prop_assert!(alone || (stats.rows <= 100 && stats.bytes <= 1000), "{:?}", stats);
        }
    }
}
