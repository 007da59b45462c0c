//! Snapshots by token: read again by whoever has it, the same each time (P6, P13), counted, and not for ever.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use headwater::{
    Error, GetRequest, NoSnapshotToken, OpenOptions, ReadOptions, ReadSnapshot, Reader, ScanRequest,
    Sharding, SnapshotToken, SqlSession, SqlSettings, Table,
};
use lance::Dataset;

use crate::base_refresh::Clock;
use crate::support::{Home, keys, named, options, rows, schema, text};

async fn create(home: &Home, options: OpenOptions) -> Table {
    Table::create(&home.uri(), &schema(), &["id".to_owned()], &Sharding::Unsharded, options).await.unwrap()
}

/// What scan, count, get and SQL say, as text.
async fn answers(snapshot: &ReadSnapshot) -> Vec<String> {
    let scan = ScanRequest { filter: Some("name <> 'no'".to_owned()), ..ScanRequest::default() };
    let scanned: Vec<_> = snapshot.scan(&scan).await.unwrap().try_collect().await.unwrap();
    let got = snapshot.get(&GetRequest { keys: keys(&[1, 2, 3, 4, 70]), columns: None }).await.unwrap();
    let session = SqlSession::new(&SqlSettings::default()).unwrap();
    session.register("t", snapshot).unwrap();
    let sql = "SELECT count(*), min(id), max(name) FROM t";
    let sql: Vec<_> = session.sql(sql).await.unwrap().try_collect().await.unwrap();
    let show = |batches: &[arrow_array::RecordBatch]| {
        let shown = arrow_cast::pretty::pretty_format_batches(batches).unwrap().to_string();
        let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
        // Which tier a row comes from says nothing about it.
        lines.sort();
        lines.join("\n")
    };
    let count = snapshot.count(None).await.unwrap().to_string();
    vec![show(&scanned), show(&[got]), show(&sql), count]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_snapshot_reads_the_same_before_and_after_flush_by_its_token_p13() {
    let home = Home::new();
    let table = create(&home, options()).await;
    table.put(named(0..5)).await.unwrap();
    table.flush().await.unwrap();
    table.put(rows(&[(1, "changed"), (9, "new")])).await.unwrap();
    table.delete(keys(&[3])).await.unwrap();
    // As text, as another read of this process would be handed it.
    let token = table.pin().await.unwrap().to_string();
    let at = |token: &str| table.at(&token.parse::<SnapshotToken>().unwrap()).unwrap();
    let before = answers(&at(&token)).await;
    assert_eq!(before.last().unwrap(), "5");
    table.put(rows(&[(1, "changed again"), (70, "newer")])).await.unwrap();
    assert_eq!(answers(&at(&token)).await, before);
    table.flush().await.unwrap();
    assert_eq!(answers(&at(&token)).await, before, "over memtables that are SSTables by now");
    table.delete(keys(&[0, 1, 2])).await.unwrap();
    table.flush().await.unwrap();
    assert_eq!(answers(&at(&token)).await, before);
    assert_eq!(table.count(None).await.unwrap(), 3, "others read on");
    assert!(table.release(&token.parse().unwrap()));
    assert!(!table.release(&token.parse().unwrap()), "once");
    let gone = table.at(&token.parse().unwrap()).unwrap_err();
    assert!(matches!(gone, Error::NoSuchSnapshot { .. }), "{gone}");
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_pins_too() {
    let home = Home::new();
    let table = create(&home, options()).await;
    table.put(named(0..5)).await.unwrap();
    let poll = Duration::from_secs(3600);
    let reader = Reader::open(&home.uri(), options(), ReadOptions { poll }).await.unwrap();
    assert_eq!(reader.count(None).await.unwrap(), 5);
    table.put(named(5..6)).await.unwrap();
    let token = reader.pin().await.unwrap();
    table.put(named(6..9)).await.unwrap();
    table.flush().await.unwrap();
    assert_eq!(reader.strong().await.unwrap().count(None).await.unwrap(), 9);
    assert_eq!(reader.at(&token).unwrap().count(None).await.unwrap(), 6, "as fresh as when it was pinned");
    assert_eq!(reader.pinned().count, 1);
    let elsewhere = table.at(&token).unwrap_err();
    assert!(matches!(elsewhere, Error::NoSuchSnapshot { .. }), "{elsewhere}");
    assert!(!table.release(&token));
    assert!(reader.release(&token));
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pinned_is_counted_and_keeps_its_memory_until_it_is_released_b2_l5() {
    let home = Home::new();
    let table = create(&home, options()).await;
    assert_eq!(table.stats().pinned, Default::default());
    table.put(named(0..20_000)).await.unwrap();
    let (first, second) = (table.pin().await.unwrap(), table.pin().await.unwrap());
    assert_ne!(first, second);
    let pinned = table.stats().pinned;
    assert_eq!(pinned.count, 2);
    assert!(pinned.oldest.is_some());
    let bytes = pinned.memtable_bytes;
    assert!(bytes > 20_000 * 10, "{bytes} bytes of 20,000 rows");
    assert!(bytes <= table.stats().memory_used, "both keep the same memtable: it is counted once");
    table.flush().await.unwrap();
    // The shard has let go of the memtable, the snapshots have not.
    assert!(table.stats().memory_used >= bytes, "{} >= {bytes}", table.stats().memory_used);
    assert!(table.release(&first));
    assert!(table.stats().memory_used >= bytes, "the other one still has it");
    assert!(table.release(&second));
    assert!(table.stats().memory_used < bytes / 2, "{} < {bytes} / 2", table.stats().memory_used);
    assert_eq!(table.stats().pinned, Default::default());
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_more_than_may_be_and_the_error_says_what_to_do() {
    let home = Home::new();
    let mut few = options();
    few.settings.reads.max_pinned_snapshots = 2;
    let table = create(&home, few).await;
    let (first, _second) = (table.pin().await.unwrap(), table.pin().await.unwrap());
    let error = table.pin().await.unwrap_err();
    assert!(matches!(error, Error::TooManySnapshots { pinned: 2, max: 2, .. }), "{error}");
    assert!(error.is_retryable());
    for part in ["2 snapshots", "release some", "reads.max_pinned_snapshots"] {
        assert!(text(&error).contains(part), "{part}: {error}");
    }
    table.release(&first);
    table.pin().await.unwrap();
    table.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_too_old_says_so_p6() {
    let home = Home::new();
    let clock = Arc::new(Clock::default());
    let table = create(&home, OpenOptions { env: Some(clock.clone()), ..options() }).await;
    table.put(named(0..3)).await.unwrap();
    let token = table.pin().await.unwrap();
    clock.put_forward(599_000);
    assert_eq!(table.at(&token).unwrap().count(None).await.unwrap(), 3);
    clock.put_forward(1_001);
    let error = table.at(&token).unwrap_err();
    assert!(matches!(error, Error::SnapshotExpired { max_age_ms: 600_000, .. }), "{error}");
    assert!(error.to_string().contains("pin a new one") && !error.is_retryable(), "{error}");
    assert!(!table.release(&token));
    table.close().await.unwrap();
}

/// Nobody has to ask for it: its memory is given back when its time is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_nobody_releases_goes_by_itself_l5() {
    let home = Home::new();
    let mut short = options();
    short.settings.reads.snapshot_max_age_ms = 50;
    let table = create(&home, short).await;
    table.put(named(0..3)).await.unwrap();
    let token = table.pin().await.unwrap();
    while table.stats().pinned.count > 0 {
        tokio::task::yield_now().await;
    }
    let error = table.at(&token).unwrap_err();
    assert!(matches!(error, Error::SnapshotExpired { .. }), "{error}");
    table.close().await.unwrap();
}

#[test]
fn only_what_a_token_prints_as_is_a_token() {
    let id = "0123456789abcdef0123456789abcdef";
    let token = format!("{id}-7-1500");
    assert_eq!(token.parse::<SnapshotToken>().unwrap().to_string(), token);
    for wrong in [
        "",
        "x",
        id,
        &format!("{id}-7"),
        &format!("{id}-7-"),
        &format!("{id}-07-1500"),
        &format!("{token}-1"),
        &token.to_uppercase(),
    ] {
        let error: NoSnapshotToken = wrong.parse::<SnapshotToken>().unwrap_err();
        assert!(error.to_string().contains("no snapshot token"), "{wrong}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_base_version_is_read_alone_and_says_so() {
    let home = Home::new();
    let base = arrow_array::RecordBatchIterator::new([Ok(named(0..10))], named(0..1).schema());
    let before_init = Dataset::write(base, &home.uri(), None).await.unwrap().version_id();
    let key = ["id".to_owned()];
    let table = Table::init(&home.uri(), &key, &Sharding::Unsharded, options()).await.unwrap();
    table.put(rows(&[(1, "changed"), (50, "new")])).await.unwrap();
    let newest = table.read(headwater::ReadLevel::Durable).await.unwrap();
    assert!(!newest.is_base_only());
    let with_ten = newest.base_version();
    Dataset::open(&home.uri()).await.unwrap().delete("id < 5").await.unwrap();
    table.refresh().await.unwrap();
    assert_eq!(table.count(None).await.unwrap(), 7, "5 of the base, and 1 and 50 of the write tier");

    for version in [before_init, with_ten] {
        let old = table.read_version(version).await.unwrap();
        assert!(old.is_base_only());
        assert_eq!(old.base_version(), version);
        assert_eq!(old.count(None).await.unwrap(), 10, "version {version}");
        assert_eq!(old.count(Some("name = 'changed'")).await.unwrap(), 0, "the write tier is of now");
        let plan = old.explain(&ScanRequest::default()).await.unwrap();
        assert!(plan.contains(&format!("base, version={version} (base only), rows=10, hidden=0")), "{plan}");
    }
    let get = GetRequest { keys: keys(&[1, 50]), columns: None };
    assert_eq!(table.read_version(with_ten).await.unwrap().get(&get).await.unwrap().num_rows(), 1);
    let plan = newest.explain(&ScanRequest::default()).await.unwrap();
    assert!(!plan.contains("base only"), "{plan}");
    let error = table.read_version(999).await.unwrap_err();
    assert!(matches!(error, Error::Table { .. }) && text(&error).contains("no version 999"), "{error}");
    table.close().await.unwrap();
    assert!(matches!(table.read_version(with_ten).await, Err(Error::Closed { .. })));
}
